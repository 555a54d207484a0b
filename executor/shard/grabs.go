package shard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/executor/request"
	"salectl/spec"
)

// NodeBatcher sends requests to one node that keeps lists, in batches: requests that arrive while calls
// are under way go into the next call. It is a step machine under a lock. Its caller gets calls from
// Next and passes their replies to HandleReply.
type NodeBatcher struct {
	ack   spec.Ack
	bound int // requests that may wait on one shard

	wake chan struct{} // holds one signal: there may be requests to send

	mu        sync.Mutex
	shards    []*shardQueue // of this node
	nextShard int           // index into shards at which the next call begins
	calls     int           // calls under way
	answered  []answered    // to be delivered by unlock
}

// answered is a ticket that has its answer, and its shard.
type answered struct {
	shard  *Shard
	ticket *request.Ticket
}

// unlock releases mu, and then delivers the tickets that were answered while it was held.
func (g *NodeBatcher) unlock() {
	all := g.answered
	g.answered = nil
	g.mu.Unlock()
	for _, a := range all {
		a.shard.Deliver([]*request.Ticket{a.ticket})
	}
}

// shardQueue is the nodeQueue of a shard with a list: the requests that wait for the node, and the counts
// of grabs that the ledger lacks. A grab is one unit that the node gave to a user. A fill is one filling of
// the list from the log, which numbers the fills; the node gives units under the present fill only.
type shardQueue struct {
	node      *NodeBatcher
	shard     *Shard
	post      func(Event) bool // posts to the shard's sequencer
	list      lists.List
	listReady atomic.Bool // the list gives units, or is off as it should be

	fill     uint64        // fill under which the list gives units; 0: it is off
	offSince clock.Now     // since when the list has been off
	retryAt  time.Duration // monotonic: after an error, the time of the next call
	queue    []*request.Ticket
	given    int64           // grabs in all
	failed   failure         // of the node's calls while the list is on
	refusal  *request.Answer // answer to all requests after the shard has ended; nil: it has not
	waiters  []drainWaiter   // waiting for the ledger to have the grabs

	// The grabs that the ledger lacks; see setState.
	countedFill uint64 // the fill whose grabs they are: the present one, or the last
	users       map[string]grabState
	inFlight    int // users with a call under way
	backlog     backlog
}

// GrabCall is one call of a node, with the tickets of each of its batches.
type GrabCall struct {
	Batches  []lists.Batch
	shards   []*shardQueue
	tickets  [][]*request.Ticket
	calledAt time.Duration // monotonic
}

// Limits of the calls of a node.
const (
	maxGrabsPerCall = 512                   // requests in a call: the script stays well under a millisecond
	MaxCalls        = 2                     // under way at a time: one is decided while the other travels
	GrabTimeout     = time.Second           // of a call
	GrabRetryDelay  = 50 * time.Millisecond // after a call that failed
)

// NewNodeBatcher returns the batcher of one node. bound is how many requests may wait on one shard.
func NewNodeBatcher(ack spec.Ack, bound int) *NodeBatcher {
	return &NodeBatcher{ack: ack, bound: bound, wake: make(chan struct{}, 1)}
}

// Mail returns a channel that holds a signal while there may be requests to send.
func (g *NodeBatcher) Mail() <-chan struct{} { return g.wake }

// AddShard makes a list of the node the engine of a shard, and adds the shard to the batcher. The ledger
// may lack up to mayLack of the list's grabs. It must be called before the shard's first event.
func (g *NodeBatcher) AddShard(s *Shard, l lists.List, sizes lists.Sizes, mayLack int64, now clock.Now) *shardQueue {
	gs := g.add(s, l, mayLack, now)
	s.UseList(l, sizes, gs)
	return gs
}

// add adds the queue of a shard to the batcher. Shards are added while calls for others are under way.
func (g *NodeBatcher) add(s *Shard, l lists.List, mayLack int64, now clock.Now) *shardQueue {
	gs := &shardQueue{node: g, shard: s, post: s.Post, list: l, offSince: now, users: make(map[string]grabState), backlog: backlog{limit: mayLack}}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shards = append(g.shards, gs)
	return gs
}

// queueOf returns the queue of a shard; nil: its list is on another node, or it has none. mu is held.
func (g *NodeBatcher) queueOf(s *Shard) *shardQueue {
	for _, gs := range g.shards {
		if gs.shard == s {
			return gs
		}
	}
	return nil
}

