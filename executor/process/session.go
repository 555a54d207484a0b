package process

import (
	"sync"
	"sync/atomic"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/draw"
	"salectl/executor/listengine"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/spec"
)

// session is the state of this process while it serves one run of a sale: the shards that it owns, and the
// queues to the owners of the others.
type session struct {
	uid      string
	shards   []atomic.Pointer[shard.Shard] // by number; with a lease, or about to have one; nil: another process owns it
	remotes  []*peers.Remote               // by shard: the queues of requests for another owner
	totals   *shard.SaleTotals
	ack      spec.Ack
	post     func(shard.Message)   // delivers messages between shards
	batchers []*listengine.Batcher // by node; none where owners decide
	links    *peers.Links
	away     func() request.Answer // the answer while the process does not serve
	depth    atomic.Int64          // maximum number of waiting requests of a shard

	about   *api.Packets         // of a red packet; nil: units are no packets of money
	packets func() *spec.Packets // computes the amounts once; nil: units are no packets of money
	declaration
	drawing

	// The shards with and without a lease. They belong to the machine alone, as the samples of traffic do.
	cfg     shard.Config
	sizes   lists.Sizes
	running map[int]*shard.Shard // by number
	traffic
}

// declaration is what the newest generation declares that was passed to the shards.
type declaration struct {
	eligibility atomic.Pointer[eligibility] // decides by its rules; nil: the generation has none
	declared    atomic.Pointer[spec.Sale]
	settings    atomic.Pointer[pb.Settings]
	users       []*userSource // all sources of user attributes that rules have used; only the machine uses them
}

// drawing is the state of a draw by the sale's log.
type drawing struct {
	ranks   atomic.Pointer[ranks]       // nil: they are not published yet
	drawn   atomic.Pointer[draw.Status] // nil: the sale has no draw
	drawnAt uint64                      // the sale's next slot when drawn was set; only the machine uses it
}

// newSession returns the session of a run. The ids of its forwarded requests are above first.
func newSession(run *ownership.Run, own Config, d *Admission, first uint64) *session {
	n := run.Shards
	cfg := shard.Config{
		Writer: own.Me, Address: own.Address, UID: run.UID, Clock: own.Clock, Queue: own.Queue, Bounds: own.Bounds,
		Doubts: &d.doubts, ObserveWait: own.Committed,
	}
	t := &session{
		uid: run.UID, shards: make([]atomic.Pointer[shard.Shard], n), totals: shard.NewSaleTotals(n), ack: run.Declared.Ack,
		links: &d.links, away: func() request.Answer { return *d.away.Load() },
		sizes: own.Sizes, running: make(map[int]*shard.Shard), traffic: traffic{decided: make([]meter, n)},
	}
	t.totals.Notify = own.Notify
	t.depth.Store(int64(cfg.Queue))
	t.declared.Store(&run.Declared)
	if red := run.RedPacket; red != nil {
		t.about = &api.Packets{Currency: red.Currency, Total: red.Format(red.Total), Commitment: red.Commitment().String()}
		t.packets = sync.OnceValue(red.Deal)
	}
	if run.Declared.Engine == spec.EngineRedis {
		for range own.Lists {
			t.batchers = append(t.batchers, listengine.New(t.ack, cfg.Queue))
		}
	}
	cfg.Totals = t.totals
	t.sizes.Ranges = cfg.Bounds.Ranges
	t.post = t.deliverMessage
	cfg.Post = func(m shard.Message) { t.post(m) }
	t.cfg = cfg
	for i := range n {
		t.remotes = append(t.remotes, peers.NewRemote(peers.RemoteConfig{
			Shard: i, UID: t.uid, Doubts: cfg.Doubts, Clock: cfg.Clock, Me: d.me.ID, IDBase: first,
			MaxQueue: func() int { return int(t.depth.Load()) },
			Send:     d.links.Forward,
			OfferLocal: func(now clock.Now, ticket *request.Ticket) bool {
				if ticket.Query != nil {
					a, ok := t.lookup(now, i, ticket.Query)
					if ok {
						ticket.Answer = a
					}
					return ok
				}
				s := t.local(i) // a stalled shard would have the ticket wait for longer
				return s != nil && s.May(now) && !t.refusesWhileStalled(s.Stalled()) && s.Offer(now, ticket) == ""
			},
			Refusal: t.away,
			Notify:  own.Notify,
		}))
	}
	return t
}

// local returns a shard if this process has its lease or is about to; nil: another process owns it.
func (t *session) local(i int) *shard.Shard { return t.shards[i].Load() }

