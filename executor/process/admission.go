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

// Admission answers the requests of a process that need no commit, and queues the others. Its Machine keeps
// it up to date. All methods are safe for concurrent use.
type Admission struct {
	sale    string
	me      ownership.Process
	clock   clock.Clock
	newKey  func() string // returns a key for a request that has none
	tickets *sync.Pool    // allocated by itself: the runtime keeps a pool for a while, and with it any struct that has the pool as a field

	serving      atomic.Pointer[session]          // the session that requests enter; nil: this process does not serve
	left         atomic.Pointer[session]          // the session whose sale cannot be followed any more, until it ends; nil: there is none
	sold         atomic.Pointer[spec.Sale]        // the declaration of the last sealed run; empty: there is none
	health       atomic.Pointer[health]           // when the machine last acted
	away         atomic.Pointer[request.Answer]   // the answer while this process does not serve
	problems     atomic.Pointer[[]status.Problem] // the last list of problems, each of one shard at most; a nil list: it is not known
	draining     atomic.Bool
	doubts       request.Doubts
	links        peers.Links
	inbound      sync.Map      // of *Inbound: the links that peers have made to this process, by the id of the peer
	requestCount atomic.Uint64 // claims and settlements of clients
}

// initialize sets up a zero Admission. Until a session begins, requests are answered with Standby.
func (d *Admission) initialize(cfg Config) {
	d.sale, d.clock, d.newKey = cfg.Sale, cfg.Clock, cfg.Key
	d.me = ownership.Process{ID: cfg.ID, Address: cfg.Address, Version: cfg.Version}
	d.away.Store(&request.Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "starting"})
	d.health.Store(&health{})
	d.sold.Store(new(spec.Sale))
	d.problems.Store(new([]status.Problem))
	d.tickets = new(sync.Pool)
}

// fail ends a session because its sale cannot be followed any more. The session may be nil.
func (d *Admission) fail(t *session, why error) {
	d.away.Store(&request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notFollowed})
	t.stop(shard.Halt{Why: why, Refusal: api.NoQuorum})
	d.left.Store(t)
	d.serving.Store(nil)
	if t != nil {
		t.release(request.Refusal(api.NoQuorum))
	}
}

// awaiter arranges to be notified of the answer to a ticket that was admitted under a session.
type awaiter func(ticket *request.Ticket, under *session)

// admit answers a request at once, or queues it for its shard here or at a peer. It sets an immediate answer
// in a, which is zero, and returns nil. For a queued request it returns the ticket, and the session that
// completes the answer. await is called with both before the ticket is queued; nil: the caller waits.
func (d *Admission) admit(ctx context.Context, now clock.Now, r *request.Request, await awaiter, a *request.Answer) (*request.Ticket, *session) {
	if why := check(r); why != "" {
		*a = request.Answer{Outcome: api.BadRequest, Message: why}
		return nil, nil
	}
	if r.Query == nil {
		d.requestCount.Add(1)
	}
	t := d.serving.Load()
	if t == nil {
		*a = d.Refuse(*r, *d.away.Load())
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
		// Earlier requests wait for the shard's owner, or another process is about to own the shard.
		return d.forward(now, t, i, request.NewTicket(d.tickets, *r, d.newKey, now.Mono), await, a)
	}
	ticket := d.admitLocal(ctx, now, t, s, r, a)
	if ticket == nil {
		return nil, nil
	}
	return d.queue(now, t, s, ticket, await, a)
}

