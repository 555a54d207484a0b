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
	"salectl/spec"
)

// NodeBatcher is the way of requests to one node that keeps lists: those that queue
// while calls are under way go together in the next one. Like a sequencer it is a
// step machine, but under a lock: whoever makes its calls gets them from Next and
// hands what came of them to Done.
type NodeBatcher struct {
	ack   spec.Ack
	bound int // requests that may wait on one shard

	wake chan struct{} // holds one signal: there may be something to ask

	mu        sync.Mutex
	shards    []*shardQueue // of this node
	nextShard int           // of shards, where the next call begins
	calls     int           // calls under way
	answered  []answered    // those who are to be told so by unlock
}

// answered is a request that has its answer.
type answered struct {
	shard  *Shard
	ticket *Ticket
}

// unlock gives mu back, and tells those who were answered under it.
func (g *NodeBatcher) unlock() {
	all := g.answered
	g.answered = nil
	g.mu.Unlock()
	for _, a := range all {
		a.shard.deliver([]*Ticket{a.ticket})
	}
}

// shardQueue is the requests of one shard that wait for its list's node, and what that
// gave. It is the shard's front.
type shardQueue struct {
	node   *NodeBatcher
	shard  *Shard
	engine *listEngine // of the shard's sequencer
	list   lists.List
	filled atomic.Bool // the list gives, if it should

	fill           uint64        // under which the list gives; 0: it does not
	offSince       clock.Now     // since when it does not
	retryAt        time.Duration // monotonic: after an error it is not asked before
	queue          []*Ticket
	given          int64         // grabs in all
	drainScheduled bool          // the sequencer knows that there is something to drain
	drainUrgent    bool          // and that it is to do so at once
	failed         failure       // what the node does not do, though the list is on
	refusal        *Answer       // what all are told from here on; nil: the shard has not ended
	waiters        []drainWaiter // for the ledger to have what was given

	// What the ledger lacks; see set.
	countedFill uint64 // the fill of which that is: the present, or the last one
	users       map[string]grantState
	inFlight    int // for whom calls are under way
	backlog     backlog
}

// GrabCall is one call of a node, with the tickets of each of its batches.
type GrabCall struct {
	Batches  []lists.Batch
	shards   []*shardQueue
	tickets  [][]*Ticket
	calledAt time.Duration // monotonic
}

// How a node is asked.
const (
	grabsAtOnce = 512                   // requests in a call: the script stays well under a millisecond
	CallsAtOnce = 2                     // under way at a time: one is decided while the other travels
	GrabTimeout = time.Second           // of a call
	GrabPause   = 50 * time.Millisecond // after a call that failed
)

// NewNodeBatcher returns that of one node. bound is how many requests may wait on one
// shard.
func NewNodeBatcher(ack spec.Ack, bound int) *NodeBatcher {
	return &NodeBatcher{ack: ack, bound: bound, wake: make(chan struct{}, 1)}
}

// Mail holds a signal while there may be something to ask.
func (g *NodeBatcher) Mail() <-chan struct{} { return g.wake }

// Serve makes the lists' node the way to the units of a shard: from here on they lie in
// its list, of whose grabs the ledger may lack so many.
func (g *NodeBatcher) Serve(s *Shard, l lists.List, sizes lists.Sizes, mayLack int64, now clock.Now) *shardQueue {
	gs := &shardQueue{node: g, shard: s, list: l, offSince: now, users: make(map[string]grantState), backlog: backlog{limit: mayLack}}
	gs.engine = s.seq.useList(l, sizes, gs.busy)
	s.nodeQueue = gs
	g.mu.Lock() // shards come while the node is asked about others
	defer g.mu.Unlock()
	g.shards = append(g.shards, gs)
	return gs
}

// Own says that a shard whose machine followed its log is this process's from here on: its
// list has until StallAfter to give.
func (g *NodeBatcher) Own(s *Shard, now clock.Now) {
	if gs, ok := s.nodeQueue.(*shardQueue); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		if gs.fill == 0 {
			gs.offSince = now
		}
	}
}

// Leave ends the way to the units of a shard, whose machine has ended.
func (g *NodeBatcher) Leave(s *Shard) {
	if gs, ok := s.nodeQueue.(*shardQueue); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.shards = slices.DeleteFunc(g.shards, func(x *shardQueue) bool { return x == gs })
		if g.nextShard >= len(g.shards) {
			g.nextShard = 0
		}
	}
}

// Allot sets how many of the grabs of a shard's list the ledger may lack from here on. What
// it lacks already stays.
func (g *NodeBatcher) Allot(s *Shard, mayLack int64) {
	if gs, ok := s.nodeQueue.(*shardQueue); ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		gs.backlog.limit = mayLack
		g.signal()
	}
}

