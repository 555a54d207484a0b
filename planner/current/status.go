package current

import (
	"context"
	"fmt"
	"slices"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// Status is a sale by its heads and lock nodes. Heads are read in sequence and may be of
// different moments.
type Status struct {
	// Brief has the phase unknown if the ledger cannot be read. Of an open sale it has the phase stalled
	// if too few lock nodes vote, or if no head of a shard can be read.
	Brief
	Applied uint64          `json:"applied"`          // newest generation known to be on every shard
	Refund  *planner.Refund `json:"refund,omitempty"` // only of a destroyed red packet
	// Payment and Rules are those in force. Payment nil: claims are sold at once, Rules nil: every
	// user may claim.
	Payment  *spec.Payment        `json:"payment,omitempty"`
	Rules    *planner.RulesStatus `json:"rules,omitempty"`
	Owner    string               `json:"owner"` // address that answers claims now; "" if none or unknown
	Unserved bool                 `json:"-"`     // with Owner "": no process serves the sale
	Shards   []ShardStatus        `json:"shards"`
	Nodes    []NodeStatus         `json:"nodes"`
	// Voting is the number of lock nodes that vote on the sale's leases now, Majority the
	// number that a process needs to sell. Both are 0 if there is nothing to sell.
	Voting   int `json:"voting"`
	Majority int `json:"majority"`
	// Warnings are clauses about what prevents, or may prevent, the sale from selling.
	Warnings []string `json:"warnings"`
	// LedgerError is why the ledger cannot be read; then the rest comes from the lock nodes
	// and the process that serves the sale.
	LedgerError string `json:"ledgerError,omitempty"`
	// Server is the process that was queried for its own view; nil if none was. The package
	// leaves that query to its callers.
	Server *ServerStatus `json:"server,omitempty"`
	// Packets is the public state of a red packet; nil for other units.
	Packets *ledger.PacketsStatus `json:"packets,omitempty"`
}

// ServerStatus is the result of a query to the process that serves a sale, or served it last.
type ServerStatus struct {
	Address string `json:"address"`
	Error   string `json:"error,omitempty"` // why the query failed
	Phase   string `json:"phase,omitempty"` // reported phase, if the ledger cannot be read
}

// ShardStatus is one shard.
type ShardStatus struct {
	Shard int `json:"shard"`
	// Owner has the lease; if no process has it, the last owner of the shard.
	Owner            string  `json:"owner"`
	LeaseLeftSeconds float64 `json:"leaseLeftSeconds"` // 0: no process has the lease
	Slot             uint64  `json:"slot"`
	ledger.Totals            // whose phase is by its log alone, which has no hours
	Error            string  `json:"error,omitempty"` // why the rest is empty; NotRead if the ledger cannot be read
	// List is the state of the shard's list, nil unless the engine is redis.
	List *ListStatus `json:"list,omitempty"`
	// Server is the shard as seen by the queried process, nil if unknown; see Status.Server.
	Server *api.Shard `json:"server,omitempty"`
}

// NotRead is the error of each shard if the ledger cannot be read.
const NotRead = "not read"

// ListStatus is the list of one shard.
type ListStatus struct {
	Node  string `json:"node"`
	State string `json:"state"` // on, off, unknown
	Left  int64  `json:"left"`  // units in the list
	// Entries counts the stream's entries: batches given that the ledger may lack.
	Entries int64  `json:"entries"`
	Fill    uint64 `json:"fill"`  // current or last fill of the list; the shard's log counts fills
	Token   uint64 `json:"token"` // last fill begun on the node
	Error   string `json:"error,omitempty"`
}

// Stalled reports whether the queried process reports that the shard cannot be written.
func (s *ShardStatus) Stalled() bool { return s.Server != nil && s.Server.State == api.ShardStalled }

// NodeStatus is one lock node.
type NodeStatus struct {
	// Node is the node as read here, without Since. Up also reports a node that is unfit.
	api.Node
	// ClockOffSeconds is this host's lead over the node's clock.
	ClockOffSeconds float64 `json:"clockOffSeconds"`
	Leases          int     `json:"leases"` // number of leases of this sale
	// Unmarked reports that the node lacks the sale's marker: it abstains from the first
	// request for a lease on.
	Unmarked bool   `json:"unmarked,omitempty"`
	Unfit    string `json:"unfit,omitempty"` // why the node is unfit
	// Server is the node as seen by the queried process, nil if unknown; see Status.Server.
	Server *api.Node `json:"server,omitempty"`
}

// ReadStatus reads the status of a sale. A shard or node that cannot be read is included with
// its error. If the sale's own log cannot be read, the error is ErrStore; for a sale that
// never existed, ledger.ErrGone.
func ReadStatus(ctx context.Context, from machine.Backends, name string) (*Status, error) {
	actual, err := ReadSale(ctx, from, name)
	if err != nil {
		return nil, err
	}
	return NewStatus(actual)
}

// NewStatus returns the status of a sale at the time of its read.
func NewStatus(actual *planner.Actual) (*Status, error) {
	sale := actual.Sale
	switch {
	case actual.Lost() != "":
		return nil, &planner.Refusal{Reason: actual.Lost(), Remedy: planner.LostRemedy}
	case sale.UID() == "":
		return nil, ledger.NoSale{Sale: actual.Name}
	}
	brief, _ := newBrief(actual)
	s := &Status{
		Brief: brief, Applied: sale.Applied(),
		Shards: []ShardStatus{}, Nodes: nodeStatuses(actual, sale.Live()), Warnings: []string{}, Packets: ledger.PacketsStatusOf(sale),
	}
	if sale.Destroyed() {
		s.Refund = planner.RefundOf(sale)
		return s, nil
	}
	declared, _ := planner.Declared(sale.Newest())
	s.Payment, s.Rules = planner.InForce(sale.Newest().GetSettings(), declared)
	s.Owner, _ = actual.Served()
	s.Unserved = actual.Unserved()
	for i := range actual.Shards {
		shard := newShardStatus(actual, i)
		if i < len(actual.Lists) {
			shard.List = newListStatus(actual, i)
		}
		s.Shards = append(s.Shards, shard)
	}
	if sale.Live() {
		votes := actual.Votes()
		s.Voting, s.Majority = votes.Voting, votes.Majority()
		s.warnings(actual)
		if s.Phase == ledger.PhaseOpen && (s.Voting < s.Majority || s.Unread == len(s.Shards)) {
			s.Phase = ledger.PhaseStalled
		}
	}
	return s, nil
}

// Votes summarizes the votes of the lock nodes.
func (s *Status) Votes() planner.Votes { return planner.Votes{Nodes: len(s.Nodes), Voting: s.Voting} }

func (s *Status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// warnings adds what prevents a live sale from selling.
func (s *Status) warnings(actual *planner.Actual) {
	var lost []int
	for i, shard := range actual.Shards {
		if shard.Err != nil || shard.Head == nil {
			lost = append(lost, i)
		}
	}
	if len(lost) > 0 && actual.Sale.Applied() > 0 {
		s.warn("%d of %d shards cannot be read (%s): their users cannot buy, and the totals exclude them",
			len(lost), len(actual.Shards), spec.Numbers(lost))
	}
	for _, n := range actual.Nodes {
		if n.Err == nil && n.Info.Carried {
			s.warn("%s: no claim is accepted. %s", planner.ClockWasSet(n.Off), planner.TrustRemedy)
		}
	}
	if ahead := actual.Ahead(); ahead != "" {
		s.warn("%s", ahead)
	}
	if s.Voting < len(s.Nodes) {
		s.warn("%s", s.Votes())
	}
	s.listWarnings(actual)
	if s.Owner == "" && !actual.Unserved() {
		s.warn("it is unknown whether a process serves it: too few lock nodes answer")
	}
}

// listWarnings adds the shards of an open sale whose lists are off, and the nodes that may
// lose what they have given.
func (s *Status) listWarnings(actual *planner.Actual) {
	if err := actual.CheckLists(); err != nil {
		s.warn("%s", err)
		return
	}
	if old, err := planner.Declared(actual.Sale.Newest()); err == nil && old.Engine == spec.EngineRedis {
		actual.WarnOfDurability(old.Ack, s.warn)
	}
	var off []int
	for i := range actual.Lists {
		head := actual.Shards[i].Head
		if head != nil && head.Phase == ledger.PhaseOpen && actual.ListState(i) != planner.ListOn {
			off = append(off, i)
		}
	}
	if len(off) == 0 || actual.Sale.Applied() == 0 {
		return
	}
	then := "apply fills them from the ledger"
	if s.Owner != "" {
		then = "the serving process fills them from the ledger as soon as their nodes answer"
	}
	s.warn("%d of %d lists are off or unreachable (%s): their users get nothing; %s", len(off), len(actual.Lists), spec.Numbers(off), then)
}

func newShardStatus(actual *planner.Actual, i int) ShardStatus {
	s := ShardStatus{Shard: i}
	if l, ok := actual.LeaseOf(i); ok {
		s.Owner, s.LeaseLeftSeconds = l.Address, l.Left.Seconds()
	}
	h := actual.Shards[i].Head
	switch {
	case actual.Shards[i].Err != nil:
		s.Error = planner.ShortError(actual.Shards[i].Err)
		return s
	case h == nil:
		s.Error = "it has no log"
		return s
	case s.LeaseLeftSeconds == 0:
		s.Owner = h.Owner
	}
	s.Slot, s.Totals = h.Slot, h.Totals
	return s
}

func newListStatus(actual *planner.Actual, i int) *ListStatus {
	l := actual.Lists[i]
	s := &ListStatus{Node: l.Node, State: actual.ListState(i)}
	if l.Err != nil {
		s.Error = planner.ShortNodeError(l.Err)
		return s
	}
	s.Left, s.Entries, s.Fill, s.Token = l.State.Units, l.State.Entries, l.State.Fill, l.State.Token
	return s
}

// nodeStatuses returns the statuses of the lock nodes.
func nodeStatuses(a *planner.Actual, live bool) []NodeStatus {
	all := []NodeStatus{}
	for _, n := range a.Nodes {
		all = append(all, newNodeStatus(n, live))
	}
	for _, f := range a.Faults() {
		if i := slices.IndexFunc(all, func(n NodeStatus) bool { return n.Name == f.Node }); !f.Clock {
			all[i].Up, all[i].Error, all[i].Unfit = true, "", f.Why
		}
	}
	return all
}

func newNodeStatus(n planner.NodeActual, live bool) NodeStatus {
	if n.Err != nil {
		return NodeStatus{Node: api.Node{Name: n.Name, Error: planner.ShortNodeError(n.Err)}}
	}
	s := NodeStatus{Node: api.Node{Name: n.Name, Up: true}, ClockOffSeconds: n.Off.Seconds(), Leases: len(n.Leases)}
	switch n.MarkerState() {
	case planner.MarkerAbstaining:
		s.VotesFrom = n.Marker.VotesFrom.UTC()
	case planner.MarkerMissing:
		s.Unmarked = live
	}
	return s
}

// phaseNow returns the phase that every shard has reached, considering the hours. While a
// change is on its way to some shards, it is the previous phase.
func phaseNow(actual *planner.Actual) string {
	sale := actual.Sale
	if !sale.Live() || sale.Applied() == 0 {
		return sale.Phase()
	}
	everywhere := sale.Generation()
	for _, s := range actual.Shards {
		if s.Head == nil {
			everywhere = min(everywhere, sale.Applied())
		} else {
			everywhere = min(everywhere, max(1, s.Head.Generation))
		}
	}
	settings := sale.Planned(everywhere).GetSettings()
	return ledger.PhaseAt(ledger.PhaseName(settings.GetPhase()), ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs()), actual.At)
}