// admitLocal admits a claim or settlement to a shard of this process. It returns the ticket to queue, or sets
// the answer in a and returns nil.
func (d *Admission) admitLocal(ctx context.Context, now clock.Now, t *session, s *shard.Shard, r *request.Request, a *request.Answer) *request.Ticket {
	switch {
	case r.Settle == nil && s.AnswerClaim(now, r, a):
		t.completeAnswer(a)
		return nil
	case r.Settle != nil && len(t.batchers) > 0:
		*a = request.Answer{Outcome: api.BadRequest, Message: "the claims of a sale with engine redis are final"}
		return nil
	case r.Settle != nil && r.Settle.Claim.Unit != 0:
		*a = request.Answer{Outcome: api.NoSuchClaim}
		return nil
	case d.draining.Load() && !d.links.Any():
		*a = t.refuse(s.Pending, r, request.Refusal(api.Draining))
		return nil
	case t.refusesWhileStalled(s.Stalled()):
		*a = t.refuse(s.Pending, r, request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: ownership.Unread})
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
				// This process and the shard have different rules, and a refusal would be final:
				// the one with the older rules has yet to read the newer ones.
				refusal = request.Answer{Outcome: api.NotChecked, RetryAfter: time.Second, OtherRules: true}
			}
			*a = t.refuse(s.Pending, r, refusal)
			return nil
		}
	}
	ticket := request.NewTicket(d.tickets, *r, d.newKey, now.Mono)
	ticket.Admittance = by
	return ticket
}

// admitAgain is admit for a request that must be decided again, because the rules have changed since its ticket
// before was admitted. That ticket stays in the table Underway until the next one replaces it.
func (d *Admission) admitAgain(ctx context.Context, now clock.Now, before *request.Ticket, await awaiter, a *request.Answer) (*request.Ticket, *session) {
	r := before.Repeat()
	ticket, t := d.admit(ctx, now, &r, await, a)
	before.Finish()
	return ticket, t
}

// queue queues a ticket on a shard of this process. If the shard refuses it, queue sets the refusal in a.
func (d *Admission) queue(now clock.Now, t *session, s *shard.Shard, ticket *request.Ticket, await awaiter, a *request.Answer) (*request.Ticket, *session) {
	if await != nil {
		await(ticket, t)
	}
	switch refused := s.Offer(now, ticket); {
	case refused == "":
		return ticket, t
	case refused == api.Standby && d.links.Any(): // the shard has just ended
		return d.forward(now, t, s.Number(), ticket, nil, a)
	default:
		r := ticket.Received()
		*a = t.refuse(s.Pending, &r, request.Refusal(refused))
		ticket.Free()
		return nil, nil
	}
}

// forward queues a ticket for the peer that owns shard i. If it cannot, it sets the refusal in a.
func (d *Admission) forward(now clock.Now, t *session, i int, ticket *request.Ticket, await awaiter, a *request.Answer) (*request.Ticket, *session) {
	refuse := func(why request.Answer) (*request.Ticket, *session) {
		r := ticket.Received()
		ticket.Free()
		*a = t.refuse(t.pending(i), &r, why)
		return nil, nil
	}
	if !d.links.Any() {
		return refuse(*d.away.Load())
	}
	if await != nil {
		await(ticket, t)
	}
	if refused := t.remotes[i].Offer(now, ticket); refused != "" {
		return refuse(request.Refusal(refused))
	}
	return ticket, t
}

// notFollowed is the message while the sale's log is damaged.
const notFollowed = "the sale's log cannot be followed"

// Refuse returns the answer to a request that is refused with a before its key is looked up: a; Unknown, if an
// earlier request of the same user and key may yet be accepted; or the claim, if one was accepted. It also works
// while this process does not serve.
func (d *Admission) Refuse(r request.Request, a request.Answer) request.Answer {
	t := d.serving.Load()
	if t == nil {
		t = d.left.Load()
	}
	if t != nil && r.Key != "" {
		return t.refuse(t.pending(spec.HomeShard(r.User, len(t.shards))), &r, a)
	}
	if r.Key != "" && a.Denies() && d.doubts.Has(r.User, r.Key) {
		return request.Undecided
	}
	return a
}

// check returns why a request is invalid for every sale, "" if it is valid. Callers that accept
// requests from outside also check the characters of users and keys.
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
		return "a request that names units has their number as its quantity, and is not for adjacent ones"
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

// Me returns the identity of this process, for its peers.
func (d *Admission) Me() ownership.Process { return d.me }
