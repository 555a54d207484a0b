package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/ownership"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/internal/text"
	"salectl/spec"
)

// admission answers or queues every request of this process: it answers those that need no commit,
// and queues the rest. A shell keeps it up to date. All methods are safe for concurrent use.
type admission struct {
	sale    string
	mint    func() string // makes the key of a request that has none
	tickets *sync.Pool    // allocated by itself: the runtime keeps a pool for a while, and with it all that the pool is a field of

	serving  atomic.Pointer[session]   // nil: this process does not serve
	left     atomic.Pointer[session]   // the session that was lost and has not ended; nil: none
	sold     atomic.Pointer[spec.Sale] // the declaration of the last sealed run; nil: there is none
	health   atomic.Pointer[health]
	away     atomic.Pointer[Answer]           // the answer while it does not serve
	problems atomic.Pointer[[]status.Problem] // as they were compiled last, each of one shard at most; nil: none were
	draining atomic.Bool
	doubts   shard.Doubts
	links    links
	inbound  inboundLinks
	came     atomic.Uint64 // claims and settlements of clients
}

// open admits requests, before anything is known of the sale.
func (d *admission) open(sale, me string, mint func() string) {
	d.sale, d.inbound.me, d.mint = sale, me, mint
	d.away.Store(&Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "starting"})
	d.health.Store(&health{})
	d.tickets = new(sync.Pool)
}

// show takes over the state of the ownership of shards, for answers and statuses.
func (d *admission) show(now clock.Now, o *ownership.Machine) {
	away := o.Absent()
	d.away.Store(&away)
	d.health.Store(&health{o.Status(now)})
}

// lose ends the session, if there is one, because nobody can follow the sale any
// more.
func (d *admission) lose(t *session, why error) {
	d.away.Store(&Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notFollowed})
	t.stop(shard.Halt{Why: why, Refusal: api.NoQuorum})
	d.left.Store(t)
	d.serving.Store(nil)
	if t != nil {
		t.release(here(api.NoQuorum))
	}
}

// admit answers a request at once, or queues a ticket under which it waits for its answer,
// here or to be sent to a peer, and returns that and the session that completes the answer.
// x is signalled when the answer is there; nil: the caller waits.
func (d *admission) admit(ctx context.Context, now clock.Now, r Request, x *asyncRequest) (Answer, *shard.Ticket, *session) {
	if why := check(&r); why != "" {
		return Answer{Outcome: api.BadRequest, Message: why}, nil, nil
	}
	if r.Query == nil {
		d.came.Add(1)
	}
	t := d.serving.Load()
	if t == nil {
		return d.refuse(r, *d.away.Load()), nil, nil
	}
	i, ok := r.Home(len(t.shards))
	if !ok {
		return Answer{Outcome: api.NoSuchClaim}, nil, nil
	}
	s := t.local(i)
	switch {
	case r.Query != nil:
		if a, ok := d.lookup(now, t, i, r.Query); ok || !d.links.any() {
			return a, nil, nil
		}
		fallthrough
	case s == nil || d.passesOn(now, t, s):
		return d.pass(now, t, i, shard.NewTicket(d.tickets, r, d.mint, now.Mono), x)
	}
	a, ticket := d.admitTo(ctx, now, t, s, r)
	if ticket == nil {
		return a, nil, nil
	}
	return d.queue(now, t, s, ticket, x)
}

// lookup answers a query from memory if the shard is this process's. Otherwise it returns false, and
// why not.
func (d *admission) lookup(now clock.Now, t *session, i int, q *Query) (a Answer, ok bool) {
	s := t.local(i)
	switch {
	case s == nil:
		return *d.away.Load(), false
	case !s.May(now):
		return Answer{Outcome: api.NoQuorum}, false
	case !s.Serves(): // it may not have read all of its log yet
		return Answer{Outcome: api.Standby}, false
	}
	a = s.Lookup(q)
	t.completeAnswer(&a)
	return a, true
}

