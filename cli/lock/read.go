// Package lock reads, breaks and holds the locks on the lock nodes of sales, and runs commands
// under one.
//
// It guarantees that a command runs only while a majority of the nodes has promised the lock,
// and is ended before another process can acquire it; that a break removes exactly the holding
// that was read; and that each fault of a node is reported once. The caller opens the nodes,
// prompts the user, prints the output, and sets the exit code of the program.
package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/spec"
)

// lockTimeout bounds the query of one lock node.
const lockTimeout = 2 * time.Second

// ID identifies a lock to users: NAME, or SALE/SHARD for a shard's lease.
type ID struct {
	Name  string // name of a named lock; "" for a lease
	Sale  string // of a lease
	Shard int    // of a lease
}

func (id ID) String() string {
	if id.Name != "" {
		return id.Name
	}
	return fmt.Sprintf("%s/%d", id.Sale, id.Shard)
}

// Key returns the lock's key on the nodes. uid is that of the sale of a lease.
func (id ID) Key(uid string) string {
	if id.Name != "" {
		return spec.NamedLock(id.Name)
	}
	return spec.LeaseKey(uid, id.Shard)
}

// Node are the locks on one lock node.
type Node struct {
	Name      string    `json:"name"`
	Up        bool      `json:"up"`
	Error     string    `json:"error,omitempty"`
	VotesFrom time.Time `json:"votesFrom,omitzero"` // end of the node's abstention from votes on named locks; zero: it votes

	Holdings []quorum.Holding `json:"-"`
	Err      error            `json:"-"` // why the rest is empty
	info     quorum.NodeInfo
}

// Read reads the keys with a prefix from all nodes concurrently.
func Read(ctx context.Context, nodes []quorum.Node, prefix string) []Node {
	read := make([]Node, len(nodes))
	now := clock.System()
	var reads sync.WaitGroup
	for i, n := range nodes {
		reads.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lockTimeout)
			defer cancel()
			read[i] = readLockNode(ctx, n, prefix, now)
		})
	}
	reads.Wait()
	return read
}

func readLockNode(ctx context.Context, n quorum.Node, prefix string, now clock.Clock) Node {
	info := quorum.QueryInfo(ctx, n, now)
	failed := func(err error) Node {
		if info.Info.Unfit != "" { // Unfit explains the error
			err = unfitNode{quorum.Fault{Node: n.Name(), Why: info.Info.Unfit}}
		}
		info.Err = err
		return Node{Name: n.Name(), Error: quorum.ErrorText(err), Err: err, info: info}
	}
	if info.Err != nil {
		return failed(info.Err)
	}
	marker, err := n.ReadMarker(ctx, spec.NamedLockMarker)
	if err != nil {
		return failed(err)
	}
	holdings, err := n.List(ctx, prefix)
	if err != nil {
		return failed(err)
	}
	read := Node{Name: n.Name(), Up: true, Holdings: holdings, info: info}
	if marker.Good && marker.VotesFrom.After(info.Info.Time) {
		read.VotesFrom = marker.VotesFrom.UTC()
	}
	return read
}

// HeldBy is one lock of one holder, over all nodes.
type HeldBy struct {
	ID     ID     `json:"-"`
	Name   string `json:"name"` // of ID
	Holder string `json:"holder"`
	Held   bool   `json:"held"` // a majority of the nodes has promised it
	// LeftSeconds is the time until no majority promises it, 0 if none does.
	LeftSeconds float64 `json:"leftSeconds"`
	// HeartbeatAgeSeconds is the time since the holder's last renewal, by the clock of the node
	// that received it last: every renewal sets the expiry anew. It is nil if no note of the
	// holder has a ttl.
	HeartbeatAgeSeconds *float64 `json:"heartbeatAgeSeconds"`
	Nodes               []OnNode `json:"nodes"` // that have promised it, in their order
}

