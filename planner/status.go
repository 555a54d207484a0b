package planner

import (
	"context"
	"fmt"
	"time"

	"salectl/backends/ledger"
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
	// Phase is what holds on every shard: planned, open, paused, closed, sealed,
	// destroyed.
	Phase     string        `json:"phase"`
	Stock     int64         `json:"stock"` // of a destroyed sale, as last declared
	Sold      int64         `json:"sold"`
	Held      int64         `json:"held"`
	Available int64         `json:"available"`
	InFlight  int64         `json:"inFlight"`
	Owner     string        `json:"owner"` // where claims are answered now, "" if nowhere
	Shards    []ShardStatus `json:"shards"`
	Nodes     []NodeStatus  `json:"nodes"`
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
	Phase            string  `json:"phase"`
	Limit            int64   `json:"limit"`
	Available        int64   `json:"available"`
	Held             int64   `json:"held"`
	Sold             int64   `json:"sold"`
	Error            string  `json:"error,omitempty"` // why the rest is empty
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
	Error      string `json:"error,omitempty"`
}

// ReadStatus reads how a sale stands. A shard or node that cannot be read is in
// the status with its error. A sale that never was is ledger.ErrGone.
func ReadStatus(ctx context.Context, cfg Config, name string) (*Status, error) {
	actual, err := ReadActual(ctx, cfg, name)
	if err != nil {
		return nil, err
	}
	return NewStatus(actual)
}

// NewStatus says how a sale stood when it was read.
func NewStatus(actual *Actual) (*Status, error) {
	sale := actual.Sale
	if sale.UID() == "" {
		return nil, fmt.Errorf("sale %s does not exist: %w", actual.Name, ledger.ErrGone)
	}
	s := &Status{
		FormatVersion: StatusVersion, Sale: actual.Name, UID: sale.UID(), Run: sale.Run(),
		Generation: sale.Generation(), Applied: sale.Applied(), Phase: phaseNow(actual),
		Shards: []ShardStatus{}, Nodes: []NodeStatus{},
	}
	for _, n := range actual.Nodes {
		s.Nodes = append(s.Nodes, newNodeStatus(n))
	}
	if sale.Destroyed() {
		s.Sold = sale.Sealed().GetUnitsSold()
		if last, err := declared(sale.Newest()); err == nil {
			s.Stock = last.Stock
		}
		return s, nil
	}
	s.Owner, _ = actual.Served()
	for i := range actual.Shards {
		shard := newShardStatus(actual, i)
		s.Shards = append(s.Shards, shard)
		s.Stock += shard.Limit
		s.Sold += shard.Sold
		s.Held += shard.Held
		s.Available += shard.Available
	}
	// A transfer that was received and not acknowledged yet is in both shards'
	// heads, so what is on its way is what is nowhere else.
	s.InFlight = max(0, s.Stock-s.Sold-s.Held-s.Available)
	return s, nil
}

func newShardStatus(actual *Actual, i int) ShardStatus {
	s := ShardStatus{Shard: i}
	if l, ok := actual.leaseOf(i); ok {
		s.Owner, s.LeaseLeftSeconds = l.address, l.left.Seconds()
	}
	h := actual.Shards[i].Head
	switch {
	case actual.Shards[i].Err != nil:
		s.Error = actual.Shards[i].Err.Error()
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

func newNodeStatus(n NodeActual) NodeStatus {
	if n.Err != nil {
		return NodeStatus{Name: n.Name, Error: n.Err.Error()}
	}
	s := NodeStatus{Name: n.Name, Up: true, ClockOffSeconds: n.Off.Seconds(), Leases: len(n.Leases)}
	if n.Marker.Good && n.Marker.VotesFrom.After(n.Info.Time) {
		s.Abstaining, s.VotesFrom = true, n.Marker.VotesFrom.UTC().Format(time.RFC3339Nano)
	}
	return s
}

// phaseNow is the phase that every shard has come to. While a change of phase is
// on its way to some, it is still the one before.
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
	return ledger.PhaseName(p.GetSettings().GetPhase())
}