// admitTo answers a request to a shard of this process that needs no decision, or returns
// the ticket to queue.
func (d *admission) admitTo(ctx context.Context, now clock.Now, t *session, s *shard.Shard, r Request) (Answer, *shard.Ticket) {
	if r.Settle == nil {
		// The count of requests under way is read only where all is sold: every claim writes it.
		idle := t.totals.AllSold(now) && s.UnderWay() == 0
		if a, known := t.recall(now, s, r); known {
			if a, known = t.answer(now, s, r, a, idle); known {
				t.completeAnswer(&a)
				return a, nil
			}
		}
	}
	switch {
	case r.Settle != nil && len(t.grabs) > 0:
		return Answer{Outcome: api.BadRequest, Message: "the claims of a sale with engine redis are final"}, nil
	case r.Settle != nil && r.Settle.Claim.Unit != 0:
		return Answer{Outcome: api.NoSuchClaim}, nil
	case d.draining.Load() && !d.links.any():
		return t.refuse(s, r, Answer{Outcome: api.Draining, RetryAfter: time.Second}), nil
	case t.keepsOut(s.Stalled()):
		return t.refuse(s, r, Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notLooked}), nil
	case r.Chooses() && len(t.grabs) > 0:
		return Answer{Outcome: api.BadRequest, Message: "buyers of a sale with engine redis cannot choose units: ask for a quantity alone"}, nil
	}
	var by *shard.Admittance
	if e := t.eligibility.Load(); e != nil && r.Settle == nil {
		var a Answer
		if by, a = e.decide(ctx, now, r); by == nil {
			if _, settings := s.Terms(); a.Outcome == api.NotEligible && string(settings.GetRules()) != e.hash {
				// This process or the shard has yet to hear of the other's rules, and a
				// refusal is for good.
				a = Answer{Outcome: api.NotChecked, RetryAfter: time.Second, OtherRules: true}
			}
			return t.refuse(s, r, a), nil
		}
	}
	ticket := shard.NewTicket(d.tickets, r, d.mint, now.Mono)
	ticket.Admit(by)
	return Answer{}, ticket
}

// admitAgain is admit of a request that rules had let in which have changed since. It stays
// under way under the ticket that it had, which is done with.
func (d *admission) admitAgain(ctx context.Context, now clock.Now, before *shard.Ticket, x *asyncRequest) (Answer, *shard.Ticket, *session) {
	a, ticket, t := d.admit(ctx, now, before.Repeat(), x)
	before.Finish()
	return a, ticket, t
}

// passesOn reports whether requests to a shard of this process go the way of those to a
// shard of a peer: others wait there before them, or the shard is about to be another's.
func (d *admission) passesOn(now clock.Now, t *session, s *shard.Shard) bool {
	return t.remotes[s.Number()].Busy() || d.links.any() && !s.May(now)
}

// queue has a ticket wait on a shard of this process.
func (d *admission) queue(now clock.Now, t *session, s *shard.Shard, ticket *shard.Ticket, x *asyncRequest) (Answer, *shard.Ticket, *session) {
	x.waitFor(ticket, t)
	switch refused := s.Offer(now, ticket); {
	case refused == "":
		return Answer{}, ticket, t
	case refused == api.Standby && d.links.any(): // it has just ended
		return d.pass(now, t, s.Number(), ticket, nil)
	default:
		a := t.refuse(s, ticket.Received(), Answer{Outcome: refused, RetryAfter: time.Second})
		ticket.Free()
		return a, nil, nil
	}
}

// pass has a ticket wait for the owner of a shard that is a peer's.
func (d *admission) pass(now clock.Now, t *session, i int, ticket *shard.Ticket, x *asyncRequest) (Answer, *shard.Ticket, *session) {
	refuse := func(a Answer) (Answer, *shard.Ticket, *session) {
		r := ticket.Received()
		ticket.Free()
		return t.decline(i, r, a), nil, nil
	}
	if !d.links.any() {
		return refuse(*d.away.Load())
	}
	x.waitFor(ticket, t)
	if refused := t.remotes[i].Offer(now, ticket); refused != "" {
		return refuse(Answer{Outcome: refused, RetryAfter: time.Second})
	}
	return Answer{}, ticket, t
}