// locals returns the shards whose lease this process has, or is about to have.
func (t *session) locals() (all []*shard.Shard) {
	for i := range t.shards {
		if s := t.local(i); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// deliverMessage delivers a message to its shard, here or at a peer. The message may be lost.
func (t *session) deliverMessage(m shard.Message) {
	if m.To < 0 || m.To >= len(t.shards) {
		return
	}
	if s := t.local(m.To); s != nil && s.Post(m) {
		return
	}
	t.links.SendUpdate(t.remotes[m.To].Route().Owner, &ownership.PeerUpdate{Run: t.uid, Messages: []shard.Message{m}})
}

// openShard makes the machine of a shard. The machine reads the shard's log, and appends Own once it has
// the rights to append.
func (t *session) openShard(now clock.Now, sale *ledger.Sale, i int, follows bool) *shard.Shard {
	cfg := t.cfg
	cfg.Shard, cfg.Log, cfg.Follows, cfg.Applied = i, spec.ShardLog(t.uid, i, len(t.shards)), follows, sale.Applied()
	cfg.Queue, cfg.Underway = int(t.depth.Load()), t.remotes[i].Underway
	cfg.Forward = func(ts []*request.Ticket) { t.remotes[i].OfferFirst(cfg.Clock(), ts) }
	if len(t.batchers) > 0 {
		cfg.Node = t.node(i)
	}
	s := shard.New(cfg)
	if len(t.batchers) > 0 {
		t.batchers[cfg.Node].AddShard(s, lists.List{UID: t.uid, Shard: i}, t.sizes, t.maxUnlogged(i), now)
	}
	s.Post(shard.Planned(generationsOf(sale, i)))
	if r := t.ranks.Load(); r != nil {
		s.Post(r.shards[i])
	}
	t.running[i] = s
	if !follows {
		t.shards[i].Store(s)
	}
	return s
}

// follows reports whether the machine of a shard has read the log to its end, and keeps reading it.
func (t *session) follows(i int) bool {
	s := t.running[i]
	return s != nil && s.Follows()
}

// grantRights passes the rights to append to a shard. With its first rights the shard becomes local.
func (t *session) grantRights(now clock.Now, i int, r shard.Rights) {
	s := t.running[i]
	if s == nil {
		return
	}
	s.SetRights(r)
	if t.local(i) == nil {
		if len(t.batchers) > 0 {
			t.batchers[t.node(i)].SetOwned(s, now)
		}
		t.shards[i].Store(s)
	}
}

// closeShard removes a shard whose machine has ended.
func (t *session) closeShard(i int) {
	if s := t.running[i]; s != nil {
		if len(t.batchers) > 0 {
			t.batchers[t.node(i)].RemoveShard(s)
		}
		t.shards[i].CompareAndSwap(s, nil)
		t.totals.Leave(i)
		t.decided[i] = meter{}
		delete(t.running, i)
	}
}

// maxUnlogged returns the maximum number of claims that a shard's list has given and the ledger lacks.
func (t *session) maxUnlogged(i int) int64 {
	return spec.Allotment(t.declared.Load().Backlog, len(t.shards), i)
}

// refusesWhileStalled reports whether a shard with this stall refuses claims, since they would wait for a store
// that does not reply. With ack redis claims do not wait for the ledger, up to a bound. A stalled list node
// still gets requests: only a reply ends its stall.
func (t *session) refusesWhileStalled(stall *shard.Stall) bool {
	return stall != nil && !stall.Node && t.ack != spec.AckRedis
}

// node returns the index of the node that keeps the list of a shard.
func (t *session) node(shard int) int { return spec.ListNode(shard, len(t.batchers)) }

// passGenerations passes the generations and ranks of the sale's log to the shards.
func (t *session) passGenerations(sale *ledger.Sale, own Config) {
	t.totals.Generation(sale.Generation())
	t.adopt(sale, own)
	depth := own.Queue // default
	if q := t.declared.Load().Queue; q != nil {
		depth = int(q.Depth)
	}
	t.depth.Store(int64(depth))
	if sale.Ranked() && t.ranks.Load() == nil {
		t.ranks.Store(ranksOf(sale))
		t.totals.SetDrawn(sale.DrawnSince())
	}
	for i, s := range t.running {
		s.Bound(depth)
		s.Post(shard.Planned(generationsOf(sale, i)))
		if r := t.ranks.Load(); r != nil {
			s.Post(r.shards[i])
		}
		if len(t.batchers) > 0 {
			t.batchers[t.node(i)].SetMaxUnlogged(s, t.maxUnlogged(i))
		}
	}
}

// generationsOf returns the changes of all generations of the sale's log to a shard, from the first on.
func generationsOf(sale *ledger.Sale, shard int) []*pb.Generation {
	all := make([]*pb.Generation, sale.Generation())
	for i := range all {
		all[i] = sale.ShardGeneration(uint64(i+1), shard)
	}
	return all
}

// adopt adopts the declaration of the newest generation. A declaration that this program cannot read, since
// a newer program has written it, is not adopted. The shards read their part of the generation in any case,
// and grant no claim by earlier rules.
func (d *declaration) adopt(sale *ledger.Sale, own Config) {
	newest := sale.Newest()
	d.settings.Store(newest.GetSettings())
	hash := string(newest.GetSettings().GetRules())
	declared, err := spec.FromJSON(newest.GetSpec())
	if err == nil {
		d.declared.Store(&declared)
	}
	switch {
	case hash == "":
		d.eligibility.Store(nil)
	case err == nil:
		before := d.eligibility.Load()
		e := newEligibility(declared, hash, own.Users, before, own.Ruled)
		if before == nil || e.users != before.users {
			d.users = append(d.users, e.users)
		}
		d.eligibility.Store(e)
	}
}

// stop ends the sequencers of the session, which may be nil.
func (t *session) stop(h shard.Halt) {
	if t == nil {
		return
	}
	for _, s := range t.running {
		s.Post(h)
	}
}

// release answers the requests that wait for peers with a, and closes the sources that rules read.
func (t *session) release(a request.Answer) {
	for _, r := range t.remotes {
		r.Close(a)
	}
	for _, u := range t.users {
		if u.close != nil {
			u.close()
		}
	}
}

// lookup answers a query from memory if this process serves the shard. Otherwise it returns false, with the
// reason as a refusal.
func (t *session) lookup(now clock.Now, i int, q *request.Query) (a request.Answer, ok bool) {
	s := t.local(i)
	switch {
	case s == nil:
		return t.away(), false
	case !s.May(now):
		return request.Answer{Outcome: api.NoQuorum}, false
	case !s.Serves(): // it may not have read all of its log yet
		return request.Answer{Outcome: api.Standby}, false
	}
	a = s.Lookup(q)
	t.completeAnswer(&a)
	return a, true
}

// completeAnswer adds amounts of red packets to an answer, and marks entries that were not drawn.
func (t *session) completeAnswer(a *request.Answer) {
	if t == nil {
		return
	}
	if r := t.ranks.Load(); r != nil {
		r.markNotDrawn(a)
	}
	found := a.Accepted() || a.Outcome == "" && a.Claim.User != ""
	if t.packets == nil || !found && len(a.Claims) == 0 {
		return
	}
	packets := t.packets()
	if found {
		a.Claim.Packets = packets
	}
	for i := range a.Claims {
		a.Claims[i].Packets = packets
	}
}

// pending returns the Pending of a shard, or of its stand-in while another process owns it.
func (t *session) pending(i int) *request.Pending {
	if s := t.local(i); s != nil {
		return s.Pending
	}
	return t.remotes[i].Pending
}

// refuse returns the complete answer to a request that is refused with a (request.Pending.Refuse).
func (t *session) refuse(p *request.Pending, r *request.Request, a request.Answer) request.Answer {
	a = p.Refuse(*r, a)
	t.completeAnswer(&a)
	return a
}

// stalls returns the problems of the shards that stall.
func (t *session) stalls() (all []status.Problem) {
	for _, s := range t.locals() {
		if stall := s.Stalled(); stall != nil {
			all = append(all, status.OfShard(stallKind(stall), s.Number(), stall.Since, stall.Error))
		}
	}
	return all
}

func stallKind(stall *shard.Stall) *status.Kind {
	if stall.Node {
		return status.ListsStalled
	}
	return status.Stalled
}

// ranks are the ranks of a draw, once all are published.
type ranks struct {
	shards []shard.Ranked           // by shard
	has    map[request.ClaimID]bool // entries with a rank
}

func ranksOf(sale *ledger.Sale) *ranks {
	r := &ranks{shards: make([]shard.Ranked, sale.Shards()), has: make(map[request.ClaimID]bool, len(sale.Ranks()))}
	for i, at := range sale.Ranks() {
		r.shards[at.Shard] = append(r.shards[at.Shard], shard.Award{Rank: int64(i) + 1, Slot: at.Slot, Index: at.Index})
		r.has[request.ClaimID{Shard: at.Shard, Slot: at.Slot, Index: at.Index}] = true
	}
	return r
}

// follow updates the status of a draw by the sale's log.
func (d *drawing) follow(sale *ledger.Sale) {
	if sale.Draw() != nil && sale.Next() != d.drawnAt {
		d.drawnAt = sale.Next()
		d.drawn.Store(ledger.DrawStatus(sale))
	}
}

// markNotDrawn sets the state of entries without a rank to NotDrawn. An entry with a rank but without a unit
// may yet get a unit.
func (r *ranks) markNotDrawn(a *request.Answer) {
	if a.Outcome == api.Entered && !r.has[a.Claim.ID] {
		a.Outcome = api.NotDrawn
	}
	r.markClaim(&a.Claim)
	for i := range a.Claims {
		r.markClaim(&a.Claims[i])
	}
}

func (r *ranks) markClaim(c *request.Claim) {
	if c.State == api.Entered && !r.has[c.ID] {
		c.State = api.NotDrawn
	}
}
