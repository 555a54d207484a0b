package planner

import (
	"context"
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/draw"
	"salectl/spec"
)

// StatusVersion is the version of a status's JSON.
const StatusVersion = 1

// Status is a sale as its heads and lock nodes have it. Heads are read one after
// another and may be of different moments.
type Status struct {
	FormatVersion int    `json:"formatVersion"`
	Sale          string `json:"sale"`
	UID           string `json:"uid"`
	Run           int64  `json:"run"`
	Generation    uint64 `json:"generation"` // the newest planned
	Applied       uint64 `json:"applied"`    // the newest known to be on every shard
	// Phase is what holds on every shard, at the time of reading: planned, scheduled, open,
	// stalled, paused, ended, closed, sealed, destroyed; unknown where the ledger cannot be
	// read.
	Phase     string  `json:"phase"`
	SoldOut   bool    `json:"soldOut"` // every unit is sold: none is available, held or on its way
	Stock     int64   `json:"stock"`   // of a destroyed sale, as last declared
	Sold      int64   `json:"sold"`
	Held      int64   `json:"held"`
	Available int64   `json:"available"`
	InFlight  int64   `json:"inFlight"`
	Refund    *Refund `json:"refund,omitempty"` // of a red packet that is destroyed
	InForce
	Draw     *draw.Status  `json:"draw,omitempty"` // nil: it is no draw
	Owner    string        `json:"owner"`          // where claims are answered now, "" if nowhere or unknown
	Unserved bool          `json:"-"`              // that Owner is "" means that no process serves it
	Shards   []ShardStatus `json:"shards"`
	Nodes    []NodeStatus  `json:"nodes"`
	// Voting is how many lock nodes vote on the sale's leases now, Majority how
	// many must for a process to sell. Both are 0 when there is nothing to sell.
	Voting   int `json:"voting"`
	Majority int `json:"majority"`
	// Warnings are clauses about what keeps the sale from selling, or may.
	Warnings []string `json:"warnings"`
	// LedgerError is why the ledger cannot be read; then the rest is what the lock nodes tell,
	// and the process that serves the sale.
	LedgerError string `json:"ledgerError,omitempty"`
	// Server is the process that was asked for its own view; nil: none was.
	// Planner leaves it to its caller to ask.
	Server *ServerStatus `json:"server,omitempty"`
	// Packets is what everybody may know of a red packet, nil if units are no packets.
	Packets *ledger.PacketsStatus `json:"packets,omitempty"`
}

// ServerStatus is what came of asking the process that serves a sale, or did so
// last.
type ServerStatus struct {
	Address string `json:"address"`
	Error   string `json:"error,omitempty"` // why it told nothing
	Phase   string `json:"phase,omitempty"` // that it told, where the ledger cannot be read
}

// Seen is one server as the process that serves the sale sees it.
type Seen struct {
	Up    bool   `json:"up"`
	Since string `json:"since,omitempty"` // RFC 3339, UTC
	Error string `json:"error,omitempty"`
}

// ShardStatus is one shard.
type ShardStatus struct {
	Shard int `json:"shard"`
	// Owner is who has the lease, or if nobody has, who owned the shard last.
	Owner            string  `json:"owner"`
	LeaseLeftSeconds float64 `json:"leaseLeftSeconds"` // 0: nobody has the lease
	Slot             uint64  `json:"slot"`
	Epoch            uint64  `json:"epoch"`
	Generation       uint64  `json:"generation"`
	Phase            string  `json:"phase"` // by its log alone, which has no hours
	Limit            int64   `json:"limit"`
	Available        int64   `json:"available"`
	Held             int64   `json:"held"`
	Sold             int64   `json:"sold"`
	Error            string  `json:"error,omitempty"` // why the rest is empty; NotRead where the ledger is why
	// List is how the shard's list stands, nil where the engine is no redis.
	List *ListStatus `json:"list,omitempty"`
	// Stalled is set if the serving process cannot append; see Status.Server.
	Stalled *Seen `json:"stalled,omitempty"`
}

// NotRead is said of a shard where nothing of the ledger can be read.
const NotRead = "not read"

// ListStatus is the list of one shard.
type ListStatus struct {
	Node  string `json:"node"`
	State string `json:"state"` // on, off, unknown
	Left  int64  `json:"left"`  // units still to be given
	// Entries are those of the stream: batches given that the ledger may lack.
	Entries int64  `json:"entries"`
	Fill    uint64 `json:"fill"`  // under which it gives, or last gave; the shard's log counts them
	Token   uint64 `json:"token"` // the last fill that somebody began there
	Error   string `json:"error,omitempty"`
}

