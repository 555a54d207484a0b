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
	// lockTimeout is how long one lock node may take to tell what it has.
	lockTimeout = 2 * time.Second
	// ledgerTimeout is how long the ledger may take to tell which leases are a
	// sale's. The locks are shown without it.
	ledgerTimeout = 5 * time.Second
)

// readUID reads under which uid the leases of a sale are: "" for one that was
// never applied.
func readUID(ctx context.Context, store *backends.Store, sale string) (uid string, err error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	log := ledger.NewSale(spec.SaleLog(sale))
	_, err = ledger.Load(ctx, store.Logs, spec.SaleLog(sale), log)
	return log.UID(), err
}

// nodeLocks is what one lock node has.
type nodeLocks struct {
	name      string
	err       error // why the rest is empty
	asked     quorum.Asked
	holdings  []quorum.Holding
	votesFrom time.Time // when it abstains from votes on named locks until then
}

// readLocks asks all nodes at once for what begins with prefix.
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
	asked := quorum.AskInfo(ctx, n, now)
	failed := func(err error) nodeLocks {
		if asked.Info.Unfit != "" { // that is why
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

// heldLock is what one holder has of one lock, on all nodes together.
type heldLock struct {
	id     lockID
	holder string
	on     []lockOnNode // in the nodes' order
	// left is until no majority of the nodes has it any more, 0 if none has.
	left time.Duration
}

// lockOnNode is a lock as one node has it.
type lockOnNode struct {
	node    string
	holding quorum.Holding
}

// token is what all that a holder has of a lock bears.
func (l heldLock) token() string { return l.on[0].holding.Token }

// beat is how long ago the holder last renewed, by the clock of the node that
// heard of it last: every renewal sets the expiry anew. False if the holder has
// left no note that says for how long.
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

// heldLocks puts together what the nodes have. name says which lock a key is,
// false for one that does not belong here.
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

// namesOf tells which locks keys are: named ones, and the leases of one sale.
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

// silent says which nodes told nothing, each with why.
func silent(read []nodeLocks) (clauses []string) {
	for _, n := range read {
		if n.err != nil {
			clauses = append(clauses, nodeClause(n.name, n.err))
		}
	}
	return clauses
}

// faults says what speaks against the nodes that have told what they have.
func faults(read []nodeLocks) (clauses []string) {
	var asked []quorum.Asked
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

// errNotHeld says that there is no such lock to break.
var errNotHeld = errors.New("nobody holds it")
