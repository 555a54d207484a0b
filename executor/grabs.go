package executor

import (
	"sync"
	"time"

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
	may     func(clock.Now) bool // whether this process has the right to give

	wake chan struct{} // holds one signal: there may be something to ask
	over chan struct{} // closed by close

	mu     sync.Mutex
	shards []*grabbed // of this node
	by     map[int]*grabbed
	from   int // of shards, where the next call begins
	under  int // calls under way
}

// grabbed is what a grabber has of one shard.
type grabbed struct {
	shard *shard
	list  lists.List

	fill    uint64        // under which the list gives; 0: it does not
	off     clock.Now     // since when it does not
	again   time.Duration // monotonic: after an error it is not asked before
	queue   []*ticket
	given   int64   // grabs in all
	told    bool    // the sequencer knows that there is something to drain
	hurried bool    // and that it is to do so at once
	failed  failure // what the node does not do, though the list is on
	shut    Outcome

	// What the ledger lacks; see set.
	counts uint64 // the fill of which that is: the present, or the last one
	users  map[string]standing
	asking int   // for whom calls are under way
	behind int64 // of backlog.behind: who were given something
	unsure int64 // and who may have been
	known  bool  // the ledger has what was given before this tenure, or that is not waited for
}

// grabCall is one call of a node, with the tickets of each of its batches.
type grabCall struct {
	batches  []lists.Batch
	shards   []*grabbed
	tickets  [][]*ticket
	reserved []int64       // of the backlog
	begun    time.Duration // monotonic
}

const (
	grabsAtOnce = 512 // requests in a call: the script stays well under a millisecond
	grabCalls   = 2   // under way at a time: one is decided while the other travels
	grabTimeout = time.Second
	grabPause   = 50 * time.Millisecond // after a call that failed
)