// NodeStatus is one lock node.
type NodeStatus struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
	// ClockOffSeconds is how far this host's clock is ahead of the node's.
	ClockOffSeconds float64 `json:"clockOffSeconds"`
	Leases          int     `json:"leases"` // of this sale
	// Abstaining says that the node lost its memory and does not vote before
	// VotesFrom, RFC 3339.
	Abstaining bool   `json:"abstaining,omitempty"`
	VotesFrom  string `json:"votesFrom,omitempty"`
	// Unmarked says that the node does not know the sale, or not any more: it
	// begins to abstain as soon as it is asked for a lease.
	Unmarked bool   `json:"unmarked,omitempty"`
	Unfit    string `json:"unfit,omitempty"` // why it cannot be relied on
	Error    string `json:"error,omitempty"`
	// Server is how the serving process sees it; see Status.Server.
	Server *Seen `json:"server,omitempty"`
}

// ReadStatus reads how a sale stands. A shard or node that cannot be read is in
// the status with its error; a sale's own log that cannot be is ErrStore. A sale
// that never was is ledger.ErrGone.
func ReadStatus(ctx context.Context, cfg Config, name string) (*Status, error) {
	actual, err := ReadSale(ctx, cfg, name)
	if err != nil {
		return nil, err
	}
	return NewStatus(actual)
}

// NewStatus says how a sale stood when it was read.
func NewStatus(actual *Actual) (*Status, error) {
	sale := actual.Sale
	switch {
	case actual.lost() != "":
		return nil, &Refusal{Reason: actual.lost(), Remedy: lostRemedy}
	case sale.UID() == "":
		return nil, fmt.Errorf("sale %s does not exist: %w", actual.Name, ledger.ErrGone)
	}
	s := &Status{
		FormatVersion: StatusVersion, Sale: actual.Name, UID: sale.UID(), Run: sale.Run(),
		Generation: sale.Generation(), Applied: sale.Applied(), Phase: sale.Phase(),
		Shards: []ShardStatus{}, Nodes: []NodeStatus{}, Warnings: []string{}, Packets: ledger.PacketsStatusOf(sale),
	}
	s.Nodes = actual.nodeStatuses(sale.Live())
	if sale.Destroyed() {
		s.Sold = sale.Sealed().GetUnitsSold()
		last, _ := declared(sale.Newest()) // one that cannot be read has no stock
		s.Stock = last.Stock
		s.SoldOut = sale.Draw() == nil && s.Stock > 0 && s.Sold == s.Stock
		s.Refund = RefundOf(sale)
		return s, nil
	}
	settings := sale.Newest().GetSettings()
	s.Phase = phaseNow(actual)
	newest, _ := declared(sale.Newest()) // one that cannot be read shows no names
	s.InForce = inForceShown(settings, newest)
	s.Owner, _ = actual.Served()
	s.Unserved = actual.Unserved()
	for i := range actual.Shards {
		shard := newShardStatus(actual, i)
		if i < len(actual.Lists) {
			shard.List = newListStatus(actual, i)
		}
		s.Shards = append(s.Shards, shard)
		s.Stock += shard.Limit
		s.Sold += shard.Sold
		s.Held += shard.Held
		s.Available += shard.Available
	}
	// A transfer that was received and not acknowledged yet is in both shards'
	// heads, so what is on its way is what is nowhere else.
	s.InFlight = max(0, s.Stock-s.Sold-s.Held-s.Available)
	if s.Draw = ledger.DrawStatus(sale); s.Draw != nil {
		s.Draw.Winners, s.Draw.Entries = s.Stock, 0
		for _, shard := range actual.Shards {
			if shard.Head != nil {
				s.Draw.Entries += shard.Head.Entries
				s.Draw.Lapsed += shard.Head.Lapsed()
			}
		}
	}
	read := slices.ContainsFunc(s.Shards, func(shard ShardStatus) bool { return shard.Error == "" })
	all := !slices.ContainsFunc(s.Shards, func(shard ShardStatus) bool { return shard.Error != "" })
	s.SoldOut = all && s.Draw == nil && s.Stock > 0 && s.Sold == s.Stock
	if sale.Live() {
		votes := actual.Votes()
		s.Voting, s.Majority = votes.Voting, votes.Majority()
		s.warnings(actual)
		if s.Phase == ledger.PhaseOpen && (s.Voting < s.Majority || !read) {
			s.Phase = ledger.PhaseStalled
		}
	}
	return s, nil
}

// Votes says what the lock nodes come to.
func (s *Status) Votes() Votes { return Votes{Nodes: len(s.Nodes), Voting: s.Voting} }

