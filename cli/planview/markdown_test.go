package planview

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/planner"
	"salectl/spec"
)

// planned is a part of a page: a sale of so many shards that is to be made, each shard's line
// as long as it gets.
func planned(name string, shards int) Part {
	plan := &planner.Plan{Kind: planner.KindApply, Sale: name, Generation: 1}
	limit := int64(5)
	add := func(address string, after *planner.Attributes) {
		plan.Actions = append(plan.Actions, planner.Action{Address: address, Action: planner.Create, After: after, Reason: "case " + address})
		plan.Summary.Create++
	}
	add("sale/"+name, &planner.Attributes{Phase: "open", Sale: &spec.Sale{Stock: 5 * int64(shards), LockCount: shards, PerUserLimit: 1}})
	for i := range shards {
		add(fmt.Sprint("shard/", i), &planner.Attributes{Limit: &limit, Units: fmt.Sprintf("%d-%d", 5*i+1, 5*i+5)})
	}
	return Part{Sale: spec.Sale{Name: name, File: name + ".yaml:1"}, Plan: plan}
}

// A decoded plan may lack the attributes of its actions.
func TestMarkdownWithoutAttributes(t *testing.T) {
	for _, action := range []string{planner.Create, planner.Update, planner.Delete} {
		plan := &planner.Plan{Kind: planner.KindApply, Sale: "tickets", Phase: "open", Actions: []planner.Action{{Address: "sale/tickets", Action: action}}}
		g := &Page{How: "salectl plan", Parts: []Part{{Sale: spec.Sale{Name: "tickets"}, Plan: plan}}}
		if text := g.Text(); !strings.Contains(text, "sale/tickets") {
			t.Errorf("%s: %s", action, text)
		}
	}
}

// A page never has more characters than a comment may have, whatever the plans. It ends
// within no block of code or fold, keeps its marker, and says what is left out.
func TestMarkdownIsCut(t *testing.T) {
	many := func(sales, shards int) (parts []Part) {
		for i := range sales {
			parts = append(parts, planned(fmt.Sprintf("sale-with-a-name-as-long-as-names-may-be-and-a-number-%04d", i), shards))
		}
		return parts
	}
	problems := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("Error: problem %d with ```` in it: %s", i, strings.Repeat("long ", 60)))
		}
		return all
	}
	for name, test := range map[string]struct {
		parts []Part
		cut   bool
		says  []string
		wrong []string
	}{
		"one":               {many(1, 3), false, nil, nil},
		"many problems":     {nil, true, []string{" more lines\n```"}, problems(1000)},
		"problems and more": {many(400, 3), true, []string{" more lines\n```", "Sales left out: "}, problems(200)},
		"a large one":       {many(1, 5000), true, []string{" more lines\n```\n\n</details>\n"}, nil},
		"some":              {many(8, 30), false, nil, nil},
		"so many in part":   {many(60, 30), true, []string{" more lines\n```\n\n</details>\n"}, nil},
		"too many":          {many(400, 1), true, []string{"Sales left out: `sale-with-", " more sales. "}, nil},
		"thousands of them": {many(4000, 1), true, []string{"Sales left out: `sale-with-", " more sales.\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Page{How: "salectl plan", Parts: test.parts, Errors: test.wrong}
			text := g.Text()
			if n := mdLength(text); n > maxCharacters {
				t.Errorf("the page has %d characters", n)
			}
			if !strings.HasPrefix(text, g.marker()) {
				t.Errorf("it begins with %.60s", text)
			}
			if !fencesShut(text) || strings.Count(text, "<details open>") != strings.Count(text, "</details>") {
				t.Error("it ends within a block")
			}
			if cut := strings.Contains(text, "**This comment is shortened") && strings.HasSuffix(text, "`salectl plan` prints all.\n"); cut != test.cut {
				t.Errorf("it reports the phase cut: %v; it ends with %s", cut, text[max(0, len(text)-300):])
			}
			for _, what := range test.says {
				if !strings.Contains(text, what) {
					t.Errorf("no %q in the page, which ends with %s", what, text[max(0, len(text)-1200):])
				}
			}
		})
	}
}

// fencesShut reports whether each block of code is closed by the fence that has begun it.
func fencesShut(text string) bool {
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		ticks := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case len(ticks) < 3:
		case fence == "" && line == ticks+"text":
			fence = ticks
		case fence == line:
			fence = ""
		}
	}
	return fence == ""
}

// TestMarkdownOfUnpaidClaims holds the sentence about a changed spec.payment.unpaidPerUser.
func TestMarkdownOfUnpaidClaims(t *testing.T) {
	unpaid := func(n int64) *planner.Attributes {
		return &planner.Attributes{Sale: &spec.Sale{Payment: &spec.Payment{HoldFor: spec.Duration(10 * time.Minute), UnpaidPerUser: n}}}
	}
	for name, c := range map[string]struct {
		before, after int64
		want          string
	}{
		"other":   {20, 5, "- A user with 5 cancelled or expired claims may claim no more.\n"},
		"one":     {20, 1, "- A user with 1 cancelled or expired claim may claim no more.\n"},
		"as much": {20, 20, "- Nothing.\n"},
	} {
		plan := &planner.Plan{Actions: []planner.Action{{Address: "sale/a", Action: planner.Update, Before: unpaid(c.before), After: unpaid(c.after)}}}
		if got := noticed(plan); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
