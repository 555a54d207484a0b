// Package listengine serves the requests of shards whose units are in lists on nodes (engine redis). It
// batches the requests of all shards of a node into its calls, answers them from the replies, and counts
// the units that a node granted and the ledger lacks.
//
// # Guarantees
//
//   - A user has at most one call under way per shard, so that a list decides the user's requests one by one.
//   - The ledger never lacks more grabs of a shard than its limit: while it lacks as many, no further user is
//     sent to the node.
//   - A request with a call that got no reply is sent again, or answered unknown. Its answer denies no unit
//     that the call may have given.
//   - With ack ledger no request is accepted before the shard's log has its unit.
//
// # Left to the caller
//
// The caller makes the calls that Next prepares, on at most MaxCalls goroutines for each node, and passes each
// reply to HandleReply. Package shard drains the grabs into the log, fills the lists from the log, and exchanges
// units with other shards (shard.Shard.UseList).
//
// # States
//
// A request waits, is in a call, and is answered; without a unit it waits in its shard for units, and with a
// unit and ack ledger for the log. grabState is what is known of a user's grab: in a call, granted but not
// logged, or perhaps granted; when the log has the grab, its state is dropped.
package listengine

import (
	"slices"
	"sync"
	"time"

	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/spec"
)

// Batcher sends requests to one node that keeps lists, in batches: requests that arrive while calls
// are under way go into the next call. It is a step machine under a lock. Its caller gets calls from
// Next and passes their replies to HandleReply.
type Batcher struct {
	ack   spec.Ack
	bound int // requests that may wait on one shard

	wake chan struct{} // holds one signal: there may be requests to send

	mu        sync.Mutex
	queues    []*queue   // of this node
	nextQueue int        // index into queues at which the next call begins, modulo their number
	calls     int        // calls under way
	answered  []answered // to be delivered by unlock
}

// answered are tickets of a shard that have their answers.
type answered struct {
	shard   *shard.Shard
	tickets []*request.Ticket
}

// unlock releases mu, and then delivers the tickets that were answered while it was held.
func (g *Batcher) unlock() {
	all := g.answered
	g.answered = nil
	g.mu.Unlock()
	for _, a := range all {
		a.shard.Deliver(a.tickets)
	}
}

// Limits of the calls of a node.
const (
	maxPerCall  = 512                   // requests in a call: the script stays well under a millisecond
	MaxCalls    = 2                     // under way at a time: one is decided while the other travels
	CallTimeout = time.Second           // of a call
	RetryDelay  = 50 * time.Millisecond // after a call that failed
)

// New returns the batcher of one node. bound is how many requests may wait on one shard.
func New(ack spec.Ack, bound int) *Batcher {
	return &Batcher{ack: ack, bound: bound, wake: make(chan struct{}, 1)}
}

// Mail returns a channel that holds a signal while there may be requests to send.
func (g *Batcher) Mail() <-chan struct{} { return g.wake }

// AddShard makes a list of the node the engine of a shard, and adds the shard to the batcher. The ledger
// may lack up to mayLack of the list's grabs. It must be called before the shard's first event.
func (g *Batcher) AddShard(s *shard.Shard, l lists.List, sizes lists.Sizes, mayLack int64, now clock.Now) {
	s.UseList(l, sizes, g.add(s, l, mayLack, now))
}

// add adds the queue of a shard to the batcher. Shards are added while calls for others are under way.
func (g *Batcher) add(s *shard.Shard, l lists.List, mayLack int64, now clock.Now) *queue {
	q := &queue{node: g, shard: s, post: s.Post, list: l, offSince: now, users: make(map[string]grabState), backlog: backlog{limit: mayLack}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues = append(g.queues, q)
	return q
}

// queueOf returns the queue of a shard; nil: its list is on another node, or it has none. mu is held.
func (g *Batcher) queueOf(s *shard.Shard) *queue {
	for _, q := range g.queues {
		if q.shard == s {
			return q
		}
	}
	return nil
}

// SetOwned records that this process has taken over a shard whose log it followed before. Requests are
// refused if the shard's list grants no units within StallAfter from now. A shard without a list is ignored.
func (g *Batcher) SetOwned(s *shard.Shard, now clock.Now) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.queueOf(s); q != nil && q.fill == 0 {
		q.offSince = now
	}
}

// RemoveShard removes a shard that has ended.
func (g *Batcher) RemoveShard(s *shard.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.queues = slices.DeleteFunc(g.queues, func(q *queue) bool { return q.shard == s })
}

// SetMaxUnlogged sets how many grabs of a shard's list the ledger may lack. While it lacks as many,
// no further user is sent to the node.
func (g *Batcher) SetMaxUnlogged(s *shard.Shard, mayLack int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if q := g.queueOf(s); q != nil {
		q.backlog.limit = mayLack
		g.signal()
	}
}

// signal sends the signal of Mail.
func (g *Batcher) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
