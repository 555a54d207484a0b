package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/spec"
)

// grabber is the way of requests to one node that keeps lists: those that queue
// while calls are under way go together in the next one. Like a sequencer it is a
// step machine, but under a lock: whoever makes its calls gets them from next and
// hands what came of them to done.
type grabber struct {
	ack     spec.Ack
	bound   int // requests that may wait on one shard
	backlog *backlog

	wake chan struct{} // holds one signal: there may be something to ask
	over chan struct{} // closed by close

	mu     sync.Mutex
	shards []*grabbed // of this node
	by     map[int]*grabbed
	from   int // of shards, where the next call begins
	under  int // calls under way
}

// backlog is how far the ledger is behind, for all nodes of a sale.
type backlog struct {
	behind atomic.Int64 // grabs that the ledger does not have yet
	asked  atomic.Int64 // requests in calls under way, each of which may be one more
	most   int64        // of both
}

// room returns how many requests more a node may be asked.
func (b *backlog) room() int64 { return max(b.most-b.behind.Load()-b.asked.Load(), 0) }

// grabbed is what a grabber has of one shard.
type grabbed struct {
	shard *shard
	list  lists.List

	fill   uint64        // under which the list gives; 0: it does not
	off    clock.Now     // since when it does not
	again  time.Duration // monotonic: after an error it is not asked before
	queue  []*ticket
	asks   map[string]struct{} // the users of calls under way
	behind int64               // of backlog.behind
	given  int64               // grabs in all
	told   bool                // the sequencer knows that there is something to drain
	failed failure             // what the node does not do, though the list is on
	shut   Outcome
}

// grabCall is one call of a node, with the tickets of each of its batches.
type grabCall struct {
	batches []lists.Batch
	shards  []*grabbed
	tickets [][]*ticket
}

const (
	grabsAtOnce = 512 // requests in a call: the script stays well under a millisecond
	grabCalls   = 2   // under way at a time: one is decided while the other travels
	grabTimeout = time.Second
	grabPause   = 50 * time.Millisecond // after a call that failed
)

