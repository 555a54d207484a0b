package process

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/spec"
)

// Admission answers or queues every request of a process: it answers those that need no commit, and
// queues the rest. All methods are safe for concurrent use. Its Machine keeps it up to date.
type Admission struct {
	sale    string
	me      ownership.Process
	clock   clock.Clock
	newKey  func() string // returns a key for a request that has none
	tickets *sync.Pool    // allocated by itself: the runtime keeps a pool for a while, and with it all that the pool is a field of

	serving  atomic.Pointer[session]          // nil: this process does not serve
	left     atomic.Pointer[session]          // the session that was lost and has not ended; nil: none
	sold     atomic.Pointer[spec.Sale]        // the declaration of the last sealed run; nil: there is none
	health   atomic.Pointer[health]           // when the machine last acted
	away     atomic.Pointer[request.Answer]   // the answer while it does not serve
	problems atomic.Pointer[[]status.Problem] // as they were compiled last, each of one shard at most; nil: none were
	draining atomic.Bool
	doubts   request.Doubts
	links    peers.Links
	inbound  sync.Map      // of *Inbound: the links that peers have made to this process, by the id of the peer
	came     atomic.Uint64 // claims and settlements of clients
}

// open admits requests, before the sale is known.
func (d *Admission) open(cfg Config) {
	d.sale, d.clock, d.newKey = cfg.Sale, cfg.Clock, cfg.Key
	d.me = ownership.Process{ID: cfg.ID, Address: cfg.Address, Version: cfg.Version}
	d.away.Store(&request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "starting"})
	d.health.Store(&health{})
	d.tickets = new(sync.Pool)
}

// publish takes over the state of the ownership of shards, for answers and statuses.
func (d *Admission) publish(now clock.Now, o *ownership.Machine) {
	away := o.Absent()
	d.away.Store(&away)
	d.health.Store(&health{o.Status(now)})
}

// fail ends the session, if there is one, because the sale cannot be followed any more.
func (d *Admission) fail(t *session, why error) {
	d.away.Store(&request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notFollowed})
	t.stop(shard.Halt{Why: why, Refusal: api.NoQuorum})
	d.left.Store(t)
	d.serving.Store(nil)
	if t != nil {
		t.release(request.Refusal(api.NoQuorum))
	}
}

// admit sets the answer to a request in a, which is zero, or queues a ticket under which the request waits
// for its answer, here or to be sent to a peer, and returns that and the session that completes the answer.
// x is signalled when the ticket has its answer; nil: the caller waits.
func (d *Admission) admit(ctx context.Context, now clock.Now, r *request.Request, x *Pending, a *request.Answer) (*request.Ticket, *session) {
	if why := check(r); why != "" {
		*a = request.Answer{Outcome: api.BadRequest, Message: why}
		return nil, nil
	}
	if r.Query == nil {
		d.came.Add(1)
	}
	t := d.serving.Load()
	if t == nil {
		*a = d.Refuse(r, *d.away.Load())
		return nil, nil
	}
	i, ok := r.Home(len(t.shards))
	if !ok {
		a.Outcome = api.NoSuchClaim
		return nil, nil
	}
	s := t.local(i)
	switch {
	case r.Query != nil:
		if found, ok := t.lookup(now, i, r.Query); ok || !d.links.Any() {
			*a = found
			return nil, nil
		}
		fallthrough
	case s == nil || t.remotes[i].Busy() || d.links.Any() && !s.May(now):
		// Others wait for the shard's owner before this one, or the shard is about to be another's.
		return d.forward(now, t, i, request.NewTicket(d.tickets, *r, d.newKey, now.Mono), x, a)
	}
	ticket := d.admitTo(ctx, now, t, s, r, a)
	if ticket == nil {
		return nil, nil
	}
	return d.queue(now, t, s, ticket, x, a)
}

// admitTo sets the answer to a request to a shard of this process that needs no decision in a, or returns
// the ticket to queue.
func (d *Admission) admitTo(ctx context.Context, now clock.Now, t *session, s *shard.Shard, r *request.Request, a *request.Answer) *request.Ticket {
	if r.Settle == nil {
		// The count of requests under way is read only where all is sold: every claim writes it.
		idle := t.totals.AllSold(now) && s.Underway.Len() == 0
		if t.recall(now, s, r, a) && t.answer(now, s, r, a, idle) {
			t.completeAnswer(a)
			return nil
		}
	}
	switch {
	case r.Settle != nil && len(t.batchers) > 0:
		*a = request.Answer{Outcome: api.BadRequest, Message: "the claims of a sale with engine redis are final"}
		return nil
	case r.Settle != nil && r.Settle.Claim.Unit != 0:
		*a = request.Answer{Outcome: api.NoSuchClaim}
		return nil
	case d.draining.Load() && !d.links.Any():
		*a = t.refuse(s, r, request.Answer{Outcome: api.Draining, RetryAfter: time.Second})
		return nil
	case t.keepsOut(s.Stalled()):
		*a = t.refuse(s, r, request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notRead})
		return nil
	case r.Chooses() && len(t.batchers) > 0:
		*a = request.Answer{Outcome: api.BadRequest, Message: "buyers of a sale with engine redis cannot choose units: claim a quantity only"}
		return nil
	}
	var by *request.Admittance
	if e := t.eligibility.Load(); e != nil && r.Settle == nil {
		var refusal request.Answer
		if by, refusal = e.decide(ctx, now, r); by == nil {
			if _, settings := s.Terms(); refusal.Outcome == api.NotEligible && string(settings.GetRules()) != e.hash {
				// This process or the shard does not know the rules of the other yet, and a
				// refusal is final.
				refusal = request.Answer{Outcome: api.NotChecked, RetryAfter: time.Second, OtherRules: true}
			}
			*a = t.refuse(s, r, refusal)
			return nil
		}
	}
	ticket := request.NewTicket(d.tickets, *r, d.newKey, now.Mono)
	ticket.Admittance = by
	return ticket
}