func newGrabber(ack spec.Ack, bound int, b *backlog, may func(clock.Now) bool) *grabber {
	return &grabber{
		ack: ack, bound: bound, backlog: b, may: may, by: make(map[int]*grabbed),
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

// keep makes the grabber the one of a shard.
func (g *grabber) keep(s *shard, l lists.List, now clock.Now) {
	gs := &grabbed{shard: s, list: l, off: now, users: make(map[string]standing)}
	if g.ack == spec.AckRedis {
		g.backlog.before++
	}
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
	case len(gs.queue)+gs.asking >= g.bound, g.backlog.full():
		return Overloaded
	}
	t.enter()
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

// mayHave says whether a user was given something by a shard's list, or may have
// been, that the ledger lacks.
func (g *grabber) mayHave(shard int, user string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.by[shard].mayHave(user)
}

// waiting returns how many requests of a shard wait for the node.
func (g *grabber) waiting(shard int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	return len(gs.queue) + gs.asking
}

// busy says whether requests of a shard wait for the node, or the ledger does not
// have all that it gave.
func (g *grabber) busy(shard int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	return len(gs.queue)+gs.asking > 0 || gs.behind > 0
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
		g.backlog.behind.Add(-gs.lacks())
		gs.anew()
		gs.fill, gs.counts, gs.again, gs.told, gs.hurried = fill, fill, 0, false, false
		g.rouse()
	}
	if gs.fill == 0 && now.Since(gs.off) >= stallAfter {
		g.refuse(gs, nodeSilent)
	}
}

// knows says that the ledger has what a list gave before this tenure, or that the
// shard is one that is not waited for.
func (g *grabber) knows(shard int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gs := g.by[shard]; !gs.known && g.ack == spec.AckRedis {
		gs.known = true
		g.backlog.known()
	}
}

// handBack hands back all who wait on a shard and have no answer: the ledger has all
// that its list gave.
func (g *grabber) handBack(shard int) (waited []*ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	for _, t := range gs.queue {
		if t.asked || t.take() {
			waited = append(waited, t)
		}
	}
	gs.queue = nil
	return waited
}

// refuse answers all who wait on a shard. Who was asked for before, without an
// answer, may have been given something.
func (g *grabber) refuse(gs *grabbed, a Answer) {
	for _, t := range gs.queue {
		switch {
		case t.asked:
			t.answer = undecided
		case t.take():
			t.answer = a
		default:
			continue // nobody waits for it any more
		}
		gs.tell(t)
	}
	gs.queue = nil
}

// tell tells a request its answer.
func (gs *grabbed) tell(t *ticket) {
	gs.shard.conclude([]*ticket{t}, gs.mayHave)
	t.tell()
}

// shutDown refuses all requests of a shard from here on.
func (g *grabber) shutDown(shard int, why Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	gs.shut, gs.fill = why, 0
	g.refuse(gs, Answer{Outcome: why, RetryAfter: time.Second})
	g.abandon(gs)
}

// abandon ends the count of what the ledger lacks: nobody here will know what becomes
// of it. Whoever was given something, or may have been, stays in doubt.
func (g *grabber) abandon(gs *grabbed) {
	for user, s := range gs.users {
		if !s.may() {
			gs.shard.keepInDoubt(user, anyKey)
		}
	}
	g.backlog.behind.Add(-gs.lacks())
	gs.anew()
}

// drained says of which users of a shard the ledger has the grabs.
func (g *grabber) drained(shard int, users []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gs := g.by[shard]
	gs.told, gs.hurried = false, false
	lacked := gs.lacks()
	for _, user := range users {
		gs.hasIn(user)
	}
	g.backlog.behind.Add(gs.lacks() - lacked)
	g.rouse()
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
	return gs.fill != 0, gs.behind
}

// next puts what is to be asked into c. false: nothing is now, or before the
// monotonic time returned, which is 0 where an event must come first.
func (g *grabber) next(now clock.Now, c *grabCall) (bool, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.reset()
	c.begun = now.Mono
	switch {
	case g.under >= grabCalls:
		return false, 0
	case !g.may(now): // its clock may be the reason
		for _, gs := range g.shards {
			g.refuse(gs, Answer{Outcome: NoQuorum, RetryAfter: time.Second})
		}
		return false, 0
	}
	wake, n := g.freeStuck(now), len(g.shards)
	left, room := int(g.backlog.reserve(grabsAtOnce)), grabsAtOnce
	full := left == 0
	for i := range n {
		gs := g.shards[(g.from+i)%n]
		switch {
		case gs.fill == 0 || len(gs.queue) == 0:
		case gs.again > now.Mono:
			wake = soonest(wake, gs.again)
		case room > 0:
			asked, fresh := c.add(now, gs, room, left)
			room, left = room-asked, left-fresh
		}
	}
	g.backlog.answered(int64(left), 0) // who did not come
	if len(c.batches) == 0 {
		if full {
			wake = soonest(wake, g.full(now))
		}
		return false, wake
	}
	if n > 1 {
		g.from = (g.from + 1) % n
	}
	g.under++
	for _, gs := range g.shards {
		if gs.fill != 0 && len(gs.queue) > 0 {
			g.rouse() // for whoever else makes calls
			break
		}
	}
	return true, 0
}

func (c *grabCall) reset() {
	c.batches, c.shards, c.tickets, c.reserved = c.batches[:0], c.shards[:0], c.tickets[:0], c.reserved[:0]
}

// probe returns how many requests a shard's node may be asked for the first time:
// where the last call was not answered one, once all have their answer who may have
// been given something. A node that is silent for long is then asked for few of
// whom nobody knows what they have.
func (gs *grabbed) probe() int {
	switch {
	case gs.failed.err == nil:
		return grabsAtOnce
	case gs.asksAgain():
		return 0
	}
	return 1
}

// add takes up to most requests from a shard's queue, none of a user for whom the
// node is being asked, and up to left of users who may be given a unit that is not
// counted yet. It returns how many requests, and of them how many of such users.
func (c *grabCall) add(now clock.Now, gs *grabbed, most, left int) (n, fresh int) {
	first := gs.probe()
	size := min(most, len(gs.queue))
	b := lists.Batch{
		List: gs.list, Fill: gs.fill, At: now.Wall.UnixMicro(), Users: make([]string, 0, size), Keys: make([]string, 0, size),
	}
	tickets := make([]*ticket, 0, size)
	keep := gs.queue[:0]
	for i, t := range gs.queue {
		if len(tickets) == most {
			keep = append(keep, gs.queue[i:]...)
			break
		}
		s := gs.users[t.User]
		if s&asking != 0 || s.may() && fresh == left || !t.asked && first == 0 {
			keep = append(keep, t) // its turn comes
			continue
		}
		if !t.asked {
			if !t.take() {
				continue // nobody waits for it any more
			}
			first--
		}
		if s.may() {
			fresh++
		}
		gs.set(t.User, s|asking)
		b.Users, b.Keys = append(b.Users, t.User), append(b.Keys, t.Key)
		tickets = append(tickets, t)
	}
	clear(gs.queue[len(keep):])
	gs.queue = keep
	if len(tickets) > 0 {
		c.batches, c.shards, c.tickets = append(c.batches, b), append(c.shards, gs), append(c.tickets, tickets)
		c.reserved = append(c.reserved, int64(fresh))
	}
	return len(tickets), fresh
}
