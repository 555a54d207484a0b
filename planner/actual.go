package planner

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// Actual is a sale as its backends have it. Reading it changes nothing.
type Actual struct {
	Name string
	At   time.Time    // when it was read, by this host's wall clock
	Sale *ledger.Sale // its log, folded
	// Table is what the logs are kept in, nil where they need no table.
	Table *TableActual
	// Shards are those of the present run, none if there never was one. Of a
	// destroyed run only those are of interest that have a head all the same.
	Shards []ShardActual
	Nodes  []NodeActual
	// ListNodes are the nodes that keep lists, as Config.Lists has them. Lists are
	// those of the shards, by shard, where the engine of the present run is redis.
	ListNodes []ListNodeActual
	Lists     []ListActual
	// Users is why the users of the sale that is planned cannot be read, where whoever
	// plans has looked: a *rules.SourceError, the problems of a file, or an error of
	// servers that do not answer. Reading a sale leaves it nil.
	Users error
	// NoHistory are the patterns of its history that match no file, where whoever plans has
	// looked. Reading a sale leaves it nil.
	NoHistory []string
	// Units is what the units of the sale that is planned are, where whoever plans has read
	// it (ReadUnits). Reading a sale leaves it nil.
	Units *UnitsActual
	// Packets is what has become of a red packet, where whoever plans its destroy has read it
	// (ReadPackets). Reading a sale leaves it nil.
	Packets *PacketsActual
	// Holds is what a destroy that is planned does about claims that are held, where whoever
	// plans it has read it (ReadHolds). Reading a sale leaves it nil.
	Holds *HoldsActual
	// Nonce is what the uid of a run that begins now follows from: drawn with each
	// reading, so that making a plan stays a pure function.
	Nonce string
}

// ShardActual is one shard as its head has it.
type ShardActual struct {
	Head *ledger.Head // nil: it has no log, or Err
	Err  error        // why it could not be read
}

// NodeActual is one lock node.
type NodeActual struct {
	Name   string
	Err    error         // why it could not be asked, or not for all; then the rest is empty but for Info.Unfit, which is why
	Info   quorum.Info   // whose run id is part of no status
	Off    time.Duration // of our clock: ahead of the node's
	Leases []quorum.Holding
	Marker quorum.Marker // the sale's
	Knows  bool          // of a sale that the ledger does not have: the node has the marker of its name
}

// lost says that lock nodes know a run of the sale, of which the ledger has none; "": no node does.
func (a *Actual) lost() string {
	know := 0
	for _, n := range a.Nodes {
		if n.Knows {
			know++
		}
	}
	if know == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d lock nodes know a run of sale %s, and the ledger has none: it was deleted or replaced, or another ledger with a sale of that name uses the same lock nodes",
		know, len(a.Nodes), a.Name)
}

// How often a shard without a log is looked at again before it is believed, and
// how long apart: reads may lag, and a sale may be destroyed in between.
const (
	missingTries = ledger.MissingTries
	missingPause = ledger.MissingPause
)

// readTimeout is Config.ReadTimeout where that is 0.
const readTimeout = 30 * time.Second

// ReadActual reads a sale, with all that Make asks of it. The sale's own log
// must be readable (else ErrStore); a shard, a node or a table that cannot be
// read is no error, its Err says why.
func ReadActual(ctx context.Context, cfg Config, name string) (*Actual, error) {
	return cfg.read(ctx, cfg.terms(), name)
}

// ReadSale is ReadActual without a look at the table, for whoever makes no table
// and cannot wait for its servers.
func ReadSale(ctx context.Context, cfg Config, name string) (*Actual, error) {
	t := cfg.terms()
	t.Table = ""
	a, err := cfg.read(ctx, t, name)
	if a != nil {
		a.Table = namedTable(cfg)
	}
	return a, err
}

func (c Config) read(ctx context.Context, t Terms, name string) (*Actual, error) {
	m, actual := NewReading(t, name)
	if err := c.run(ctx, name, m); err != nil {
		return nil, err
	}
	return actual, nil
}

func newNonce(rand io.Reader) (string, error) {
	nonce := make([]byte, 8)
	if _, err := io.ReadFull(rand, nonce); err != nil {
		return "", fmt.Errorf("drawing a uid: %w", err)
	}
	return hex.EncodeToString(nonce), nil
}

// damaged returns a shard that has no log and must have one, or whose log lacks a generation that
// every shard has had; false: there is none.
func (a *Actual) damaged() (shard int, is bool) {
	if !a.Sale.Live() || a.Sale.Applied() == 0 {
		return 0, false
	}
	shard = slices.IndexFunc(a.Shards, func(s ShardActual) bool {
		return s.Err == nil && (s.Head == nil || s.Head.Generation < a.Sale.Applied())
	})
	return shard, shard >= 0
}

// shardLogs names the logs of the present run.
func shardLogs(sale *ledger.Sale) []string {
	logs := make([]string, sale.Shards())
	for i := range logs {
		logs[i] = spec.ShardLog(sale.UID(), i, len(logs))
	}
	return logs
}

func newShardActual(stored []byte) ShardActual {
	if stored == nil {
		return ShardActual{}
	}
	head, err := ledger.ParseHead(stored)
	if err != nil {
		return ShardActual{Err: err}
	}
	return ShardActual{Head: &head}
}

// lease is a shard's lease as the nodes have it together.
type lease struct {
	address string
	left    time.Duration // until no majority has it any more
}

// leaseOf returns the lease that a majority of nodes has promised.
func (a *Actual) leaseOf(shard int) (lease, bool) {
	return a.leaseOn(spec.LeaseKey(a.Sale.UID(), shard))
}

// leaseOn is leaseOf by the lease's key.
func (a *Actual) leaseOn(key string) (lease, bool) {
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
			return lease{address: note.Address, left: lefts[len(lefts)-majority]}, true
		}
	}
	return lease{}, false
}

// Served returns where the sale's owner answers claims, if there is one now:
// whoever has the lease of shard 0 on a majority of nodes.
func (a *Actual) Served() (address string, ok bool) {
	l, ok := a.leaseOf(0)
	return l.address, ok
}

// Unserved reports whether it is certain that nobody serves the sale: those nodes
// that are silent, and those that have promised the lease of shard 0 to one and
// the same process, are no majority.
func (a *Actual) Unserved() bool {
	votes := newVotes(a.Sale.UID())
	for _, n := range a.Nodes {
		votes.count(n.Leases, n.Err)
	}
	return !votes.mayHaveOwner(len(a.Nodes))
}

// votes are for whom the lock nodes have promised the lease of shard 0.
type votes struct {
	key          string
	tokens       map[string]int
	silent, most int
}

func newVotes(uid string) *votes {
	return &votes{key: spec.LeaseKey(uid, 0), tokens: make(map[string]int)}
}

// count takes in what one node holds, or why it is silent.
func (v *votes) count(holds []quorum.Holding, err error) {
	if err != nil {
		v.silent++
	}
	for _, h := range holds {
		if h.Key == v.key {
			v.tokens[h.Token]++
			v.most = max(v.most, v.tokens[h.Token])
		}
	}
}

// mayHaveOwner reports whether a process may have the lease, of so many nodes in all.
func (v *votes) mayHaveOwner(nodes int) bool { return v.most+v.silent > nodes/2 }

// shardsSealed reports whether every shard's log has ended, so that an export of
// them may have been made already.
func (a *Actual) shardsSealed() bool {
	return !slices.ContainsFunc(a.Shards, func(s ShardActual) bool {
		return s.Head == nil || s.Head.Phase != ledger.PhaseSealed
	})
}
