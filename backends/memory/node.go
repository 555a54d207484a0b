package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/backends/quorum"
)

// Node implements quorum.Node in memory, with a clock that only Advance moves. It keeps
// every promise of that interface, apart from its faults. All users share one *Node: it is
// the server, not a handle.
type Node struct {
	name string

	// mu guards everything below.
	mu     sync.Mutex
	faults Faults
	late   lateWrites
	hung   chan struct{} // nil unless the node hangs; closed when it goes on
	now    time.Time
	runs   int // the run id is made of it
	memory Promises

	waiting  map[string]map[string]time.Time // by key and waiter: since when it waits
	members  map[string]map[string]present   // by registry and id
	watchers []*watcher
}

// watcher is a call of Watch.
type watcher struct {
	key, waiter string
	freed       chan struct{}
}

// Promises is the stored state of a node. Each value is a separate copy.
type Promises struct {
	markers map[string]marker
	leases  map[string]lease
}

type marker struct {
	runID     string
	votesFrom time.Time
}

// lease has no token if it keeps a freed key for the waiter named as next, whose ID is in
// the note.
type lease struct {
	token, note string
	expires     time.Time
}

func (p Promises) clone() Promises {
	return Promises{markers: maps.Clone(p.markers), leases: maps.Clone(p.leases)}
}

func noPromises() Promises {
	return Promises{markers: make(map[string]marker), leases: make(map[string]lease)}
}

var _ quorum.Node = (*Node)(nil)

// NewNode returns a node whose clock shows now.
func NewNode(name string, now time.Time) *Node {
	return &Node{name: name, now: now, runs: 1, memory: noPromises()}
}

// Advance moves the node's clock on, or back where d is below zero.
func (n *Node) Advance(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = n.now.Add(d)
}

// SetFaults makes the calls from here on suffer the faults; nil for none. An
// Append-only kind such as OwnTaken does not suit a node.
func (n *Node) SetFaults(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Land lets in all writes that are held back, in the order in which they were
// sent, and returns how many that were.
func (n *Node) Land() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.late.landAll()
}

// Promises returns what the node remembers now.
func (n *Node) Promises() Promises {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.memory.clone()
}

// RestartEmpty starts the node again with another run id and no memory.
func (n *Node) RestartEmpty() { n.RestartFrom(noPromises()) }

// RestartFrom starts the node again with another run id and what it remembered
// at some time before. Writes held back are lost with its connections.
func (n *Node) RestartFrom(old Promises) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	n.memory = old.clone()
	n.late = lateWrites{}
	n.waiting, n.members = nil, nil
	for _, w := range n.watchers {
		close(w.freed) // its connection is lost
	}
	n.watchers = nil
}

// Hang makes the node not answer: calls wait for Resume, or for the end of
// their context, and then nothing was done.
func (n *Node) Hang() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hung == nil {
		n.hung = make(chan struct{})
	}
}

// Resume ends Hang.
func (n *Node) Resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hung != nil {
		close(n.hung)
		n.hung = nil
	}
}

// lock takes mu once the node does not hang.
func (n *Node) lock(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n.mu.Lock()
		hung := n.hung
		if hung == nil {
			return nil
		}
		n.mu.Unlock()
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
}

// serve makes one call that may write.
func serve[T any](ctx context.Context, n *Node, op Op, do func() (T, error)) (answer T, err error) {
	if err := n.lock(ctx); err != nil {
		return answer, err
	}
	defer n.mu.Unlock()
	n.late.call()
	return write(&n.late, n.faults.decide(Call{Op: op}), do)
}

// Name implements quorum.Node.
func (n *Node) Name() string { return n.name }

// runID must be called with mu held.
func (n *Node) runID() string { return fmt.Sprintf("%s-run-%d", n.name, n.runs) }

// Info implements quorum.Node.
func (n *Node) Info(ctx context.Context) (quorum.Info, error) {
	return serve(ctx, n, OpInfo, func() (quorum.Info, error) {
		return quorum.Info{RunID: n.runID(), Time: n.now}, nil
	})
}

// Mark implements quorum.Node.
func (n *Node) Mark(ctx context.Context, name, runID string) error {
	_, err := serve(ctx, n, OpMark, func() (struct{}, error) {
		switch runID {
		case "":
			n.votesFrom(name)
		case n.runID():
			n.memory.markers[name] = marker{runID: runID, votesFrom: n.now}
		default:
			return struct{}{}, fmt.Errorf("%s: %w", n.name, quorum.ErrOtherRun)
		}
		return struct{}{}, nil
	})
	return err
}

