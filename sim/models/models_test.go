package models

import (
	"testing"

	"salectl/sim/models/explore"
)

// Every case finds what it is to find, or nothing. The large ones are for `make models`.
func TestCases(t *testing.T) {
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range m.Cases {
				if c.Large {
					continue
				}
				r := c.Run()
				if err := c.Check(r); err != nil {
					t.Errorf("%s: %v\n%s", c.Name, err, r)
				}
			}
		})
	}
}

// Every rule is left out by a case of its model, which finds something, and every
// model has a case that leaves nothing out and finds nothing.
func TestEveryRuleIsNeeded(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range All() {
		rules := map[string]bool{}
		for _, r := range m.Rules {
			if rules[r.Name] = true; seen[r.Name] {
				t.Errorf("%s: another rule has the name %s", m.Name, r.Name)
			}
			if seen[r.Name] = true; r.Text == "" || r.Without == "" {
				t.Errorf("%s: rule %s has no text, or does not say what happens without", m.Name, r.Name)
			}
		}
		left, whole := map[string]bool{}, false
		for _, c := range m.Cases {
			if c.Off != "" && !rules[c.Off] {
				t.Errorf("%s: case %q leaves out %s, which is no rule of the model", m.Name, c.Name, c.Off)
			}
			if c.Off != "" && c.Finds == "" {
				t.Errorf("%s: case %q leaves out %s and finds nothing", m.Name, c.Name, c.Off)
			}
			left[c.Off] = true
			whole = whole || c.Off == "" && c.Finds == "" && !c.Large
		}
		for name := range rules {
			if !left[name] {
				t.Errorf("%s: no case leaves out %s", m.Name, name)
			}
		}
		if !whole {
			t.Errorf("%s: no small case has all rules and finds nothing", m.Name)
		}
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		finds, found string
		cut, ok      bool
	}{
		"holds":                 {ok: true},
		"found":                 {finds: "a", found: "a", ok: true},
		"found where it holds":  {found: "a"},
		"found nothing":         {finds: "a"},
		"found something else":  {finds: "a", found: "b"},
		"not explored in full":  {cut: true},
		"found in what was cut": {finds: "a", found: "a", cut: true, ok: true},
	} {
		err := Case{Finds: c.finds}.Check(explore.Result{Wrong: c.found, Cut: c.cut})
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
