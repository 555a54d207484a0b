package planner

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"salectl/rules"
	"salectl/spec"
)

// listRules lists who may claim, and in which order.
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
	if u := sale.Users; u != nil {
		var types []string
		for _, a := range u.Attributes {
			types = append(types, a.Name+" "+a.Type)
		}
		show("users.attributes", strings.Join(types, ", "))
		show("users.from", fromText(u.Table == nil, "a file", u.Table))
		listTable(u.Table, "users", show)
		show("users.fresh", termText(u.Fresh))
		show("users.cached", spec.Grouped(u.Cached))
	}
	if h := sale.History; h != nil {
		var table *spec.UsersTable
		if t := h.Table; t != nil {
			table = &spec.UsersTable{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table, Family: t.Family}
		}
		show("history.from", fromText(h.Files != nil, "exports", table))
		listTable(table, "history", show)
	}
	if q := sale.Queue; q != nil {
		show("queue.order", string(q.Order))
		if q.Priority != "" {
			show("queue.priority", inLine(q.Priority)+costText(a.Costs["priority"]))
		}
		show("queue.depth", spec.Grouped(q.Depth))
	}
}

// listTable lists the attributes of an external table.
func listTable(t *spec.UsersTable, of string, show func(name, value string)) {
	if t == nil {
		return
	}
	show(of+".columns", mapText(t.Columns))
	show(of+".zookeeper", strings.Join(t.Zookeeper, ", "))
	show(of+".zookeeperRoot", t.ZookeeperRoot)
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

func mapText(m map[string]string) string {
	var words []string
	for name, value := range m {
		words = append(words, name+" "+value)
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// fromText describes a source: files, if there are any, and a table.
func fromText(any bool, files string, t *spec.UsersTable) string {
	var words []string
	if any {
		words = append(words, files)
	}
	if t != nil {
		words = append(words, fmt.Sprintf("HBase table %s, family %s", t.Table, t.Family))
	}
	return strings.Join(words, " and ")
}

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
