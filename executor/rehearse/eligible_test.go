package rehearse

import (
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"

	"salectl/spec"
)

// refusedBy makes the record of a claim that the rule refused, sent and answered at these
// times.
func refusedBy(rule string, began, ended int, key string) record {
	r := at(began, ended, key, 403, "not_eligible")
	r.rule = rule
	return r
}

// A refusal by a rule is right when the rules say so at some time of the claim, and so is
// a sale.
func TestJudgeKnowsTheRules(t *testing.T) {
	epoch := time.Unix(0, 0)
	rules := func(user string, _ int64, _ string, at time.Time) string {
		switch {
		case user == "out", user == "soon" && at.Sub(epoch) < 5:
			return "members"
		}
		return ""
	}
	for name, c := range map[string]struct {
		rules  func(string, int64, string, time.Time) string
		record record
		want   string // a part of the only violation; "": none
	}{
		"refused, and out":               {rules, refusedBy("members", 0, 1, "out/1"), ""},
		"refused, and in":                {rules, refusedBy("members", 0, 1, "in/1"), `in/1 of in was answered 403 not_eligible by rule "members", expected rule ""`},
		"refused by another":             {rules, refusedBy("adults", 0, 1, "out/1"), `by rule "adults", expected rule "members"`},
		"refused while it became right":  {rules, refusedBy("members", 4, 6, "soon/1"), ""},
		"sold while it became right":     {rules, at(4, 6, "soon/1", 201, "sold", 1), ""},
		"refused after it became right":  {rules, refusedBy("members", 5, 6, "soon/1"), `expected rule ""`},
		"sold before it became right":    {rules, at(0, 1, "soon/1", 201, "sold", 1), `soon/1 of soon was answered 201 sold by rule "", expected rule "members"`},
		"sold, and in":                   {rules, at(0, 1, "in/1", 201, "sold", 1), ""},
		"sold, and out":                  {rules, at(0, 1, "out/1", 201, "sold", 1), `expected rule "members"`},
		"refused where there is no rule": {nil, refusedBy("members", 0, 1, "in/1"), `expected rule ""`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, now := range []*clock.Now{&c.record.began, &c.record.ended} {
				now.Wall = epoch.Add(now.Mono)
			}
			violations := judged(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 2, Stock: 3}, Refused: c.rules}, []record{c.record}, nil, nil).violations
			switch {
			case c.want == "" && len(violations) > 0:
				t.Errorf("unfair: %q", violations)
			case c.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], c.want)):
				t.Errorf("got %q, want only %q", violations, c.want)
			}
		})
	}
}

// Names are taken in their order, over and over, and keys are those of buyers.
func TestPlanTakesNames(t *testing.T) {
	keys := map[string]string{}
	for _, v := range planned(Config{Sale: spec.Sale{PerUserLimit: 3, Stock: 100}, Users: 7, Seed: 1, Names: []string{"ada", "béa"}}) {
		for _, k := range v {
			keys[k.key[:len(Name(0))]] = k.user
		}
	}
	for i := range 7 {
		if want := []string{"ada", "béa"}[i%2]; keys[Name(i)] != want {
			t.Errorf("buyer %d is %q, want %q", i, keys[Name(i)], want)
		}
	}
}
