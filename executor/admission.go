package executor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/shard"
	"salectl/spec"
)

// admission is what buyers, and whoever asks how things are, meet of a process. It
// answers what needs no commit and queues the rest; a shell keeps it up to date
// and carries the answers back. All methods are safe for concurrent use.
type admission struct {
	sale    string
	mint    func() string // makes the key of a request that has none
	tickets *sync.Pool    // allocated by itself: the runtime keeps a pool for a while, and with it all that the pool is a field of

	tenure   atomic.Pointer[tenure] // nil: this process does not serve
	left     atomic.Pointer[tenure] // that was lost and has not come to its end; nil: none
	health   atomic.Pointer[health]
	away     atomic.Pointer[Answer] // what is said while it does not
	draining atomic.Bool
	doubts   shard.Doubts
}

// open lets requests come in, before anything is known of the sale.
func (d *admission) open(sale string, mint func() string) {
	d.sale, d.mint = sale, mint
	d.away.Store(&Answer{Outcome: api.Standby, RetryAfter: time.Second, Message: "starting"})
	d.health.Store(&health{})
	d.tickets = new(sync.Pool)
}

// show takes over what the owner has to say to all who ask.
func (d *admission) show(o *owner) {
	d.away.Store(o.absent())
	d.health.Store(o.health())
}

// lose ends the tenure, if there is one, because nobody can follow the sale any
// more.
func (d *admission) lose(t *tenure, why error) {
	d.away.Store(&Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the sale's log cannot be followed"})
	t.stop(shard.Halt{Why: why, Refusal: api.NoQuorum})
	d.left.Store(t)
	d.tenure.Store(nil)
}

// admit answers a request at once, or returns the ticket under which it waits for
// its answer, and the tenure that prices that.
func (d *admission) admit(ctx context.Context, now clock.Now, r Request) (Answer, *shard.Ticket, *tenure) {
	a, t, s := d.look(now, r)
	if s == nil {
		return a, nil, nil
	}
	var by *shard.Admittance
	if e := t.eligibility.Load(); e != nil {
		if by, a = e.decide(ctx, now, r); by == nil {
			if _, settings := s.Terms(); a.Outcome == api.NotEligible && string(settings.GetRules()) != e.hash {
				// This process or the shard has yet to hear of the other's rules, and a
				// refusal is for good.
				a = Answer{Outcome: api.NotChecked, RetryAfter: time.Second, OtherRules: true}
			}
			return t.refuse(s, r, a), nil, nil
		}
	}
	ticket := shard.NewTicket(d.tickets, s, r, d.mint, now.Mono)
	ticket.LetIn(by)
	if refused := s.Offer(now, ticket); refused != "" {
		ticket.Free()
		return t.refuse(s, r, Answer{Outcome: refused, RetryAfter: time.Second}), nil, nil
	}
	return Answer{}, ticket, t
}

// look answers a request that needs no decision, or returns the shard that is to decide on
// it.
func (d *admission) look(now clock.Now, r Request) (Answer, *tenure, *shard.Shard) {
	if why := check(&r); why != "" {
		return Answer{Outcome: api.BadRequest, Message: why}, nil, nil
	}
	t := d.tenure.Load()
	if t == nil {
		return d.refuse(r, *d.away.Load()), nil, nil
	}
	s := t.shards[spec.HomeShard(r.User, len(t.shards))]
	// Only where all is sold is it asked what is under way: every claim writes that.
	idle := t.board.AllSold() && s.UnderWay() == 0
	if a, known := t.recall(now, s, r); known {
		if a, known = t.answer(now, s, r, a, idle); known {
			t.price(&a)
			return a, nil, nil
		}
	}
	switch {
	case d.draining.Load():
		return t.refuse(s, r, Answer{Outcome: api.Draining, RetryAfter: time.Second}), nil, nil
	case t.keepsOut(s.Stalled()):
		return t.refuse(s, r, Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notLooked}), nil, nil
	}
	return Answer{}, t, s
}

// admitSettlement is admit for what is asked of a claim that was accepted.
func (d *admission) admitSettlement(now clock.Now, x Settlement) (Answer, *shard.Ticket, *tenure) {
	t := d.tenure.Load()
	if t == nil {
		return *d.away.Load(), nil, nil
	}
	switch {
	case len(t.grabs) > 0:
		return Answer{Outcome: api.BadRequest, Message: "the claims of a sale with engine redis are final"}, nil, nil
	case x.Claim.Shard >= len(t.shards) || x.Claim.Unit != 0:
		return Answer{Outcome: api.NoSuchClaim}, nil, nil
	}
	s := t.shards[x.Claim.Shard]
	switch {
	case d.draining.Load():
		return Answer{Outcome: api.Draining, RetryAfter: time.Second}, nil, nil
	case t.keepsOut(s.Stalled()):
		return Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notLooked}, nil, nil
	}
	ticket := shard.NewSettlement(d.tickets, x, now.Mono)
	if refused := s.Offer(now, ticket); refused != "" {
		ticket.Free()
		return Answer{Outcome: refused, RetryAfter: time.Second}, nil, nil
	}
	return Answer{}, ticket, t
}