// warnings tells what keeps a live sale from selling.
func (s *Status) warnings(actual *Actual) {
	var lost []int
	for i, shard := range actual.Shards {
		if shard.Err != nil || shard.Head == nil {
			lost = append(lost, i)
		}
	}
	if len(lost) > 0 && actual.Sale.Applied() > 0 {
		s.Warnings = append(s.Warnings, fmt.Sprintf(
			"%d of %d shards cannot be read (%s): their users cannot buy, and the sums leave them out",
			len(lost), len(actual.Shards), spec.Numbers(lost)))
	}
	for _, n := range actual.Nodes {
		if n.Err == nil && n.Info.Carried {
			s.Warnings = append(s.Warnings, clockWasSet(n.Off)+": no claim is accepted. "+TrustRemedy)
		}
	}
	if ahead := actual.ahead(); ahead != "" {
		s.Warnings = append(s.Warnings, ahead)
	}
	if s.Voting < len(s.Nodes) {
		s.Warnings = append(s.Warnings, s.Votes().String())
	}
	s.listWarnings(actual)
	if s.Owner == "" && !actual.Unserved() {
		s.Warnings = append(s.Warnings, "whether a process serves it is unknown: too few lock nodes can be asked")
	}
}

// listWarnings adds which shards of an open sale give nothing, since their lists
// are off, and which nodes may lose what they have given.
func (s *Status) listWarnings(actual *Actual) {
	if err := actual.sameLists(); err != nil {
		s.Warnings = append(s.Warnings, err.Error())
		return
	}
	if old, err := declared(actual.Sale.Newest()); err == nil && old.Engine == spec.EngineRedis {
		s.Warnings = append(s.Warnings, actual.durabilityWarnings(old.Ack)...)
	}
	var off []int
	for i := range actual.Lists {
		head := actual.Shards[i].Head
		if head != nil && head.Phase == ledger.PhaseOpen && actual.listStands(i) != listOn {
			off = append(off, i)
		}
	}
	if len(off) == 0 || actual.Sale.Applied() == 0 {
		return
	}
	then := "apply fills them from the ledger"
	if s.Owner != "" {
		then = "the process that serves the sale fills them from the ledger as soon as their nodes answer"
	}
	s.Warnings = append(s.Warnings, fmt.Sprintf("%d of %d lists are off or cannot be asked for (%s): their users get nothing; %s",
		len(off), len(actual.Lists), spec.Numbers(off), then))
}

func newShardStatus(actual *Actual, i int) ShardStatus {
	s := ShardStatus{Shard: i}
	if l, ok := actual.leaseOf(i); ok {
		s.Owner, s.LeaseLeftSeconds = l.address, l.left.Seconds()
	}
	h := actual.Shards[i].Head
	switch {
	case actual.Shards[i].Err != nil:
		s.Error = inShort(actual.Shards[i].Err)
		return s
	case h == nil:
		s.Error = "it has no log"
		return s
	case s.LeaseLeftSeconds == 0:
		s.Owner = h.Owner
	}
	s.Slot, s.Epoch, s.Generation, s.Phase = h.Slot, h.Epoch, h.Generation, h.Phase
	s.Limit, s.Available, s.Held, s.Sold = h.Limit, h.Available, h.Held, h.Sold
	return s
}

func newListStatus(actual *Actual, i int) *ListStatus {
	l := actual.Lists[i]
	s := &ListStatus{Node: l.Node, State: actual.listStands(i)}
	if l.Err != nil {
		s.Error = nodeShort(l.Node, l.Err)
		return s
	}
	s.Left, s.Entries, s.Fill, s.Token = l.State.Units, l.State.Entries, l.State.Fill, l.State.Token
	return s
}

// nodeStatuses says how the lock nodes stand.
func (a *Actual) nodeStatuses(live bool) []NodeStatus {
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

func newNodeStatus(n NodeActual, live bool) NodeStatus {
	if n.Err != nil {
		return NodeStatus{Name: n.Name, Error: nodeShort(n.Name, n.Err)}
	}
	s := NodeStatus{Name: n.Name, Up: true, ClockOffSeconds: n.Off.Seconds(), Leases: len(n.Leases)}
	switch n.marker() {
	case markerAbstaining:
		s.Abstaining, s.VotesFrom = true, timeText(n.Marker.VotesFrom)
	case markerMissing:
		s.Unmarked = live
	}
	return s
}

// phaseNow is the phase that every shard has come to, by the hours that it goes by. While a
// change is on its way to some, it is still the one before.
func phaseNow(actual *Actual) string {
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
	p, _ := sale.Planned(everywhere)
	settings := p.GetSettings()
	return ledger.PhaseAt(ledger.PhaseName(settings.GetPhase()), ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs()), actual.At)
}
