package rehearse

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"salectl/api"
	"salectl/spec"
)

// Rules reports the effect of the sale's rules.
type Rules struct {
	// Users is the number of users of the sale whose names buyers have; 0: names are made up.
	Users int `json:"users"`
	// Refused counts requests by the name of the rule that refused them.
	Refused map[string]int `json:"refused"`
	// Skipped is the reason why the rehearsal omits the sale's rules; empty: it includes them. The
	// caller sets it.
	Skipped string `json:"skipped,omitempty"`
}

// ruled counts the refusals by rules.
func ruled(c Config, records []record) *Rules {
	r := &Rules{Users: min(len(c.Names), c.Users), Refused: map[string]int{}}
	for i := range records {
		if records[i].Outcome == api.NotEligible {
			r.Refused[records[i].rule]++
		}
	}
	return r
}

// String formats r as a line of a report.
func (r *Rules) String() string {
	if r.Skipped != "" {
		return "left out: " + r.Skipped
	}
	var words []string
	for _, rule := range slices.Sorted(maps.Keys(r.Refused)) {
		words = append(words, fmt.Sprintf("%s refused by %s", spec.Grouped(int64(r.Refused[rule])), rule))
	}
	if len(words) == 0 {
		words = append(words, "nobody was refused")
	}
	if r.Users == 0 {
		return strings.Join(words, ", ") + "; names of buyers are made up"
	}
	return fmt.Sprintf("%s; buyers have the names of %s", strings.Join(words, ", "), spec.Count(r.Users, "user"))
}

// saidBy returns the rules that may have refused a claim, since decisions may change while it is
// under way. "" means that none refuses it.
func (j *judge) saidBy(r *record) []string {
	return []string{
		j.c.Refused(r.user, r.quantity, r.key, r.began.Wall),
		j.c.Refused(r.user, r.quantity, r.key, r.ended.Wall),
	}
}

// letIn checks that the rules do not refuse an accepted claim.
func (j *judge) letIn(r *record) {
	if j.c.Refused == nil {
		return
	}
	if rules := j.saidBy(r); !slices.Contains(rules, "") {
		j.violated("%s of %s was accepted as claim %s, and the rule %s refuses it", r.key, r.user, r.ID, rules[0])
	}
}

// notEligible checks that the rule named in a refusal refuses the claim.
func (j *judge) notEligible(r *record) {
	if j.c.Refused == nil {
		j.violated("%s of %s was refused by the rule %s, and there are no rules", r.key, r.user, r.rule)
		return
	}
	switch rules := j.saidBy(r); {
	case slices.Contains(rules, r.rule):
	case rules[0] == "":
		j.violated("%s of %s was refused by the rule %s, and may claim", r.key, r.user, r.rule)
	default:
		j.violated("%s of %s was refused by the rule %s, and it is the rule %s that refuses", r.key, r.user, r.rule, rules[0])
	}
}