// notFollowed says that the sale's log is damaged.
const notFollowed = "the sale's log cannot be followed"

// notLooked is the message to the buyers of a stalled shard.
const notLooked = ownership.Unread

// Decline is Service's.
func (d *admission) Decline(r Request, why api.Outcome) Answer {
	return d.refuse(r, Answer{Outcome: why, RetryAfter: time.Second})
}

// refuse returns the answer to a request that is refused without a look-up of its key, as
// shard.Refuse does, also while this process does not serve.
func (d *admission) refuse(r Request, a Answer) Answer {
	t := d.serving.Load()
	if t == nil {
		t = d.left.Load()
	}
	if t != nil && r.Key != "" {
		return t.decline(spec.HomeShard(r.User, len(t.shards)), r, a)
	}
	if r.Key != "" && a.Denies() && d.doubts.Has(r.User, r.Key) {
		return shard.Undecided
	}
	return a
}

// check says what no sale can answer about a request, "" if nothing. That names are
// of letters is for whoever takes requests from outside to see to.
func check(r *Request) string {
	switch {
	case !r.IsClaim():
		return ""
	case len(r.User) == 0 || len(r.User) > api.MaxUser:
		return fmt.Sprintf("a user is named by 1 to %d bytes", api.MaxUser)
	case !utf8.ValidString(r.User):
		return "a user is named by UTF-8 text"
	case len(r.Key) > api.MaxKey:
		return fmt.Sprintf("a key has at most %d bytes", api.MaxKey)
	case r.Quantity < 1 || r.Quantity > api.MaxQuantity:
		return fmt.Sprintf("a quantity is 1 to %d", api.MaxQuantity)
	case r.Units != nil && (r.Adjacent || int64(len(r.Units)) != r.Quantity):
		return "whoever names units asks for as many, and not for adjacent ones"
	}
	for i, unit := range r.Units {
		if unit < 1 || i > 0 && unit <= r.Units[i-1] {
			return "units are named by their numbers, from 1 on, in ascending order and each once"
		}
	}
	return ""
}

// ready returns nil while this process can answer for every shard: by itself, or by a peer.
func (d *admission) ready(now clock.Now) error {
	t := d.serving.Load()
	switch {
	case d.draining.Load():
		return ownership.ErrDraining
	case t == nil:
		return d.absent()
	}
	h := d.health.Load()
	for _, s := range t.locals() {
		if !s.May(now) {
			_, leased := s.Leased(now)
			return h.withoutRights(leased)
		}
	}
	if stalls := status.Merge(t.stalls()); len(stalls) > 0 {
		p := stalls[0]
		return fmt.Errorf("%s: shards %s of %d are stalled since %s: %s", p.Part, p.Location(), len(t.shards), p.Since.UTC().Format(time.RFC3339), p.Why)
	}
	votes := d.away.Load().Outcome != api.NoQuorum
	known := t.totals.Shards()
	missing, stuck := []int(nil), ""
	for i := range t.shards {
		s, owner := t.local(i), t.remotes[i].Route()
		switch {
		case s == nil && (t.links.to(owner.Owner) == nil || !votes && !h.holds(i)):
			// While a shard moves nobody says for a moment that it owns it; that is no trouble.
			missing = append(missing, i)
		case s == nil && known[i].Load.Stuck != "" && stuck == "":
			stuck = fmt.Sprintf("%s: shard %d of %d is stalled at %s", known[i].Load.Stuck, i, len(t.shards), owner.Address)
		case s == nil:
		case !s.Serves():
			return fmt.Errorf("shard %d is being taken over", i)
		case !s.Ready():
			return fmt.Errorf("the list of shard %d is being filled", i)
		}
	}
	switch {
	case len(missing) == len(t.shards) || len(missing) > 0 && !votes:
		return d.absent()
	case len(missing) > 0:
		return fmt.Errorf("%s: no process is known to own shards %s of %d", api.Standby, text.Ranges(missing), len(t.shards))
	case stuck != "":
		return errors.New(stuck)
	}
	return nil
}