func newGrabber(ack spec.Ack, bound int, b *backlog) *grabber {
	return &grabber{
		ack: ack, bound: bound, backlog: b, by: make(map[int]*grabbed),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// keep makes the grabber the one of a shard.
func (g *grabber) keep(s *shard, l lists.List, now clock.Now) {
	gs := &grabbed{shard: s, list: l, off: now, asks: make(map[string]struct{})}
	g.shards = append(g.shards, gs)
	g.by[l.Shard] = gs
}

// offer queues a ticket, or says why not.
func (g *grabber) offer(now clock.Now, shard int, t *ticket) Outcome {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	switch {
	case gs.shut != "":
		return gs.shut
	case gs.fill == 0 && now.Since(gs.off) >= stallAfter:
		return NoQuorum
	case len(gs.queue)+len(gs.asks) >= g.bound, g.backlog.behind.Load() >= g.backlog.most:
		return Overloaded
	}
	if gs.queue = append(gs.queue, t); len(gs.queue) == 1 {
		g.rouse()
	}
	return ""
}

// again queues tickets that were short of units, which have come since.
func (g *grabber) again(shard int, ts []*ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	gs.queue = append(gs.queue, ts...)
	if gs.shut != "" {
		g.refuse(gs, Answer{Outcome: gs.shut, RetryAfter: time.Second})
	}
	g.rouse()
}

func (g *grabber) rouse() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// waiting returns how many requests of a shard wait for the node.
func (g *grabber) waiting(shard int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	return len(gs.queue) + len(gs.asks)
}

// busy says whether requests of a shard wait for the node, or the ledger does not
// have all that it gave.
func (g *grabber) busy(shard int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	return len(gs.queue)+len(gs.asks) > 0 || gs.behind > 0
}

// turn says under which fill a list gives, 0 if it does not.
func (g *grabber) turn(now clock.Now, shard int, fill uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	switch {
	case gs.fill == fill:
	case fill == 0:
		gs.fill, gs.off = 0, now
	default: // it is filled from the ledger, which has all that was given before
		g.backlog.behind.Add(-gs.behind)
		gs.fill, gs.behind, gs.again, gs.told = fill, 0, 0, false
		g.rouse()
	}
	if gs.fill == 0 && now.Since(gs.off) >= stallAfter {
		g.refuse(gs, Answer{Outcome: NoQuorum, RetryAfter: time.Second, Message: "the node that has its units does not answer"})
	}
}

// turnAway answers all who wait on a shard.
func (g *grabber) turnAway(shard int, a Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse(g.by[shard], a)
}

// refuse answers all who wait on a shard. Who was asked for before, without an
// answer, may have been given something.
func (g *grabber) refuse(gs *grabbed, a Answer) {
	for _, t := range gs.queue {
		switch {
		case t.asked:
			t.answer = Answer{Outcome: Unknown, RetryAfter: time.Second}
		case t.take():
			t.answer = a
		default:
			continue // nobody waits for it any more
		}
		t.tell()
	}
	gs.queue = nil
}

// shutDown refuses all requests of a shard from here on.
func (g *grabber) shutDown(shard int, why Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	gs.shut, gs.fill = why, 0
	g.refuse(gs, Answer{Outcome: why, RetryAfter: time.Second})
	g.backlog.behind.Add(-gs.behind)
	gs.behind = 0
}

// drained says that the ledger has n grabs of a shard more.
func (g *grabber) drained(shard, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	gs.told = false
	less := int64(n)
	if len(gs.asks) == 0 {
		less = min(less, gs.behind) // replies that are lost were not counted
	}
	g.rouse()
	gs.behind -= less // below 0 while a reply is on its way that the drainer has overtaken
	g.backlog.behind.Add(-less)
}

// lag returns how many grabs of a shard there were, and how many of them the
// ledger does not have yet.
func (g *grabber) lag(shard int) (given, behind int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	return gs.given, gs.behind
}

// state says whether a list gives, and how many of its grabs the ledger does not
// have yet.
func (g *grabber) state(shard int) (on bool, undrained int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	return gs.fill != 0, max(gs.behind, 0)
}

// failure is since when and why a node gives nothing from a list that is on, and
// when it last said so.
type failure struct {
	since, last clock.Now
	err         error // nil: it does
}

func (f *failure) note(now clock.Now, err error) {
	if f.err == nil {
		f.since = now
	}
	f.last, f.err = now, err
}

// stall says since when and why the node gives nothing from a shard's list, as long
// as that is news: somebody must ask to find out that it does again.
func (g *grabber) stall(now clock.Now, shard int) *Stall {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.by[shard].failed
	if f.err == nil || now.Since(f.last) > 2*stallAfter {
		return nil
	}
	return &Stall{Since: f.since.Wall, Error: oneLine(f.err), node: true}
}

// next puts what is to be asked into c. false: nothing is now, or before the
// monotonic time returned, which is 0 where an event must come first.
func (g *grabber) next(now clock.Now, c *grabCall) (bool, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.reset()
	if g.under >= grabCalls {
		return false, 0
	}
	wake, left, n := time.Duration(0), int(min(grabsAtOnce, g.backlog.room())), len(g.shards)
	if left == 0 {
		return false, g.full(now)
	}
	for i := range n {
		gs := g.shards[(g.from+i)%n]
		switch {
		case gs.fill == 0 || len(gs.queue) == 0:
		case gs.again > now.Mono:
			wake = soonest(wake, gs.again)
		case left > 0:
			left -= c.add(gs, left)
		}
	}
	if len(c.batches) == 0 {
		return false, wake
	}
	if n > 1 {
		g.from = (g.from + 1) % n
	}
	g.under++
	for _, ts := range c.tickets {
		g.backlog.asked.Add(int64(len(ts)))
	}
	for _, gs := range g.shards {
		if gs.fill != 0 && len(gs.queue) > 0 {
			g.rouse() // for whoever else makes calls
			break
		}
	}
	return true, 0
}

// full refuses those who wait while the ledger is as far behind as it may be, but
// for those who may have been given something. It returns when to look again, 0 if
// nobody waits.
func (g *grabber) full(now clock.Now) time.Duration {
	waits := false
	for _, gs := range g.shards {
		if g.backlog.behind.Load() >= g.backlog.most {
			asked := slices.DeleteFunc(slices.Clone(gs.queue), func(t *ticket) bool { return !t.asked })
			gs.queue = slices.DeleteFunc(gs.queue, func(t *ticket) bool { return t.asked })
			g.refuse(gs, Answer{Outcome: Overloaded, RetryAfter: time.Second})
			gs.queue = asked
		}
		waits = waits || len(gs.queue) > 0
	}
	if !waits {
		return 0
	}
	return now.Mono + time.Millisecond
}

func (c *grabCall) reset() {
	c.batches, c.shards, c.tickets = c.batches[:0], c.shards[:0], c.tickets[:0]
}

// add takes up to most requests from a shard's queue, none of a user for whom the
// node is being asked, and returns how many.
func (c *grabCall) add(gs *grabbed, most int) int {
	b := lists.Batch{List: gs.list, Fill: gs.fill}
	var tickets []*ticket
	keep := gs.queue[:0]
	for i, t := range gs.queue {
		if len(tickets) == most {
			keep = append(keep, gs.queue[i:]...)
			break
		}
		if _, asks := gs.asks[t.User]; asks {
			keep = append(keep, t) // its turn is when the other has its answer
			continue
		}
		if !t.asked && !t.take() {
			continue // nobody waits for it any more
		}
		gs.asks[t.User] = struct{}{}
		b.Users, b.Keys = append(b.Users, t.User), append(b.Keys, t.Key)
		tickets = append(tickets, t)
	}
	clear(gs.queue[len(keep):])
	gs.queue = keep
	if len(tickets) > 0 {
		c.batches, c.shards, c.tickets = append(c.batches, b), append(c.shards, gs), append(c.tickets, tickets)
	}
	return len(tickets)
}

// news is what a sequencer is to hear of one batch.
type news struct {
	shard *shard
	fill  uint64
	news  bool // there is something to hear
	lost  bool
	owed  []*ticket // given something, to be answered when the ledger has it
	short []*ticket // given nothing, for the list is empty
}

// done takes in what came of a call, and answers those who can be answered now.
func (g *grabber) done(now clock.Now, c *grabCall, given []lists.Given, err error) {
	all := make([]news, len(c.batches))
	var answered []*ticket
	g.mu.Lock()
	g.under--
	for i, gs := range c.shards {
		g.backlog.asked.Add(-int64(len(c.tickets[i])))
		for _, t := range c.tickets[i] {
			delete(gs.asks, t.User)
		}
		n := &all[i]
		n.shard, n.fill = gs.shard, c.batches[i].Fill
		switch {
		case err != nil:
			gs.again = now.Mono + grabPause
			gs.failed.note(now, err)
			answered = append(answered, gs.keepAsking(now, c.tickets[i])...)
		case errors.Is(given[i].Why, lists.ErrFill):
			n.lost, n.news = true, true
			if gs.fill == n.fill {
				gs.fill, gs.off = 0, now
			}
			for _, t := range c.tickets[i] {
				if !t.asked {
					t.putBack()
				}
			}
			gs.queue = append(c.tickets[i], gs.queue...)
		default:
			gs.failed = failure{}
			fresh := g.decide(gs, c.tickets[i], given[i], n, &answered)
			if gs.fill == n.fill { // else the list was drained since, to be filled anew
				gs.given += fresh
				gs.behind += fresh
				g.backlog.behind.Add(fresh)
			}
			n.news = len(n.owed) > 0 || len(n.short) > 0 || fresh > 0 && !gs.told
			gs.told = gs.told || n.news
		}
		if gs.shut != "" {
			g.refuse(gs, Answer{Outcome: gs.shut, RetryAfter: time.Second})
			g.backlog.behind.Add(-gs.behind)
			gs.behind = 0
		}
	}
	g.rouse()
	g.mu.Unlock()
	for _, t := range answered {
		t.tell()
	}
	for i := range all {
		if all[i].news {
			all[i].pass(now)
		}
	}
}

// keepAsking queues again those of whom it is not known what they were given: to
// ask again is safe. It returns those who have waited for too long.
func (gs *grabbed) keepAsking(now clock.Now, ts []*ticket) (given []*ticket) {
	var again []*ticket
	for _, t := range ts {
		t.asked = true
		if now.Mono-t.queuedAt < stallAfter {
			again = append(again, t)
			continue
		}
		t.answer = Answer{Outcome: Unknown, RetryAfter: time.Second}
		given = append(given, t)
	}
	gs.queue = append(again, gs.queue...)
	return given
}

// decide works out the answers to one batch. What the list gave now is recorded
// in its stream; with ack redis that is enough to answer. It returns how many
// units were given now.
func (g *grabber) decide(gs *grabbed, ts []*ticket, given lists.Given, n *news, answered *[]*ticket) (fresh int64) {
	for i, t := range ts {
		if given.Why != nil {
			t.answer = offHours(given.Why)
			*answered = append(*answered, t)
			continue
		}
		switch u := given.Units[i]; {
		case u.Number == 0:
			t.asked = false // it surely has nothing
			t.putBack()
			n.short = append(n.short, t)
			continue
		case !u.Before:
			fresh++
			t.answer = Answer{Outcome: Sold, Claim: grabClaim(gs, t.User, u.Number, given.At)}
		case u.Key == t.Key:
			t.answer = Answer{Outcome: Sold, Claim: grabClaim(gs, t.User, u.Number, u.At), Replayed: !t.asked}
		default:
			t.answer = Answer{Outcome: LimitReached, Claims: []Claim{grabClaim(gs, t.User, u.Number, u.At)}}
		}
		if t.fill = n.fill; g.ack == spec.AckRedis {
			*answered = append(*answered, t)
		} else {
			n.owed = append(n.owed, t)
		}
	}
	return fresh
}

// offHours is the answer where the node's clock says that it is not time.
func offHours(why error) Answer {
	if errors.Is(why, lists.ErrNotOpen) {
		return Answer{Outcome: NotOpen, RetryAfter: time.Second}
	}
	return Answer{Outcome: Closed}
}

func grabClaim(gs *grabbed, user string, unit, atUs int64) Claim {
	return Claim{
		ID: ClaimID{Shard: gs.list.Shard, Unit: unit}, User: user, Units: []int64{unit}, State: Sold, At: time.UnixMicro(atUs),
	}
}

// pass tells the sequencer. If that has ended, nobody here will know what the
// ledger says.
func (n *news) pass(now clock.Now) {
	heard := n.shard.hears(func(q *sequencer) {
		if n.lost {
			q.list.Lost(now, n.fill)
		}
		q.given(now, n.owed, len(n.short) > 0)
		q.claims(n.short)
	})
	if heard {
		return
	}
	for _, t := range n.owed {
		t.answer = Answer{Outcome: Unknown, RetryAfter: time.Second}
		t.tell()
	}
	for _, t := range n.short {
		if t.take() {
			t.answer = Answer{Outcome: Standby, RetryAfter: time.Second}
			t.tell()
		}
	}
}

// close ends whoever makes the calls, when theirs have returned.
func (g *grabber) close() { close(g.over) }

// run makes calls until close.
func (g *grabber) run(ctx context.Context, node lists.Node, clock clock.Clock, took prometheus.Observer) {
	c := new(grabCall)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ask, wake := g.next(clock(), c)
		if ask {
			ctx, cancel := context.WithTimeout(ctx, grabTimeout)
			began := clock().Mono
			given, err := node.Grab(ctx, c.batches)
			cancel()
			now := clock()
			took.Observe((now.Mono - began).Seconds())
			g.done(now, c, given, err)
			continue
		}
		wait := time.Hour
		if wake != 0 {
			wait = max(wake-clock().Mono, 0)
		}
		timer.Reset(wait)
		select {
		case <-g.wake:
		case <-timer.C:
		case <-g.over:
			return
		}
	}
}

func listNames(nodes []lists.Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return names
}

// How long somebody who asks what a user has is kept waiting for the ledger to
// have what the node gave, and how often it is looked.
const (
	lookPatience = 500 * time.Millisecond
	lookAgain    = 2 * time.Millisecond
)

// drainedFor waits until the ledger has what the user's list has given so far.
func (e *Executor) drainedFor(user string) {
	t := e.tenure.Load()
	if t == nil || len(t.grabs) == 0 {
		return
	}
	s := t.shards[spec.HomeShard(user, len(t.shards))]
	before, _ := s.grabs.lag(s.seq.shard)
	for end := time.Now().Add(lookPatience); time.Now().Before(end); time.Sleep(lookAgain) {
		if given, behind := s.grabs.lag(s.seq.shard); given-behind >= before {
			return
		}
	}
}
