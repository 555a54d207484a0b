package planner

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"salectl/rules"
	"salectl/spec"
)

// Who describes in plans who may claim, and in which order.
type Who struct {
	// RuleSet is the SHA-256 of all that is evaluated, in hex; "" if there is nothing.
	RuleSet   string          `json:"ruleSet,omitempty"`
	Rules     []Rule          `json:"rules,omitempty"`
	Variables []spec.Variable `json:"variables,omitempty"`
	Users     *spec.Users     `json:"users,omitempty"`
	History   *spec.History   `json:"history,omitempty"`
	Queue     *Queue          `json:"queue,omitempty"`
}

// Rule is one rule. Costs are in units of CEL.
type Rule struct {
	spec.Rule
	WorstCost uint64 `json:"worstCost,omitempty"` // cost of require with its variables; 0: unknown
	CostLimit uint64 `json:"costLimit"`
}

// Queue is the order in which claims are decided.
type Queue struct {
	spec.Queue
	WorstCost uint64 `json:"worstCost,omitempty"` // cost of the priority; 0: unknown, or no priority
}

// whoOf returns the declared Who. Costs are unknown if another version of this program has
// made the declaration and this one cannot compile it.
func whoOf(s spec.Sale) Who {
	var w Who
	if hash, ok := rules.HashFor(s); ok {
		w.RuleSet = hash.String()
	}
	var costs map[string]uint64
	var priority uint64
	if set, err := rules.ForSale(s); err == nil && set != nil {
		costs, priority = set.Costs()
	}
	for _, r := range s.Rules {
		w.Rules = append(w.Rules, Rule{r, costs[r.Name], rules.MaxCost})
	}
	w.Variables, w.Users, w.History = s.Variables, s.Users, s.History
	if s.Queue != nil {
		w.Queue = &Queue{*s.Queue, priority}
	}
	return w
}

// list returns the attributes of a Who.
func (w Who) list() []Field {
	var fields []Field
	show := func(name, value string) { fields = append(fields, Field{Name: name, After: value}) }
	show("rule set", w.RuleSet[:min(len(w.RuleSet), shortSet)])
	var names []string
	for _, r := range w.Rules {
		names = append(names, r.Name)
	}
	show("rules", strings.Join(names, ", "))
	for _, r := range w.Rules {
		show("rule "+r.Name, fmt.Sprintf("%s%s: %s", r.Enforce, costText(r.WorstCost), inLine(r.Require)))
		show("rule "+r.Name+", message", inLine(r.Message))
		show("rule "+r.Name+", messageExpression", inLine(r.MessageExpression))
	}
	for _, v := range w.Variables {
		show("variable "+v.Name, inLine(v.Expression))
	}
	if u := w.Users; u != nil {
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
	if h := w.History; h != nil {
		var table *spec.UsersTable
		if t := h.Table; t != nil {
			table = &spec.UsersTable{Zookeeper: t.Zookeeper, ZookeeperRoot: t.ZookeeperRoot, Table: t.Table, Family: t.Family}
		}
		show("history.from", fromText(h.Files != nil, "exports", table))
		listTable(table, "history", show)
	}
	if q := w.Queue; q != nil {
		show("queue.order", string(q.Order))
		if q.Priority != "" {
			show("queue.priority", inLine(q.Priority)+costText(q.WorstCost))
		}
		show("queue.depth", spec.Grouped(q.Depth))
	}
	return fields
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