// ReadMarker implements quorum.Node.
func (n *Node) ReadMarker(ctx context.Context, name string) (quorum.Marker, error) {
	return serve(ctx, n, OpReadMarker, func() (quorum.Marker, error) {
		m, found := n.memory.markers[name]
		if !found || m.runID != n.runID() {
			return quorum.Marker{}, nil
		}
		return quorum.Marker{Good: true, VotesFrom: m.votesFrom}, nil
	})
}

// Forget implements quorum.Node.
func (n *Node) Forget(ctx context.Context, name string) error {
	_, err := serve(ctx, n, OpForget, func() (struct{}, error) {
		delete(n.memory.markers, name)
		return struct{}{}, nil
	})
	return err
}

// votesFrom mends a marker that is missing, of another run, or from before the clock
// was set back. mu is held.
func (n *Node) votesFrom(name string) time.Time {
	m, found := n.memory.markers[name]
	latest := n.now.Add(quorum.MaxTTL)
	if !found || m.runID != n.runID() || m.votesFrom.After(latest) {
		m = marker{runID: n.runID(), votesFrom: latest}
		n.memory.markers[name] = m
	}
	return m.votesFrom
}

// Vote implements quorum.Node.
func (n *Node) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	if b.TTL <= 0 || b.TTL > quorum.MaxTTL {
		return quorum.BallotReply{}, fmt.Errorf("%s: a lease of %v; it must be above 0 and at most %v", n.name, b.TTL, quorum.MaxTTL)
	}
	b.Requests = slices.Clone(b.Requests)
	return serve(ctx, n, OpVote, func() (quorum.BallotReply, error) { return n.vote(b), nil })
}

// vote must be called with mu held.
func (n *Node) vote(b quorum.Ballot) quorum.BallotReply {
	count := quorum.BallotReply{
		Yes:     make([]bool, len(b.Requests)),
		Holders: make([]quorum.Holding, len(b.Requests)),
		Time:    n.now,
	}
	if from := n.votesFrom(b.Marker); n.now.Before(from) {
		count.Abstained, count.VotesFrom = true, from
	}
	for i, request := range b.Requests {
		holder, held := n.holder(request.Key)
		mine := held && (holder.Token == request.Token || keptFor(holder, request))
		if count.Abstained || held && !mine || !held && request.Renew {
			count.Holders[i] = holder
			if held && !count.Abstained && request.Waiter != "" && request.Waited >= 0 {
				n.enlist(request)
			}
			continue
		}
		n.memory.leases[request.Key] = lease{token: request.Token, note: request.Note, expires: n.now.Add(b.TTL)}
		count.Yes[i] = true
		delete(n.waiting[request.Key], request.Waiter)
	}
	return count
}

// keptFor reports whether a freed key is kept for the waiter of a request.
func keptFor(holder quorum.Holding, request quorum.LeaseRequest) bool {
	return holder.Token == "" && request.Waiter != "" && holder.Note == request.Waiter
}

// holder forgets a lease that has run out, and cuts one that was promised before the
// clock was set back to the longest there is. mu is held.
func (n *Node) holder(key string) (quorum.Holding, bool) {
	l, found := n.memory.leases[key]
	if !found {
		return quorum.Holding{}, false
	}
	if !n.now.Before(l.expires) {
		delete(n.memory.leases, key)
		return quorum.Holding{}, false
	}
	if latest := n.now.Add(quorum.MaxTTL); l.expires.After(latest) {
		l.expires = latest
		n.memory.leases[key] = l
	}
	return quorum.Holding{Key: key, Token: l.token, Note: l.note, Left: l.expires.Sub(n.now)}, true
}

// Release implements quorum.Node.
func (n *Node) Release(ctx context.Context, requests []quorum.LeaseRequest) (int, error) {
	requests = slices.Clone(requests)
	return serve(ctx, n, OpRelease, func() (freed int, err error) {
		for _, request := range requests {
			delete(n.waiting[request.Key], request.Waiter)
			holder, held := n.holder(request.Key)
			switch {
			case held && holder.Token == request.Token && (request.Note == "" || holder.Note == request.Note):
				freed++
			case !held || !keptFor(holder, request):
				continue
			}
			delete(n.memory.leases, request.Key)
			n.wake(request)
		}
		return freed, nil
	})
}

// List implements quorum.Node.
func (n *Node) List(ctx context.Context, prefix string) ([]quorum.Holding, error) {
	return serve(ctx, n, OpList, func() (found []quorum.Holding, err error) {
		for _, key := range slices.Sorted(maps.Keys(n.memory.leases)) {
			if h, held := n.holder(key); held && h.Token != "" && strings.HasPrefix(key, prefix) {
				found = append(found, h)
			}
		}
		return found, nil
	})
}