// OnNode is a lock on one node.
type OnNode struct {
	Name        string         `json:"name"`
	LeftSeconds float64        `json:"leftSeconds"`
	Holding     quorum.Holding `json:"-"`
}

// token returns the token of the holder, which is equal on all nodes.
func (l HeldBy) token() string { return l.Nodes[0].Holding.Token }

// add adds the holding of a node.
func (l *HeldBy) add(node string, h quorum.Holding) {
	l.Nodes = append(l.Nodes, OnNode{node, h.Left.Seconds(), h})
	note, ok := quorum.ParseNote(h.Note)
	if !ok || note.TTL <= 0 {
		return
	}
	age := max(0, note.TTL-h.Left).Seconds()
	if l.HeartbeatAgeSeconds == nil || age < *l.HeartbeatAgeSeconds {
		l.HeartbeatAgeSeconds = &age
	}
}

// Held combines the holdings of all nodes. name returns the lock of a key, and false for
// other keys.
func Held(read []Node, name func(key string) (ID, bool)) []HeldBy {
	type claim struct{ key, token string }
	locks := []HeldBy{}
	at := map[claim]int{}
	for _, n := range read {
		for _, h := range n.Holdings {
			id, ok := name(h.Key)
			if !ok {
				continue
			}
			i, known := at[claim{h.Key, h.Token}]
			if !known {
				i = len(locks)
				at[claim{h.Key, h.Token}] = i
				locks = append(locks, HeldBy{ID: id, Name: id.String(), Holder: holderName(h)})
			}
			locks[i].add(n.Name, h)
		}
	}
	for i := range locks {
		locks[i].LeftSeconds = majorityLeft(locks[i].Nodes, len(read)/2+1)
		locks[i].Held = locks[i].LeftSeconds > 0
	}
	slices.SortStableFunc(locks, func(a, b HeldBy) int {
		return cmp.Or(cmp.Compare(a.ID.Sale, b.ID.Sale), cmp.Compare(a.ID.Name, b.ID.Name),
			cmp.Compare(a.ID.Shard, b.ID.Shard), cmp.Compare(b.LeftSeconds, a.LeftSeconds))
	})
	return locks
}

func majorityLeft(on []OnNode, majority int) float64 {
	if len(on) < majority {
		return 0
	}
	lefts := make([]float64, len(on))
	for i, o := range on {
		lefts[i] = o.LeftSeconds
	}
	slices.Sort(lefts)
	return lefts[len(lefts)-majority]
}

// NamesOf returns a function that identifies keys of named locks and of the leases of one
// sale.
func NamesOf(sale, uid string) func(key string) (ID, bool) {
	return func(key string) (ID, bool) {
		if name, ok := strings.CutPrefix(key, spec.NamedLockPrefix); ok {
			return ID{Name: name}, true
		}
		if found, shard, ok := spec.ParseLeaseKey(key); ok && uid != "" && found == uid {
			return ID{Sale: sale, Shard: shard}, true
		}
		return ID{}, false
	}
}

// Silent lists the nodes that did not answer, with the reason.
func Silent(read []Node) (clauses []string) {
	for _, n := range read {
		if n.Err != nil {
			clauses = append(clauses, nodeClause(n.Name, n.Err))
		}
	}
	return clauses
}

// Faults lists the faults of the nodes that answered.
func Faults(read []Node) (clauses []string) {
	var infos []quorum.NodeInfo
	for _, n := range read {
		infos = append(infos, n.info)
	}
	for _, f := range quorum.Judge(infos) {
		if slices.ContainsFunc(read, func(n Node) bool { return n.Name == f.Node && n.Err == nil }) {
			clauses = append(clauses, f.String())
		}
	}
	return clauses
}

// ErrNotHeld reports that there is no such lock to break.
var ErrNotHeld = errors.New("nobody holds it")

// holderName returns the name of a lock's holder.
func holderName(h quorum.Holding) string {
	if note, ok := quorum.ParseNote(h.Note); ok && note.Address != "" {
		return note.Address
	}
	return "unknown"
}