// admitAgain is admit of a request that was admitted by rules which have changed since. It stays under
// way under the ticket before until it has another.
func (d *Admission) admitAgain(ctx context.Context, now clock.Now, before *request.Ticket, x *Pending, a *request.Answer) (*request.Ticket, *session) {
	r := before.Repeat()
	ticket, t := d.admit(ctx, now, &r, x, a)
	before.Finish()
	return ticket, t
}

// queue has a ticket wait on a shard of this process, or sets in a why it cannot.
func (d *Admission) queue(now clock.Now, t *session, s *shard.Shard, ticket *request.Ticket, x *Pending, a *request.Answer) (*request.Ticket, *session) {
	x.waitFor(ticket, t)
	switch refused := s.Offer(now, ticket); {
	case refused == "":
		return ticket, t
	case refused == api.Standby && d.links.Any(): // it has just ended
		return d.forward(now, t, s.Number(), ticket, nil, a)
	default:
		r := ticket.Received()
		*a = t.refuse(s, &r, request.Answer{Outcome: refused, RetryAfter: time.Second})
		ticket.Free()
		return nil, nil
	}
}

// forward has a ticket wait for the owner of a shard that is a peer's, or sets in a why it cannot.
func (d *Admission) forward(now clock.Now, t *session, i int, ticket *request.Ticket, x *Pending, a *request.Answer) (*request.Ticket, *session) {
	refuse := func(why request.Answer) (*request.Ticket, *session) {
		r := ticket.Received()
		ticket.Free()
		*a = t.decline(i, &r, why)
		return nil, nil
	}
	if !d.links.Any() {
		return refuse(*d.away.Load())
	}
	x.waitFor(ticket, t)
	if refused := t.remotes[i].Offer(now, ticket); refused != "" {
		return refuse(request.Answer{Outcome: refused, RetryAfter: time.Second})
	}
	return ticket, t
}

// notFollowed is the message while the sale's log is damaged.
const notFollowed = "the sale's log cannot be followed"

// notRead is the message to the buyers of a stalled shard.
const notRead = ownership.Unread

// Decline answers a request that is not admitted, with why; but with Unknown, or with the claim, if an
// earlier request of the same user and key may yet be accepted, or was.
func (d *Admission) Decline(r request.Request, why api.Outcome) request.Answer {
	return d.Refuse(&r, request.Refusal(why))
}

// Refuse returns the answer to a request that is refused without a look-up of its key, as
// shard.Refuse does, also while this process does not serve.
func (d *Admission) Refuse(r *request.Request, a request.Answer) request.Answer {
	t := d.serving.Load()
	if t == nil {
		t = d.left.Load()
	}
	if t != nil && r.Key != "" {
		return t.decline(spec.HomeShard(r.User, len(t.shards)), r, a)
	}
	if r.Key != "" && a.Denies() && d.doubts.Has(r.User, r.Key) {
		return request.Undecided
	}
	return a
}

// check returns why no sale can answer a request, "" if one can. Who accepts requests from outside
// checks that names consist of letters.
func check(r *request.Request) string {
	switch {
	case !r.IsClaim():
		return ""
	case len(r.User) == 0 || len(r.User) > api.MaxUser:
		return fmt.Sprintf("a user is named by 1 to %d bytes", api.MaxUser)
	case !utf8.ValidString(r.User):
		return "a user is named by UTF-8 text"
	case len(r.Key) > api.MaxKey:
		return fmt.Sprintf("a key has at most %d bytes", api.MaxKey)
	case r.Units != nil && (r.Adjacent || int64(len(r.Units)) != r.Quantity):
		return "whoever names units asks for as many, and not for adjacent ones"
	}
	for i, unit := range r.Units {
		if unit < 1 || i > 0 && unit <= r.Units[i-1] {
			return "units are named by their numbers, from 1 on, in ascending order and each once"
		}
	}
	if err := api.CheckQuantity(r.Quantity); err != nil {
		return err.Error()
	}
	return ""
}

// Me names this process to its peers.
func (d *Admission) Me() ownership.Process { return d.me }
