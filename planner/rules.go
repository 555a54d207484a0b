package planner

import (
	"encoding/hex"
	"fmt"
	"strings"

	"salectl/rules"
	"salectl/spec"
)

// listRules lists who may claim.
func (a *Attributes) listRules(sale *spec.Sale, show func(name, value string)) {
	show("rule set", a.RuleSet[:min(len(a.RuleSet), shortSet)])
	var names []string
	for _, r := range sale.Rules {
		names = append(names, r.Name)
	}
	show("rules", strings.Join(names, ", "))
	for _, r := range sale.Rules {
		show("rule "+r.Name, fmt.Sprintf("%s%s: %s", r.Enforce, costText(a.Costs["rule "+r.Name]), inLine(r.Require)))
		show("rule "+r.Name+", message", inLine(r.Message))
		show("rule "+r.Name+", messageExpression", inLine(r.MessageExpression))
	}
	for _, v := range sale.Variables {
		show("variable "+v.Name, inLine(v.Expression))
	}
}

// shortSet is the number of digits of a rule set's hash that people are shown.
const shortSet = 12

func costText(worst uint64) string {
	if worst == 0 {
		return ""
	}
	return fmt.Sprintf(", cost at most %s of %s", spec.Grouped(worst), spec.Grouped(uint64(rules.MaxCost)))
}

// inLine returns an expression in one line.
func inLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// RulesStatus is a summary of the rules of a sale.
type RulesStatus struct {
	RuleSet string   `json:"ruleSet"`         // SHA-256 in force, in hex
	Deny    []string `json:"deny,omitempty"`  // names, in order of evaluation
	Audit   []string `json:"audit,omitempty"` // names
	// Priority reports that waiting claims are decided by priority.
	Priority bool `json:"priority,omitempty"`
}

// rulesShown describes the rules in force; nil if there are none.
func rulesShown(hash []byte, declared spec.Sale) *RulesStatus {
	if len(hash) == 0 {
		return nil
	}
	s := &RulesStatus{RuleSet: hex.EncodeToString(hash), Priority: declared.Queue != nil && declared.Queue.Priority != ""}
	for _, r := range declared.Rules {
		if r.Enforce == spec.EnforceAudit {
			s.Audit = append(s.Audit, r.Name)
		} else {
			s.Deny = append(s.Deny, r.Name)
		}
	}
	return s
}

// String describes the rules in one line.
func (s *RulesStatus) String() string {
	var words []string
	if len(s.Deny) > 0 {
		words = append(words, strings.Join(s.Deny, ", "))
	}
	if len(s.Audit) > 0 {
		words = append(words, "in audit "+strings.Join(s.Audit, ", "))
	}
	if s.Priority {
		words = append(words, "waiting claims by priority")
	}
	return fmt.Sprintf("%s (rule set %s)", strings.Join(words, "; "), s.RuleSet[:min(len(s.RuleSet), shortSet)])
}
