package planner

import (
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// Actual is the state of a sale in its backends. Reading it changes nothing.
type Actual struct {
	Name string
	At   time.Time    // time of the read, by this host's wall clock
	Sale *ledger.Sale // fold of the sale's own log
	// Table is the table of the logs, nil if they need none.
	Table *TableActual
	// Shards are those of the present run, empty if there never was a run. Of a destroyed run
	// only shards that still have a head matter.
	Shards []ShardActual
	Nodes  []NodeActual
	// ListNodes are the list nodes, in the order of machine.Backends.Lists. Lists are those of the
	// shards, by shard, if the engine of the present run is redis.
	ListNodes []ListNodeActual
	Lists     []ListActual
	// Users is set by callers that check the users of the planned sale. It is why they cannot
	// be read: a *rules.SourceError, the problems of a file, or an error of servers that do
	// not answer. Reading a sale leaves it nil.
	Users error
	// NoHistory is set by callers that check the history files: patterns that match no file.
	// Reading a sale leaves it nil.
	NoHistory []string
	// Units are the units of the planned sale, if the caller has read them (current.ReadUnits).
	// Reading a sale leaves it nil.
	Units *UnitsActual
	// Ledger is the whole ledger of a sale whose destroy depends on it, if the caller has read it
	// (current.ReadLedger). Reading a sale leaves it nil.
	Ledger *LedgerActual
	// CancelHolds is set by callers that plan a destroy that cancels held claims. Otherwise it
	// waits until each is settled.
	CancelHolds bool
	// Nonce is random input of the uid of a new run. It is drawn with each read, so that
	// making a plan is a pure function.
	Nonce string
}

// ShardActual is the head of one shard.
type ShardActual struct {
	Head *ledger.Head // nil: the shard has no log, or Err is set
	Err  error        // why the head could not be read
}

// NodeActual is one lock node.
type NodeActual struct {
	// NodeInfo has no Info but Unfit if one of several queries failed; then the rest is empty, too.
	quorum.NodeInfo
	Leases    []quorum.Holding
	Marker    quorum.Marker // marker of the sale
	HasMarker bool          // only for a sale that the ledger lacks: the node has the marker of its name
}

// Lost reports that lock nodes have a marker of the sale and the ledger has no run of it; "" if no
// node has one.
func (a *Actual) Lost() string {
	marked := 0
	for _, n := range a.Nodes {
		if n.HasMarker {
			marked++
		}
	}
	if marked == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d lock nodes have a marker of sale %s, but the ledger has no run of it: it was deleted or replaced, or another ledger with a sale of that name uses the same lock nodes",
		marked, len(a.Nodes), a.Name)
}

// Damaged returns a shard whose log is missing although it must exist, or lacks a generation
// that every shard has had. is is false if there is none.
func (a *Actual) Damaged() (shard int, is bool) {
	if !a.Sale.Live() || a.Sale.Applied() == 0 {
		return 0, false
	}
	shard = slices.IndexFunc(a.Shards, func(s ShardActual) bool {
		return s.Err == nil && (s.Head == nil || s.Head.Generation < a.Sale.Applied())
	})
	return shard, shard >= 0
}

// NewShardActual returns the actual state of a shard by the stored head of its log; nil: it has none.
func NewShardActual(stored []byte) ShardActual {
	if stored == nil {
		return ShardActual{}
	}
	head, err := ledger.ParseHead(stored)
	if err != nil {
		return ShardActual{Err: err}
	}
	return ShardActual{Head: &head}
}

// Lease is a shard's lease as promised by the nodes together.
type Lease struct {
	Address string
	Left    time.Duration // time until no majority promises it
}

// LeaseOf returns a shard's lease, if a majority of nodes has promised it.
func (a *Actual) LeaseOf(shard int) (Lease, bool) {
	return a.LeaseOn(spec.LeaseKey(a.Sale.UID(), shard))
}

// LeaseOn is LeaseOf for a lease key.
func (a *Actual) LeaseOn(key string) (Lease, bool) {
	var held []quorum.Holding
	for _, n := range a.Nodes {
		for _, h := range n.Leases {
			if h.Key == key {
				held = append(held, h)
			}
		}
	}
	majority := len(a.Nodes)/2 + 1
	for _, h := range held {
		var lefts []time.Duration
		for _, other := range held {
			if other.Token == h.Token {
				lefts = append(lefts, other.Left)
			}
		}
		if len(lefts) >= majority {
			slices.Sort(lefts)
			note, _ := quorum.ParseNote(h.Note)
			return Lease{Address: note.Address, Left: lefts[len(lefts)-majority]}, true
		}
	}
	return Lease{}, false
}

// Served returns the address of the sale's owner, the process that has the lease of shard 0 on
// a majority of nodes. ok is false if there is none.
func (a *Actual) Served() (address string, ok bool) {
	l, ok := a.LeaseOf(0)
	return l.Address, ok
}

// Unserved reports whether no process can be serving the sale.
func (a *Actual) Unserved() bool { return Unserved(a.Sale.UID(), a.Nodes) }

// Unserved reports whether no process can be serving a run: the nodes that do not answer and
// those that have promised the lease of shard 0 to one same process are no majority.
func Unserved(uid string, nodes []NodeActual) bool {
	key, silent, most, votes := spec.LeaseKey(uid, 0), 0, 0, make(map[string]int)
	for _, n := range nodes {
		if n.Err != nil {
			silent++
		}
		for _, h := range n.Leases {
			if h.Key == key {
				votes[h.Token]++
				most = max(most, votes[h.Token])
			}
		}
	}
	return most+silent <= len(nodes)/2
}

// ShardsSealed reports whether every shard's log is sealed, so that an export of them may
// exist.
func (a *Actual) ShardsSealed() bool { return a.everyShard(ledger.PhaseSealed) }

// everyShard reports whether every shard is known to have the phase.
func (a *Actual) everyShard(phase string) bool {
	return !slices.ContainsFunc(a.Shards, func(s ShardActual) bool { return s.Head == nil || s.Head.Phase != phase })
}

// Totals sums up the heads that can be read; unread is the number of the other shards. Units in
// transit are those in no head: a received and unacknowledged transfer is in two.
func (a *Actual) Totals() (sum ledger.Totals, unread int) {
	for _, s := range a.Shards {
		if s.Head == nil {
			unread++
			continue
		}
		sum.Limit += s.Head.Limit
		sum.Sold += s.Head.Sold
		sum.Held += s.Head.Held
		sum.Available += s.Head.Available
		sum.Entries += s.Head.Entries
		sum.Outcomes.Add(s.Head.Outcomes)
	}
	sum.InFlight = max(0, sum.Limit-sum.Sold-sum.Held-sum.Available)
	return sum, unread
}