// SetOwned records that this process has taken over a shard whose log it followed before. Requests are
// refused if the shard's list gives no units within StallAfter from now. A shard without a list is ignored.
func (g *NodeBatcher) SetOwned(s *Shard, now clock.Now) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gs := g.queueOf(s); gs != nil && gs.fill == 0 {
		gs.offSince = now
	}
}

// RemoveShard removes a shard that has ended.
func (g *NodeBatcher) RemoveShard(s *Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shards = slices.DeleteFunc(g.shards, func(gs *shardQueue) bool { return gs.shard == s })
	if g.nextShard >= len(g.shards) {
		g.nextShard = 0
	}
}

// SetMaxUnlogged sets how many grabs of a shard's list the ledger may lack. While it lacks as many,
// no further user is sent to the node.
func (g *NodeBatcher) SetMaxUnlogged(s *Shard, mayLack int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gs := g.queueOf(s); gs != nil {
		gs.backlog.limit = mayLack
		g.signal()
	}
}

// Offer queues a ticket, or returns why it cannot.
func (gs *shardQueue) Offer(now clock.Now, t *request.Ticket) api.Outcome {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	switch {
	case gs.refusal != nil && gs.refusal.Elsewhere: // as from the inbox of a shard that has ended
		return api.Standby
	case gs.refusal != nil:
		return gs.refusal.Outcome
	case gs.fill == 0 && now.Since(gs.offSince) >= StallAfter:
		return api.NoQuorum
	case len(gs.queue)+gs.inFlight >= gs.node.bound, gs.backlog.full():
		return api.Overloaded
	}
	gs.shard.Enter(t)
	if gs.queue = append(gs.queue, t); len(gs.queue) == 1 {
		gs.node.signal()
	}
	return ""
}

// requeue queues tickets that got no unit before, after units have been added to the list.
func (gs *shardQueue) requeue(ts []*request.Ticket) {
	gs.node.mu.Lock()
	defer gs.node.unlock()
	gs.queue = append(gs.queue, ts...)
	if gs.refusal != nil {
		gs.node.refuse(gs, *gs.refusal)
	}
	gs.node.signal()
}

// signal sends the signal of Mail.
func (g *NodeBatcher) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// MayHave reports whether a user has, or may have, a unit of the list that the ledger lacks.
func (gs *shardQueue) MayHave(user string) bool {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	return gs.mayHaveLocked(user)
}

// Waiting returns how many requests of the shard wait for the node.
func (gs *shardQueue) Waiting() int {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	return len(gs.queue) + gs.inFlight
}

// Busy reports whether requests of the shard wait for the node, or the ledger lacks grabs.
func (gs *shardQueue) Busy() bool {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	return len(gs.queue)+gs.inFlight > 0 || gs.backlog.unlogged > 0
}

// Accepts reports whether a request is for one unit. A list gives no more than one.
func (gs *shardQueue) Accepts(t *request.Ticket) bool { return t.Quantity == 1 }

func (gs *shardQueue) MayLack() bool { return !gs.shard.Drained() }

func (gs *shardQueue) Ready() bool { return gs.listReady.Load() }

// ApplyEffects implements shard.NodeQueue.
func (gs *shardQueue) ApplyEffects(now clock.Now, e ListEffects) {
	gs.listReady.Store(e.Fill != 0 || e.Drained)
	gs.setFill(now, e.Fill)
	if len(e.LoggedUsers) > 0 {
		gs.markLogged(e.LoggedUsers)
	}
	if len(e.Requeued) > 0 {
		gs.requeue(e.Requeued)
	}
	if e.Drained {
		gs.answerQueued(e.Refusal)
	}
}

// answerQueued answers the queued requests while the sale is paused or closed: with the user's claim in
// the log, or with the reason why there is none. The list is off, and the log has all its grabs.
func (gs *shardQueue) answerQueued(refusal func(*request.Ticket) request.Answer) {
	waited := gs.takeQueued()
	for _, t := range waited {
		t.Answer = t.ForRequester(refusal(t))
	}
	gs.shard.ConcludeAndDeliver(waited, gs.MayHave)
}

