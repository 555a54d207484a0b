package planner

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/rules"
	"salectl/spec"
)

// The options of a sale have several forms here: the settings that shards receive, the
// attributes that plans show, and the settings in force that a status shows. This file
// combines the options; what shards receive is in generation.go.

// Attributes describe a resource before or after an action. A sale, a shard and a node have
// different ones, a table has none. Those that do not apply are omitted.
type Attributes struct {
	// Sale is the declaration of a sale, before an update with the settings in force.
	Sale  *spec.Sale `json:"sale,omitempty"`
	Phase string     `json:"phase,omitempty"` // of the sale, which may differ from the declared one
	// RuleSet is the SHA-256 of all that is evaluated, in hex; "" if there is nothing. Costs are
	// the worst-case costs of rules and of the priority, in units of CEL; unknown ones are absent.
	RuleSet   string            `json:"ruleSet,omitempty"`
	Costs     map[string]uint64 `json:"costs,omitempty"` // by "rule NAME", and "priority"
	CostLimit uint64            `json:"costLimit,omitempty"`
	// UnitsDigest is the digest of all payloads of units, in hex; unknown before apply.
	UnitsDigest string `json:"unitsDigest,omitempty"`
	// Ends is what a destroy ends; nil for other plans and if nothing is left.
	Ends       *Ends  `json:"ends,omitempty"`
	Generation uint64 `json:"generation,omitempty"`

	Limit *int64 `json:"limit,omitempty"` // units of the shard, sold or not
	Units string `json:"units,omitempty"` // new unit numbers

	Marker string `json:"marker,omitempty"` // of a lock node: good, missing, abstaining, unknown

	List string `json:"list,omitempty"` // of a shard of a sale of engine redis: on, off, unknown
	Node string `json:"node,omitempty"` // node of the list
}

// list returns every attribute. Absent ones are "", or omitted if their number is variable.
func (a *Attributes) list() (fields []Field) {
	a = cmp.Or(a, new(Attributes))
	show := func(name, text string) { fields = append(fields, Field{Name: name, After: text}) }
	sale := cmp.Or(a.Sale, new(spec.Sale))
	spec.Each(sale, func(path, text string) {
		name := strings.TrimPrefix(strings.TrimPrefix(path, "metadata."), "spec.")
		switch {
		case name == "name", strings.HasSuffix(name, "].name"), name == "phase":
			return
		case name == "stock": // the phases precede it
			show("phase", a.Phase)
			show("spec.phase", string(sale.Phase))
		}
		show(name, text)
	})
	fields = append(fields, a.Ends.Fields()...)
	if u := sale.Units; u != nil {
		show("units.from", map[bool]string{true: "file"}[u.FromFile])
		show("units.secret", strconv.FormatBool(u.Secret))
	}
	show("units.digest", a.UnitsDigest[:min(len(a.UnitsDigest), shortSet)])
	if sale.RedPacket != nil {
		show("redPacket", packetText(*sale))
	}
	var names []string
	for _, r := range sale.Rules {
		names = append(names, r.Name)
	}
	show("rules", strings.Join(names, ", "))
	for _, name := range slices.Sorted(maps.Keys(a.Costs)) {
		show("cost of "+name, fmt.Sprintf("at most %s of %s", spec.Grouped(a.Costs[name]), spec.Grouped(a.CostLimit)))
	}
	show("rule set", a.RuleSet[:min(len(a.RuleSet), shortSet)])
	ledger, _ := sale.Ledger()
	show("ledger", ledger.Place)
	if sale.Homes != nil {
		show("lock nodes", strings.Join(sale.Homes.Locks.Nodes, ", "))
	}
	limit, generation := "", ""
	if a.Limit != nil {
		limit = strconv.FormatInt(*a.Limit, 10)
	}
	if a.Generation != 0 {
		generation = strconv.FormatUint(a.Generation, 10)
	}
	show("generation", generation)
	show("limit", limit)
	show("units", a.Units)
	show("marker", a.Marker)
	show("list", a.List)
	show("node", a.Node)
	return fields
}

// shortSet is the number of digits of a rule set's hash that people are shown.
const shortSet = 12

// saleAttributes returns the attributes of a declared sale.
func saleAttributes(s spec.Sale, stock int64, phase string, generation uint64) *Attributes {
	a := &Attributes{Sale: &s, Phase: phase, Generation: generation}
	s.Stock, s.OpensAt, s.ClosesAt = stock, s.OpensAt.UTC(), s.ClosesAt.UTC()
	if s.Engine != spec.EngineRedis {
		s.Engine, s.Ack = "", "" // as ledgers store it
	}
	if hash, ok := rules.HashFor(s); ok {
		a.RuleSet = hash.String()
	}
	// Costs are unknown if another version of this program has made the declaration and this
	// one cannot compile it.
	if set, err := rules.ForSale(s); err == nil && set != nil {
		a.Costs, a.CostLimit = set.Costs(), rules.MaxCost
	}
	return a
}

// DeclaredAttributes returns the attributes that a generation declares.
func DeclaredAttributes(p *pb.Planned) (*Attributes, error) {
	sale, err := Declared(p)
	if err != nil {
		return nil, err
	}
	a := saleAttributes(sale, sale.Stock, ledger.PhaseName(p.GetSettings().GetPhase()), 0)
	a.UnitsDigest = hex.EncodeToString(p.GetUnits())
	return a, nil
}

// inForce replaces declared settings by those in force. They differ if a fault has stored a
// generation with other settings than it declares.
func (a *Attributes) inForce(s *pb.Settings) {
	declared := a.Sale
	declared.PerUserLimit, declared.Partial = s.GetPerUserLimit(), s.GetPartial()
	declared.OpensAt, declared.ClosesAt = ledger.Time(s.GetOpensAtUs()).UTC(), ledger.Time(s.GetClosesAtUs()).UTC()
	declared.Payment = withService(paymentShown(s.GetPayment()), declared.Payment)
	a.RuleSet = hex.EncodeToString(s.GetRules())
}

// InForce returns the payment and the rules of settings, for a status; nil: there are none.
func InForce(s *pb.Settings, declared spec.Sale) (*spec.Payment, *RulesStatus) {
	return paymentShown(s.GetPayment()), rulesShown(s.GetRules(), declared)
}

// packetText describes a red packet for people.
func packetText(s spec.Sale) string {
	r := s.RedPacket
	if r == nil {
		return "numbers"
	}
	return fmt.Sprintf("%s %s, split %s, min %s", r.Format(r.Total), r.Currency, r.Split, r.Format(r.Min))
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
