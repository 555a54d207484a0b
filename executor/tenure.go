package executor

import (
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/executor/shard"
	"salectl/spec"
)

// tenure is one time of serving: the shards, from Own to the last answer.
type tenure struct {
	uid     string
	shards  []*shard.Shard
	board   *shard.Board
	rights  atomic.Pointer[shard.Rights]
	ack     spec.Ack
	red     *spec.RedPacket      // nil: units are no packets of money
	packets func() *spec.Packets // deals them the first time; nil: units are no packets
	post    func(shard.Message)  // carries what shards tell each other
	grabs   []*shard.NodeBatcher // by node; none where owners decide

	// eligibility is by the rules of the newest generation; nil: there are none. users are
	// those that rules were told of, to be closed at the end.
	eligibility atomic.Pointer[eligibility]
	users       []*userSource
	// declared is what the newest generation declares that the shards were told of.
	declared atomic.Pointer[spec.Sale]
}

// newTenure returns the tenure that the owner has begun: its shards, each of which
// reads its log and appends Own. cfg is what is the same for all of them; told
// returns a shard's, and may be nil.
func newTenure(now clock.Now, o *owner, cfg shard.Config, told func(shard int) func(time.Duration)) *tenure {
	n := o.sale.Shards()
	t := &tenure{uid: o.uid, shards: make([]*shard.Shard, n), board: shard.NewBoard(n), ack: o.declared.Ack}
	declared := o.declared
	t.declared.Store(&declared)
	if o.red != nil {
		t.red, t.packets = &o.red.RedPacket, sync.OnceValue(o.red.Deal)
	}
	if o.declared.Engine == spec.EngineRedis {
		b := shard.NewBacklog(o.declared.Backlog)
		for range o.cfg.Lists {
			t.grabs = append(t.grabs, shard.NewNodeBatcher(t.ack, cfg.Queue, b, t.may))
		}
	}
	cfg.Address, cfg.UID, cfg.Board = o.cfg.Address, t.uid, t.board
	t.post = func(m shard.Message) { t.shards[m.To].Post(m) }
	cfg.Post = func(m shard.Message) { t.post(m) }
	for i := range t.shards {
		cfg.Shard, cfg.Log = i, spec.ShardLog(t.uid, i, n)
		if told != nil {
			cfg.Answered = told(i)
		}
		if len(t.grabs) > 0 {
			cfg.Node = t.node(i)
		}
		s := shard.New(cfg)
		t.shards[i] = s
		if len(t.grabs) > 0 {
			t.grabs[cfg.Node].Serve(s, lists.List{UID: t.uid, Shard: i}, o.cfg.Sizes, now)
		}
	}
	return t
}

// keepsOut says whether a shard that stalls lets no claims in: those would wait for
// what does not answer. With ack redis they wait for no ledger, up to a bound; and a
// list's node is asked to find out that it answers again.
func (t *tenure) keepsOut(stall *Stall) bool {
	return stall != nil && !stall.Node && t.ack != spec.AckRedis
}

// node returns which of the nodes that keep lists has the list of a shard.
func (t *tenure) node(shard int) int { return spec.ListNode(shard, len(t.grabs)) }

// loadAtOnce bounds how many shards' logs are read at a time when a tenure
// begins: few enough for the store and for our memory.
const loadAtOnce = 64

// may says whether this process may append, and give.
func (t *tenure) may(now clock.Now) bool {
	r := t.rights.Load()
	return r != nil && r.Valid(now)
}

// told passes on what the owner has to say to the sequencers.
func (t *tenure) told(o *owner, out ownerEffects) {
	if out.plans {
		t.board.Generation(o.sale.Generation())
		t.declare(o)
		t.boundQueues(o.cfg.Queue)
		for i, s := range t.shards {
			s.Post(shard.Planned(o.plans(i)))
		}
	}
	if out.rights != nil {
		t.rights.Store(out.rights)
		for _, s := range t.shards {
			s.Post(*out.rights)
		}
	}
}

// boundQueues has as many requests wait as the newest generation declares; depth is how
// many if it declares nothing.
func (t *tenure) boundQueues(depth int) {
	if q := t.declared.Load().Queue; q != nil {
		depth = int(q.Depth)
	}
	for _, s := range t.shards {
		s.Bound(depth)
	}
}

// declare takes in what the newest generation declares. One that this program cannot read,
// since a newer one has written it, changes nothing: what it says to the shards they can
// read, and they grant no claim by the rules of before.
func (t *tenure) declare(o *owner) {
	newest := o.sale.Newest()
	hash := string(newest.GetSettings().GetRules())
	declared, err := spec.FromJSON(newest.GetSpec())
	if err == nil {
		t.declared.Store(&declared)
	}
	switch {
	case hash == "":
		t.eligibility.Store(nil)
	case err == nil:
		t.rule(o, declared, hash)
	}
}

// rule takes in rules.
func (t *tenure) rule(o *owner, declared spec.Sale, hash string) {
	before := t.eligibility.Load()
	e := newEligibility(declared, hash, o.cfg.Users, before, o.cfg.Ruled)
	if before == nil || e.users != before.users {
		t.users = append(t.users, e.users)
	}
	t.eligibility.Store(e)
}

// stop ends the sequencers of the tenure, if there is one.
func (t *tenure) stop(h shard.Halt) {
	if t == nil {
		return
	}
	for _, s := range t.shards {
		s.Post(h)
	}
}

// recall answers from memory what needs no commit. What was sold at once is certain
// however little of the log is read. All else is only known while this process
// may append, and to a shard that has read its log to the end: the others may
// have been told by generations that are not read yet to say otherwise.
func (t *tenure) recall(now clock.Now, s *shard.Shard, r Request) (Answer, bool) {
	a, ok := s.Recall(now, r)
	rights := t.rights.Load()
	switch {
	case ok && (a.Accepted() && a.Claim.HeldUntil.IsZero() || a.Outcome == api.KeyReused):
		return a, true
	case rights == nil || !rights.Valid(now):
		return Answer{Outcome: api.NoQuorum, RetryAfter: time.Second}, true
	case !s.Serves():
		return Answer{}, false
	case !ok && t.board.AllSold():
		return Answer{Outcome: api.SoldOut}, true
	}
	return a, ok
}

// answer returns the answer to a request to which memory knows one, a; false: it is to be
// decided all the same. idle says that no request was under way before memory was asked,
// which then knows what became of all.
func (t *tenure) answer(now clock.Now, s *shard.Shard, r Request, a Answer, idle bool) (Answer, bool) {
	switch {
	case a.Outcome != api.SoldOut:
		return s.Refuse(r, a), true
	case idle:
		return a, true // as most requests are told
	case s.IsUnderWay(r.User, r.Key):
		return Answer{}, false // more units may come for the one under way: it is answered after that
	}
	// An earlier one may just have been answered.
	if again, ok := s.Recall(now, r); ok && again.Accepted() {
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
func (t *tenure) refuse(s *shard.Shard, r Request, a Answer) Answer {
	a = s.Refuse(r, a)
	t.price(&a)
	return a
}

// stalled returns the shards that stall.
func (t *tenure) stalled() map[int]Stall {
	all := make(map[int]Stall)
	for i, s := range t.shards {
		if stall := s.Stalled(); stall != nil {
			all[i] = *stall
		}
	}
	return all
}