// setFill records the fill under which the list gives units; 0: it gives none. A new fill resets the counts
// of grabs. Once the list has been off for StallAfter, setFill refuses the queued requests.
func (gs *shardQueue) setFill(now clock.Now, fill uint64) {
	gs.node.mu.Lock()
	defer gs.node.unlock()
	switch {
	case gs.fill == fill:
	case fill == 0:
		gs.fill, gs.offSince = 0, now
	default: // the list was filled from the ledger, which has all grabs of before
		gs.resetCounts()
		gs.fill, gs.countedFill, gs.retryAt = fill, fill, 0
		gs.wakeWaiters()
		gs.node.signal()
	}
	if gs.fill == 0 && now.Since(gs.offSince) >= StallAfter {
		gs.node.refuse(gs, NodeSilent)
	}
}

// takeQueued removes and returns all queued requests. The ledger has all grabs of the list, including
// those that other processes have drained.
func (gs *shardQueue) takeQueued() (waited []*request.Ticket) {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	if gs.backlog.size() > 0 {
		gs.resetCounts()
		gs.wakeWaiters()
	}
	for _, t := range gs.queue {
		if t.SentToList || t.Take() {
			waited = append(waited, t)
		}
	}
	gs.queue = nil
	return waited
}

// refuse answers all queued requests of a shard. A request with an earlier call that got no reply may
// have a unit, so its answer is Undecided.
func (g *NodeBatcher) refuse(gs *shardQueue, a request.Answer) {
	for _, t := range gs.queue {
		switch {
		case t.SentToList:
			t.Answer = request.Undecided
			t.Answer.Elsewhere = a.Elsewhere
		case t.Take():
			t.Answer = gs.recallOr(t, a)
		default:
			continue // it was withdrawn
		}
		gs.conclude(t)
	}
	gs.queue = nil
}

// recallOr returns the claim of a request if the log has it, else a. The node may have given the user
// a unit for the owner before; that grab came into the log when this process filled the list, while the
// request waited for the fill.
func (gs *shardQueue) recallOr(t *request.Ticket, a request.Answer) request.Answer {
	if a.Elsewhere {
		return a
	}
	if had, ok := gs.shard.Recall(gs.shard.Clock(), t.Request); ok && had.Accepted() {
		return t.ForRequester(had)
	}
	return a
}

// conclude concludes an answered ticket, and has unlock deliver it.
func (gs *shardQueue) conclude(t *request.Ticket) {
	gs.shard.Conclude([]*request.Ticket{t}, gs.mayHaveLocked)
	gs.node.answered = append(gs.node.answered, answered{gs.shard, t})
}

// ShutDown refuses all requests of the shard from now on.
func (gs *shardQueue) ShutDown(refusal request.Answer) {
	gs.node.mu.Lock()
	defer gs.node.unlock()
	gs.refusal, gs.fill = &refusal, 0
	gs.node.refuse(gs, refusal)
	gs.node.abandonCounts(gs)
}

// abandonCounts ends the counts of grabs that the ledger lacks: this process will not learn their
// outcome. Users who have, or may have, such a grab stay in doubt.
func (g *NodeBatcher) abandonCounts(gs *shardQueue) {
	for user, s := range gs.users {
		if !s.uncounted() {
			gs.shard.KeepInDoubt(user, request.AnyKey)
		}
	}
	gs.resetCounts()
	gs.wakeWaiters()
}

// markLogged records that the ledger has the grabs of these users.
func (gs *shardQueue) markLogged(users []string) {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	for _, user := range users {
		gs.setLogged(user)
	}
	gs.wakeWaiters()
	gs.node.signal()
}

// drainWaiter waits until the ledger has as many grabs, counted from the first.
type drainWaiter struct {
	grabs int64
	done  chan struct{}
}

// Drain implements nodeQueue.
func (gs *shardQueue) Drain() <-chan struct{} {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	w := drainWaiter{grabs: gs.given, done: make(chan struct{})}
	if gs.backlog.unlogged == 0 {
		close(w.done)
		return w.done
	}
	gs.waiters = append(gs.waiters, w)
	gs.post(DrainRequested{})
	return w.done
}

// wakeWaiters closes the channels of the waiters whose grabs the ledger has.
func (gs *shardQueue) wakeWaiters() {
	gs.waiters = slices.DeleteFunc(gs.waiters, func(w drainWaiter) bool {
		there := gs.given-gs.backlog.unlogged >= w.grabs
		if there {
			close(w.done)
		}
		return there
	})
}

func (gs *shardQueue) AddStatus(v *Status) {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	v.Listed, v.ListOn, v.Undrained = true, gs.fill != 0, gs.backlog.unlogged
}