// stuck is the part that keeps a shard of this process from being written, "" if none does.
func (d *admission) stuck(now clock.Now, s *shard.Shard) string {
	if !s.May(now) {
		_, leased := s.Leased(now)
		return d.health.Load().withoutRights(leased).Part
	}
	if stall := s.Stalled(); stall != nil {
		return stallKind(stall).Part
	}
	return ""
}

// absent says why this process does not serve: more than buyers are told.
func (d *admission) absent() error {
	away, h := d.away.Load(), d.health.Load()
	switch {
	case away.Outcome == api.NoQuorum && away.Message == notFollowed:
		return fmt.Errorf("%s: %s", status.Ledger, notFollowed)
	case away.Outcome == api.NoQuorum && away.Message != notLooked:
		return h.withoutRights(false)
	case h.Unread != nil:
		return h.unread()
	case away.Outcome == api.Standby && h.Idle != "":
		return fmt.Errorf("%s: %s: %s", api.Standby, h.Idle, status.Idle.Remedy)
	}
	return fmt.Errorf("%s: %s", away.Outcome, away.Message)
}

// status is what this process knows of the sale: by its own shards, and by what its peers
// have told of theirs.
func (d *admission) status(now clock.Now) Status {
	t, h := d.serving.Load(), d.health.Load()
	v := Status{Sale: d.sale, Run: h.Logged.Run, Nodes: h.Nodes, Members: h.Members, Moves: h.Moves}
	if all := d.problems.Load(); all != nil {
		v.Problems = status.Merge(*all)
	}
	if t == nil {
		v.Away = d.away.Load().Outcome
		if ledger.Over(h.Logged.Phase) { // else nobody knows who does not have the shards
			v.Phase = h.Logged.Phase
		}
		return v
	}
	v.UID, v.RedPacket, v.Commitment = t.uid, t.red, t.commits
	all := t.totals.Shards()
	settings, votes := t.settings.Load(), d.away.Load().Outcome != api.NoQuorum
	v.Shards = make([]ShardStatus, 0, len(t.shards))
	for i := range t.shards {
		s, owner := t.local(i), t.remotes[i].Route()
		known := &all[i]
		var one ShardStatus
		switch {
		case s != nil && s.Serves():
			one = s.Status()
			one.NoLease = !s.May(now)
			v.Sells = v.Sells || !one.NoLease && one.Stall == nil
		case s == nil && known.Known && owner.Owner != "":
			one = shard.StatusOf(i, known.Next, known.Totals)
			one.Queue, one.NextRelease = known.Load.Queue, known.Release
			one.Paid = settings.GetPayment() != nil || !settings.GetDraw() && one.Outcomes != ledger.Outcomes{}
			one.Stuck = known.Load.Stuck == status.Ledger
			one.NoLease = known.Load.Stuck != "" && !one.Stuck || !votes && !h.holds(i)
			v.Sells = v.Sells || h.holds(i) && known.Load.Stuck == "" // as far as is known here
		default:
			one.Shard, one.Unknown, v.Away = i, true, d.away.Load().Outcome
		}
		one.Load = known.Load.PerSecond
		if !one.Unknown || s == nil && h.holds(i) { // else it is who owned it last
			one.Owner = owner.Address
		}
		v.Shards = append(v.Shards, one)
		if !one.Unknown {
			v.Phase, v.Generation = known.Totals.Phase, one.Generation
		}
	}
	v.PerUser, v.Partial = settings.GetPerUserLimit(), settings.GetPartial()
	if drawn := t.drawn.Load(); drawn != nil {
		is := *drawn
		for i := range all {
			is.Winners += all[i].Totals.Limit
			is.Entries += all[i].Totals.Entries
			is.Lapsed += all[i].Totals.Lapsed()
		}
		v.Draw = &is
	}
	v.OpensAt, v.ClosesAt = ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs())
	return v
}
