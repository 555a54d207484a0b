package executor

import (
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/spec"
)

// tenure is one time of serving: the shards, from Own to the last answer.
type tenure struct {
	uid     string
	shards  []*shard
	board   *board
	rights  atomic.Pointer[rights]
	ack     spec.Ack
	red     *spec.RedPacket      // nil: units are no packets of money
	packets func() *spec.Packets // deals them the first time; nil: units are no packets
	grabs   []*nodeBatcher       // by node; none where owners decide
}

// newTenure returns the tenure that the owner has begun: a sequencer for each
// shard, which reads its log and appends Own. open makes its shell. queue bounds
// the requests that may wait on one shard. d are the doubts of the process.
func newTenure(now clock.Now, o *owner, me []byte, queue int, d *doubts, open func(*sequencer) *shard) *tenure {
	n := o.sale.Shards()
	t := &tenure{uid: o.uid, shards: make([]*shard, n), board: newBoard(n), ack: o.declared.Ack}
	if o.red != nil {
		t.red, t.packets = &o.red.RedPacket, sync.OnceValue(o.red.Deal)
	}
	if o.declared.Engine == spec.EngineRedis {
		b := &backlog{most: o.declared.Backlog}
		for range o.cfg.lists {
			t.grabs = append(t.grabs, newNodeBatcher(t.ack, queue, b, t.may))
		}
	}
	for i := range t.shards {
		q := newSequencer(i, spec.ShardLog(t.uid, i, n), me, o.cfg.address, t.board)
		s := open(q)
		t.shards[i], s.uid, s.doubts = s, t.uid, d
		s.post = func(m message) { t.shards[m.to].tryPost(m) }
		if len(t.grabs) > 0 {
			s.node = spec.ListNode(i, len(t.grabs))
			t.grabs[s.node].serve(s, lists.List{UID: t.uid, Shard: i}, o.cfg.sizes, now)
		}
	}
	return t
}

// loadAtOnce bounds how many shards' logs are read at a time when a tenure
// begins: few enough for the store and for our memory.
const loadAtOnce = 64

// may says whether this process may append, and give.
func (t *tenure) may(now clock.Now) bool {
	r := t.rights.Load()
	return r != nil && r.valid(now)
}

// told passes on what the owner has to say to the sequencers.
func (t *tenure) told(o *owner, out ownerEffects) {
	if out.plans {
		t.board.generation(o.sale.Generation())
		for i, s := range t.shards {
			s.tryPost(planned(o.plans(i)))
		}
	}
	if out.rights != nil {
		t.rights.Store(out.rights)
		for _, s := range t.shards {
			s.tryPost(*out.rights)
		}
	}
}

// stop ends the sequencers of the tenure, if there is one.
func (t *tenure) stop(h halt) {
	if t == nil {
		return
	}
	for _, s := range t.shards {
		s.tryPost(h)
	}
}

// recall answers from memory what needs no commit. What was accepted is certain
// however little of the log is read. All else is only known while this process
// may append, and to a shard that has read its log to the end: the others may
// have been told by generations that are not read yet to say otherwise.
func (t *tenure) recall(now clock.Now, s *shard, r Request) (Answer, bool) {
	a, ok := s.recall(now, r)
	rights := t.rights.Load()
	switch {
	case ok && (a.Accepted() || a.Outcome == KeyReused):
		return a, true
	case rights == nil || !rights.valid(now):
		return Answer{Outcome: NoQuorum, RetryAfter: time.Second}, true
	case !s.serving.Load():
		return Answer{}, false
	case !ok && t.board.soldOut.Load():
		return Answer{Outcome: SoldOut}, true
	}
	return a, ok
}

// answer answers a request from memory, if that knows the answer.
func (t *tenure) answer(now clock.Now, s *shard, r Request) (Answer, bool) {
	idle := s.underway.n.Load() == 0 // read first: memory then knows what became of all requests
	a, known := t.recall(now, s, r)
	switch {
	case !known:
		return Answer{}, false
	case a.Outcome != SoldOut:
		return s.refuse(r, a), true
	case idle:
		return a, true // as most requests are told
	case s.underway.has(r.User, r.Key):
		return Answer{}, false // more units may come for the one under way: it is answered after that
	}
	// An earlier one may just have been answered.
	if again, ok := s.recall(now, r); ok && again.Accepted() {
		return again, true
	}
	return a, true
}

// price adds to an answer what the units are worth that it tells of.
func (t *tenure) price(a *Answer) {
	if t != nil && t.packets != nil {
		t.priceOf(a)
	}
}

func (t *tenure) priceOf(a *Answer) {
	if a.Accepted() {
		a.Claim.Packets = t.packets()
	}
	t.priceAll(a.Claims)
}

func (t *tenure) priceAll(claims []Claim) {
	if t.packets == nil || len(claims) == 0 {
		return
	}
	packets := t.packets()
	for i := range claims {
		claims[i].Packets = packets
	}
}

// refuse is the shard's, with the price of what it tells of.
func (t *tenure) refuse(s *shard, r Request, a Answer) Answer {
	a = s.refuse(r, a)
	t.price(&a)
	return a
}

// stalled returns the shards that stall.
func (t *tenure) stalled() map[int]Stall {
	all := make(map[int]Stall)
	for i, s := range t.shards {
		if stall := s.stall.Load(); stall != nil {
			all[i] = *stall
		}
	}
	return all
}
