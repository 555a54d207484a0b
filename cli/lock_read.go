package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

const (
	// lockTimeout bounds the query of one lock node.
	lockTimeout = 2 * time.Second
	// ledgerTimeout bounds the read of a sale's uid, which identifies its leases. Without it
	// the locks are shown all the same.
	ledgerTimeout = 5 * time.Second
)

// readUID reads the uid of a sale's leases; "" if the sale was never applied.
func readUID(ctx context.Context, store *backends.Store, sale string) (uid string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	log := ledger.NewSale(spec.SaleLog(sale))
	_, err = ledger.Load(ctx, store.Logs, spec.SaleLog(sale), log)
	return log.UID(), err
}

// nodeLocks are the locks on one lock node.
type nodeLocks struct {
	name      string
	err       error // why the rest is empty
	asked     quorum.NodeInfo
	holdings  []quorum.Holding
	votesFrom time.Time // end of the node's abstention from votes on named locks; zero: it votes
}

// readLocks reads the keys with a prefix from all nodes concurrently.
func readLocks(ctx context.Context, nodes []quorum.Node, prefix string) []nodeLocks {
	read := make([]nodeLocks, len(nodes))
	now := clock.System()
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lockTimeout)
			defer cancel()
			read[i] = readLockNode(ctx, n, prefix, now)
		})
	}
	asked.Wait()
	return read
}

func readLockNode(ctx context.Context, n quorum.Node, prefix string, now clock.Clock) nodeLocks {
	asked := quorum.QueryInfo(ctx, n, now)
	failed := func(err error) nodeLocks {
		if asked.Info.Unfit != "" { // Unfit explains the error
			err = unfitNode{quorum.Fault{Node: n.Name(), Why: asked.Info.Unfit}}
		}
		asked.Err = err
		return nodeLocks{name: n.Name(), err: err, asked: asked}
	}
	if asked.Err != nil {
		return failed(asked.Err)
	}
	marker, err := n.ReadMarker(ctx, spec.NamedLockMarker)
	if err != nil {
		return failed(err)
	}
	holdings, err := n.List(ctx, prefix)
	if err != nil {
		return failed(err)
	}
	read := nodeLocks{name: n.Name(), holdings: holdings, asked: asked}
	if marker.Good && marker.VotesFrom.After(asked.Info.Time) {
		read.votesFrom = marker.VotesFrom
	}
	return read
}

// heldLock is one lock of one holder, over all nodes.
type heldLock struct {
	id     lockID
	holder string
	on     []lockOnNode // in the order of the nodes
	// left is the time until no majority of the nodes promises it, 0 if none does.
	left time.Duration
}

// lockOnNode is a lock on one node.
type lockOnNode struct {
	node    string
	holding quorum.Holding
}

// token returns the token of the holder, which is equal on all nodes.
func (l heldLock) token() string { return l.on[0].holding.Token }

// beat returns the time since the holder's last renewal, by the clock of the node that
// received it last: every renewal sets the expiry anew. It returns false if no note of the
// holder has a ttl.
func (l heldLock) beat() (time.Duration, bool) {
	latest, known := time.Duration(0), false
	for _, on := range l.on {
		note, ok := quorum.ParseNote(on.holding.Note)
		if !ok || note.TTL <= 0 {
			continue
		}
		if age := max(0, note.TTL-on.holding.Left); !known || age < latest {
			latest, known = age, true
		}
	}
	return latest, known
}

// heldLocks combines the holdings of all nodes. name returns the lock of a key, and false for
// other keys.
func heldLocks(read []nodeLocks, name func(key string) (lockID, bool)) []heldLock {
	type claim struct{ key, token string }
	var locks []heldLock
	at := map[claim]int{}
	for _, n := range read {
		for _, h := range n.holdings {
			id, ok := name(h.Key)
			if !ok {
				continue
			}
			i, known := at[claim{h.Key, h.Token}]
			if !known {
				i = len(locks)
				at[claim{h.Key, h.Token}] = i
				locks = append(locks, heldLock{id: id, holder: holderName(h)})
			}
			locks[i].on = append(locks[i].on, lockOnNode{n.name, h})
		}
	}
	for i := range locks {
		locks[i].left = majorityLeft(locks[i].on, len(read)/2+1)
	}
	slices.SortStableFunc(locks, func(a, b heldLock) int {
		return cmp.Or(cmp.Compare(a.id.sale, b.id.sale), cmp.Compare(a.id.name, b.id.name),
			cmp.Compare(a.id.shard, b.id.shard), cmp.Compare(b.left, a.left))
	})
	return locks
}

func majorityLeft(on []lockOnNode, majority int) time.Duration {
	if len(on) < majority {
		return 0
	}
	lefts := make([]time.Duration, len(on))
	for i, o := range on {
		lefts[i] = o.holding.Left
	}
	slices.Sort(lefts)
	return lefts[len(lefts)-majority]
}

// namesOf returns a function that identifies keys of named locks and of the leases of one
// sale.
func namesOf(sale, uid string) func(key string) (lockID, bool) {
	return func(key string) (lockID, bool) {
		if name, ok := strings.CutPrefix(key, spec.NamedLockPrefix); ok {
			return lockID{name: name}, true
		}
		if found, shard, ok := spec.ParseLeaseKey(key); ok && uid != "" && found == uid {
			return lockID{sale: sale, shard: shard}, true
		}
		return lockID{}, false
	}
}

// silent lists the nodes that did not answer, with the reason.
func silent(read []nodeLocks) (clauses []string) {
	for _, n := range read {
		if n.err != nil {
			clauses = append(clauses, nodeClause(n.name, n.err))
		}
	}
	return clauses
}

// faults lists the faults of the nodes that answered.
func faults(read []nodeLocks) (clauses []string) {
	var asked []quorum.NodeInfo
	for _, n := range read {
		asked = append(asked, n.asked)
	}
	for _, f := range quorum.Judge(asked) {
		if slices.ContainsFunc(read, func(n nodeLocks) bool { return n.name == f.Node && n.err == nil }) {
			clauses = append(clauses, f.String())
		}
	}
	return clauses
}

// errNotHeld reports that there is no such lock to break.
var errNotHeld = errors.New("nobody holds it")