// offer queues a ticket, or says why not.
func (gs *shardQueue) offer(now clock.Now, t *Ticket) api.Outcome {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	switch {
	case gs.refusal != nil && gs.refusal.Elsewhere: // as a shard without a list says when it has ended
		return api.Standby
	case gs.refusal != nil:
		return gs.refusal.Outcome
	case gs.fill == 0 && now.Since(gs.offSince) >= StallAfter:
		return api.NoQuorum
	case len(gs.queue)+gs.inFlight >= gs.node.bound, gs.backlog.full():
		return api.Overloaded
	}
	t.enter(&gs.shard.pending)
	if gs.queue = append(gs.queue, t); len(gs.queue) == 1 {
		gs.node.signal()
	}
	return ""
}

// again queues tickets that were short of units, which have come since.
func (gs *shardQueue) requeue(ts []*Ticket) {
	gs.node.mu.Lock()
	defer gs.node.unlock()
	gs.queue = append(gs.queue, ts...)
	if gs.refusal != nil {
		gs.node.refuse(gs, *gs.refusal)
	}
	gs.node.signal()
}

func (g *NodeBatcher) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// mayHave reports whether a user was given something by a shard's list, or may have
// been, that the ledger lacks.
func (gs *shardQueue) mayHave(user string) bool {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	return gs.mayHaveLocked(user)
}

// waiting returns how many requests of a shard wait for the node.
func (gs *shardQueue) waiting() int {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	return len(gs.queue) + gs.inFlight
}

// busy reports whether requests of a shard wait for the node, or the ledger does not
// have all that it gave.
func (gs *shardQueue) busy() bool {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	return len(gs.queue)+gs.inFlight > 0 || gs.backlog.unlogged > 0
}

// takes: whoever asks for more than one unit gets none of a list.
func (gs *shardQueue) accepts(t *Ticket) bool { return t.Quantity == 1 }

func (gs *shardQueue) mayLack() bool { return !gs.shard.drained.Load() }

func (gs *shardQueue) ready() bool { return gs.filled.Load() }

// carry learns how the list is, and whom to ask for again.
func (gs *shardQueue) applyEffects(now clock.Now, e Effects) {
	list := gs.engine
	fill, drained := uint64(0), list.drained()
	if list.open() {
		fill = list.list.On()
	}
	gs.filled.Store(fill != 0 || drained)
	gs.setFill(now, fill)
	if len(e.loggedUsers) > 0 {
		gs.markLogged(e.loggedUsers)
	}
	if len(e.requeued) > 0 {
		gs.requeue(e.requeued)
	}
	if drained {
		gs.answerQueued(now)
	}
}

// answerWaiting answers those who wait for a list that gives nothing any more: what
// they have by the log, or why they get nothing.
func (gs *shardQueue) answerQueued(now clock.Now) {
	waited := gs.takeQueued()
	for _, t := range waited {
		t.answer = t.forRequester(gs.engine.refusalFor(t, now))
	}
	gs.shard.concludeAndDeliver(waited, gs.mayHave)
}

// turn says under which fill a list gives, 0 if it does not.
func (gs *shardQueue) setFill(now clock.Now, fill uint64) {
	gs.node.mu.Lock()
	defer gs.node.unlock()
	switch {
	case gs.fill == fill:
	case fill == 0:
		gs.fill, gs.offSince = 0, now
	default: // it is filled from the ledger, which has all that was given before
		gs.resetCounts()
		gs.fill, gs.countedFill, gs.retryAt, gs.drainScheduled, gs.drainUrgent = fill, fill, 0, false, false
		gs.wakeWaiters()
		gs.node.signal()
	}
	if gs.fill == 0 && now.Since(gs.offSince) >= StallAfter {
		gs.node.refuse(gs, NodeSilent)
	}
}

// handBack hands back all who wait on a shard and have no answer: the ledger has all
// that its list gave, also what others have drained.
func (gs *shardQueue) takeQueued() (waited []*Ticket) {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	if gs.backlog.size() > 0 {
		gs.resetCounts()
		gs.wakeWaiters()
	}
	for _, t := range gs.queue {
		if t.sentToList || t.take() {
			waited = append(waited, t)
		}
	}
	gs.queue = nil
	return waited
}

// refuse answers all who wait on a shard. Who was asked for before, without an
// answer, may have been given something.
func (g *NodeBatcher) refuse(gs *shardQueue, a Answer) {
	for _, t := range gs.queue {
		switch {
		case t.sentToList:
			t.answer = Undecided
			t.answer.Elsewhere = a.Elsewhere
		case t.take():
			t.answer = gs.recallOr(t, a)
		default:
			continue // nobody waits for it any more
		}
		gs.conclude(t)
	}
	gs.queue = nil
}

// orHad is the refusal of a request, unless the log has its claim: the owner before may have
// had the node give it something, which came into the log when this process filled the list,
// while the request waited for that.
func (gs *shardQueue) recallOr(t *Ticket, a Answer) Answer {
	if a.Elsewhere {
		return a
	}
	if had, ok := gs.shard.Recall(gs.shard.clock(), t.Request); ok && had.Accepted() {
		return t.forRequester(had)
	}
	return a
}

// tell has a request told its answer by unlock.
func (gs *shardQueue) conclude(t *Ticket) {
	gs.shard.conclude([]*Ticket{t}, gs.mayHaveLocked)
	gs.node.answered = append(gs.node.answered, answered{gs.shard, t})
}