// notLooked says of a stalled shard what its buyers may know.
const notLooked = "the ledger does not answer; this request was not looked at"

// Decline is Service's.
func (d *admission) Decline(r Request, why api.Outcome) Answer {
	return d.refuse(r, Answer{Outcome: why, RetryAfter: time.Second})
}

// refuse returns the answer to a request that is refused without a look at it, as
// shard.refuse does, also while this process does not serve.
func (d *admission) refuse(r Request, a Answer) Answer {
	t := d.tenure.Load()
	if t == nil {
		t = d.left.Load()
	}
	if t != nil {
		return t.refuse(t.shards[spec.HomeShard(r.User, len(t.shards))], r, a)
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
	case len(r.User) == 0 || len(r.User) > api.MaxUser:
		return fmt.Sprintf("a user is named by 1 to %d bytes", api.MaxUser)
	case !utf8.ValidString(r.User):
		return "a user is named by UTF-8 text"
	case len(r.Key) > api.MaxKey:
		return fmt.Sprintf("a key has at most %d bytes", api.MaxKey)
	case r.Quantity < 1 || r.Quantity > api.MaxQuantity:
		return fmt.Sprintf("a quantity is 1 to %d", api.MaxQuantity)
	}
	return ""
}

// claims returns a user's claims.
func (d *admission) claims(now clock.Now, user string) ([]Claim, api.Outcome) {
	t := d.tenure.Load()
	if t == nil {
		return nil, d.away.Load().Outcome
	}
	if rights := t.rights.Load(); rights == nil || !rights.Valid(now) {
		return nil, api.NoQuorum
	}
	s := t.shards[spec.HomeShard(user, len(t.shards))]
	if !s.Serves() {
		return nil, api.Standby // it may not have read all of its log yet
	}
	claims := s.User(user)
	t.priceAll(claims)
	return claims, ""
}

// ready returns nil while this process can sell on every shard.
func (d *admission) ready(now clock.Now) error {
	t := d.tenure.Load()
	switch {
	case d.draining.Load():
		return errDraining
	case t == nil:
		return d.absent()
	}
	if rights := t.rights.Load(); rights == nil || !rights.Valid(now) {
		return fmt.Errorf("%s: %s", api.NoQuorum, d.health.Load().withoutRights(rights != nil && rights.Lease.At(now)))
	}
	stalled := t.stalled()
	if len(stalled) > 0 {
		first := oldest(stalled)
		return fmt.Errorf("stalled: shards %s of %d since %s: %s",
			names(stalled), len(t.shards), first.Since.UTC().Format(time.RFC3339), first.Error)
	}
	for _, s := range t.shards {
		if !s.Serves() {
			return fmt.Errorf("shard %d is being taken over", s.Number())
		}
		if !s.Ready() {
			return fmt.Errorf("the list of shard %d is being filled", s.Number())
		}
	}
	return nil
}

// absent says why this process does not serve: more than buyers are told.
func (d *admission) absent() error {
	away, h := d.away.Load(), d.health.Load()
	switch {
	case away.Outcome == api.NoQuorum && h.clockOff != 0:
		return fmt.Errorf("%s: %s", away.Outcome, h.wrongClock())
	case away.Outcome == api.NoQuorum:
		return fmt.Errorf("%s: %s%s", away.Outcome, away.Message, h.troubles())
	case h.unread != nil:
		return fmt.Errorf("%s: %s; the sale's log cannot be read: %s", away.Outcome, away.Message, shard.OneLine(h.unread))
	}
	return fmt.Errorf("%s: %s", away.Outcome, away.Message)
}

// status is what this process knows of the sale, once it has read all of it.
func (d *admission) status() Status {
	t := d.tenure.Load()
	if t == nil {
		return Status{Sale: d.sale, Away: d.away.Load().Outcome}
	}
	v := Status{Sale: d.sale, UID: t.uid, Nodes: d.health.Load().nodes, RedPacket: t.red}
	for _, s := range t.shards {
		if !s.Serves() {
			return Status{Sale: d.sale, Away: api.Standby}
		}
		v.Shards = append(v.Shards, s.Status())
	}
	phase, settings := t.shards[0].Terms()
	v.Generation, v.Phase, v.PerUser, v.Partial = v.Shards[0].Generation, phase, settings.GetPerUserLimit(), settings.GetPartial()
	v.OpensAt, v.ClosesAt = ledger.Time(settings.GetOpensAtUs()), ledger.Time(settings.GetClosesAtUs())
	return v
}