// Next prepares the next call in c. It returns false if no call is due now, and the monotonic time
// from which one is; 0: not before an event.
func (g *NodeBatcher) Next(now clock.Now, c *GrabCall) (bool, time.Duration) {
	g.mu.Lock()
	defer g.unlock()
	c.reset()
	c.calledAt = now.Mono
	if g.calls >= MaxCalls {
		return false, 0
	}
	wake, n, room := g.rebuildStuck(now), len(g.shards), maxGrabsPerCall
	for i := range n {
		gs := g.shards[(g.nextShard+i)%n]
		if len(gs.queue) > 0 {
			g.refuseBlocked(now, gs)
		}
		switch {
		case len(gs.queue) == 0, gs.fill == 0:
		case gs.retryAt > now.Mono:
			wake = clock.Soonest(wake, gs.retryAt)
		default:
			room -= c.add(now, gs, room)
		}
	}
	if len(c.Batches) == 0 {
		return false, wake
	}
	g.nextShard = (g.nextShard + 1) % n
	g.calls++
	if slices.ContainsFunc(g.shards, func(gs *shardQueue) bool { return gs.fill != 0 && len(gs.queue) > 0 }) {
		g.signal() // for another goroutine that makes calls
	}
	return true, 0
}

// Call returns the call that Next has prepared in c, of the node with that index. HandleReply receives
// its reply.
func (g *NodeBatcher) Call(node int, c *GrabCall) calls.Call {
	return calls.OfList(node, "grab", GrabTimeout, func(ctx context.Context, list lists.Node) GrabReply {
		given, err := list.Grab(ctx, c.Batches)
		return GrabReply{given, err}
	}, func(now clock.Now, r GrabReply) { g.HandleReply(now, c, r.Given, r.Err) }, func(err error) GrabReply { return GrabReply{Err: err} })
}

// GrabReply is the reply of a node to a GrabCall: the units given, by batch.
type GrabReply struct {
	Given []lists.Given
	Err   error
}

func (c *GrabCall) reset() {
	c.Batches, c.shards, c.tickets = c.Batches[:0], c.shards[:0], c.tickets[:0]
}

// maxFirstAttempts returns how many requests that were in no call yet may go into the next call. After a
// call without a reply it is one, and zero until all requests of that call have their answer: a node
// that stays silent then leaves few requests in doubt.
func (gs *shardQueue) maxFirstAttempts() int {
	switch {
	case gs.failed.err == nil:
		return maxGrabsPerCall
	case gs.hasRepeats():
		return 0
	}
	return 1
}

// add moves up to most requests from a shard's queue into the call, and returns how many. Requests stay in
// the queue if a call for their user is under way, if their grab would exceed the backlog's limit, or if
// they are first attempts beyond maxFirstAttempts. Withdrawn requests are removed; superseded ones are
// refused.
func (c *GrabCall) add(now clock.Now, gs *shardQueue, most int) int {
	first := gs.maxFirstAttempts()
	size := min(most, len(gs.queue))
	b := lists.Batch{
		List: gs.list, Fill: gs.fill, At: now.Wall.UnixMicro(), Users: make([]string, 0, size), Keys: make([]string, 0, size),
	}
	tickets := make([]*request.Ticket, 0, size)
	keep := gs.queue[:0]
	for i, t := range gs.queue {
		if len(tickets) == most {
			keep = append(keep, gs.queue[i:]...)
			break
		}
		s := gs.users[t.User]
		if s&inFlight != 0 || s.uncounted() && gs.backlog.room() == 0 || !t.SentToList && first == 0 {
			keep = append(keep, t) // for a later call
			continue
		}
		if !t.SentToList {
			if !t.Take() {
				continue // it was withdrawn
			}
			if t.IsSuperseded() {
				t.Answer = request.Refusal(api.NoQuorum)
				gs.conclude(t)
				continue
			}
			first--
		}
		gs.setState(t.User, s|inFlight)
		b.Users, b.Keys = append(b.Users, t.User), append(b.Keys, t.Key)
		tickets = append(tickets, t)
	}
	clear(gs.queue[len(keep):])
	gs.queue = keep
	if len(tickets) > 0 {
		c.Batches, c.shards, c.tickets = append(c.Batches, b), append(c.shards, gs), append(c.tickets, tickets)
	}
	return len(tickets)
}