// shutDown refuses all requests of a shard from here on.
func (gs *shardQueue) shutDown(refusal Answer) {
	gs.node.mu.Lock()
	defer gs.node.unlock()
	gs.refusal, gs.fill = &refusal, 0
	gs.node.refuse(gs, refusal)
	gs.node.abandonCounts(gs)
}

// abandon ends the count of what the ledger lacks: nobody here will know what becomes
// of it. Whoever was given something, or may have been, stays in doubt.
func (g *NodeBatcher) abandonCounts(gs *shardQueue) {
	for user, s := range gs.users {
		if !s.uncounted() {
			gs.shard.keepInDoubt(user, AnyKey)
		}
	}
	gs.resetCounts()
	gs.wakeWaiters()
}

// drained says of which users of a shard the ledger has the grabs.
func (gs *shardQueue) markLogged(users []string) {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	gs.drainScheduled, gs.drainUrgent = false, false
	for _, user := range users {
		gs.setLogged(user)
	}
	gs.wakeWaiters()
	gs.node.signal()
}

// drainWaiter waits until the ledger has so many of the grabs in all.
type drainWaiter struct {
	grabs int64
	done  chan struct{}
}

func (gs *shardQueue) drain() <-chan struct{} {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	if gs.backlog.unlogged == 0 {
		return closedChan
	}
	w := drainWaiter{grabs: gs.given, done: make(chan struct{})}
	gs.waiters = append(gs.waiters, w)
	gs.shard.Post(DrainRequested{})
	return w.done
}

// wakeWaiters tells those who wait for what the ledger has now.
func (gs *shardQueue) wakeWaiters() {
	gs.waiters = slices.DeleteFunc(gs.waiters, func(w drainWaiter) bool {
		there := gs.given-gs.backlog.unlogged >= w.grabs
		if there {
			close(w.done)
		}
		return there
	})
}

func (gs *shardQueue) addStatus(v *Status) {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	v.Listed, v.ListOn, v.Undrained = true, gs.fill != 0, gs.backlog.unlogged
}

// Next puts what is to be asked into c. false: nothing is now, or before the
// monotonic time returned, which is 0 where an event must come first.
func (g *NodeBatcher) Next(now clock.Now, c *GrabCall) (bool, time.Duration) {
	g.mu.Lock()
	defer g.unlock()
	c.reset()
	c.calledAt = now.Mono
	switch {
	case g.calls >= CallsAtOnce:
		return false, 0
	}
	wake, n, room := g.rebuildStuck(now), len(g.shards), grabsAtOnce
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
		g.signal() // for whoever else makes calls
	}
	return true, 0
}

// Call returns a call that Next has prepared, of the node of that index; its reply is
// taken in by Done.
func (g *NodeBatcher) Call(node int, c *GrabCall) calls.Call {
	return calls.OfList(node, "grab", GrabTimeout, func(ctx context.Context, list lists.Node) GrabReply {
		given, err := list.Grab(ctx, c.Batches)
		return GrabReply{given, err}
	}, func(now clock.Now, r GrabReply) { g.HandleReply(now, c, r.Given, r.Err) }, func(err error) GrabReply { return GrabReply{Err: err} })
}

// GrabReply is what a node says to a GrabCall: what it has given to each of its batches.
type GrabReply struct {
	Given []lists.Given
	Err   error
}

func (c *GrabCall) reset() {
	c.Batches, c.shards, c.tickets = c.Batches[:0], c.shards[:0], c.tickets[:0]
}

// probe returns how many requests a shard's node may be asked for the first time:
// where the last call was not answered one, once all have their answer who may have
// been given something. A node that is silent for long is then asked for few of
// whom nobody knows what they have.
func (gs *shardQueue) firstAttempts() int {
	switch {
	case gs.failed.err == nil:
		return grabsAtOnce
	case gs.hasRepeats():
		return 0
	}
	return 1
}

// add takes up to most requests from a shard's queue, none of a user for whom the
// node is being asked, and of users who may be given a unit that is not counted yet as
// many as the backlog has room for. It returns how many.
func (c *GrabCall) add(now clock.Now, gs *shardQueue, most int) int {
	first := gs.firstAttempts()
	size := min(most, len(gs.queue))
	b := lists.Batch{
		List: gs.list, Fill: gs.fill, At: now.Wall.UnixMicro(), Users: make([]string, 0, size), Keys: make([]string, 0, size),
	}
	tickets := make([]*Ticket, 0, size)
	keep := gs.queue[:0]
	for i, t := range gs.queue {
		if len(tickets) == most {
			keep = append(keep, gs.queue[i:]...)
			break
		}
		s := gs.users[t.User]
		if s&inFlight != 0 || s.uncounted() && gs.backlog.room() == 0 || !t.sentToList && first == 0 {
			keep = append(keep, t) // its turn comes
			continue
		}
		if !t.sentToList {
			if !t.take() {
				continue // nobody waits for it any more
			}
			if t.isSuperseded() {
				t.answer = refuseHere(api.NoQuorum)
				gs.conclude(t)
				continue
			}
			first--
		}
		gs.set(t.User, s|inFlight)
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
