package process

import (
	"context"
	"sync/atomic"

	"salectl/executor/request"
)

// Do sets the answer to a request in a, which is zero. It returns when the answer is durable, or when ctx has
// ended: then with Unknown if a claim may yet be accepted, or a settlement may yet be done.
func (d *Admission) Do(ctx context.Context, r *request.Request, a *request.Answer) {
	ticket, t := d.admit(ctx, d.clock(), r, nil, a)
	d.wait(ctx, ticket, t, 0, a)
}

// wait sets in a, which is zero, the answer to a request during which the rules have changed so often already.
// ticket nil means that a is the answer.
func (d *Admission) wait(ctx context.Context, ticket *request.Ticket, t *session, changed int, a *request.Answer) {
	for ; ticket != nil; changed++ {
		switch {
		case !ticket.Await(ctx):
			*a = ticket.Cancel()
		case ticket.Answer.OtherRules && changed < mostRuleChanges:
			ticket, t = d.admitAgain(ctx, d.clock(), ticket, nil, a)
			continue
		default:
			*a = ticket.Finish()
		}
		t.completeAnswer(a)
		return
	}
}

// Blocks reports whether a request waits for a store or a node before it is admitted. It is safe for
// concurrent use.
func (m *Machine) Blocks(r *request.Request) bool {
	t := m.serving.Load()
	switch {
	case t == nil || r.Settle != nil:
		return false
	case r.Query != nil:
		return len(t.batchers) > 0
	case len(r.Names) > 0:
		return true
	}
	e := t.eligibility.Load()
	if e == nil {
		return false
	}
	_, known := e.users.fresh(r.User)
	return !known
}

// Drained returns a channel that is closed when the ledger has the units of a shard's list that a query
// is about, if the shard is this process's. nil: the query need not wait. It is safe for concurrent use.
func (m *Machine) Drained(r *request.Request) <-chan struct{} {
	t := m.serving.Load()
	if t == nil || len(t.batchers) == 0 || r.Query == nil || r.Query.User == "" && r.Query.Claim.Unit == 0 {
		return nil
	}
	i, ok := r.Home(len(t.shards))
	if !ok {
		return nil
	}
	if s := t.local(i); s != nil {
		return s.Drain()
	}
	return nil
}

// Begin admits a request. answered is called once, perhaps before Begin returns. The result is nil if the request
// was answered without a ticket. Begin is safe for concurrent use.
func (m *Machine) Begin(r request.Request, answered func(request.Answer)) (p *Pending) {
	var a request.Answer
	ticket, _ := m.admit(context.Background(), m.clock(), &r, func(t *request.Ticket, under *session) {
		p = &Pending{m: m, answered: answered}
		p.waitFor(t, under)
	}, &a)
	switch {
	case ticket != nil:
	case p != nil:
		p.finish(a)
	default:
		answered(a)
	}
	return p
}

// Repeat admits a request again of which Config.Repeat was called.
func (p *Pending) Repeat() {
	p.state.Store(pendingWaiting)
	var a request.Answer
	if ticket, _ := p.m.admitAgain(context.Background(), p.m.clock(), p.ticket, p.waitFor, &a); ticket == nil {
		p.finish(a)
	}
}

// DoAgain is Repeat that waits for the answer, and passes it on.
func (p *Pending) DoAgain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p.cancel, p.session = cancel, nil // wait completes the answer
	p.state.Store(pendingBlocked)
	if p.cancelled.Load() {
		cancel()
	}
	var a request.Answer
	ticket, t := p.m.admitAgain(ctx, p.m.clock(), p.ticket, nil, &a)
	p.m.wait(ctx, ticket, t, p.changed, &a)
	p.finish(a)
}

// Pending is a request without a waiting goroutine: it calls a function once, with the answer.
//
//	waiting  -> answered  its ticket has the answer: Config.Answered is called
//	waiting  -> done      it is given up, or answered without a ticket
//	answered -> done      Deliver
//	answered -> waiting   Deliver, if the rules have changed: Config.Repeat is called, and then Repeat
//	answered -> blocked   or DoAgain
//	blocked  -> done      DoAgain has the answer
type Pending struct {
	m        *Machine
	changed  int // how often the rules have changed since it was first admitted
	ticket   *request.Ticket
	session  *session // under which it was admitted
	answered func(request.Answer)

	state     atomic.Int32
	cancelled atomic.Bool
	cancel    context.CancelFunc
}

// The states of a Pending.
const (
	pendingWaiting int32 = iota
	pendingAnswered
	pendingBlocked
	pendingDone
)

// waitFor sets the ticket of the request, before the ticket can be answered.
func (p *Pending) waitFor(t *request.Ticket, under *session) {
	if under.packets != nil {
		under.packets() // they are computed here, and not where the answer is delivered
	}
	p.ticket, p.session = t, under
	t.OnAnswer(p)
}

// Answered implements request.Waiter.
func (p *Pending) Answered() {
	if p.state.CompareAndSwap(pendingWaiting, pendingAnswered) {
		p.m.cfg.Answered(p)
	}
}

// Deliver passes on the answer of the ticket, if it was not before.
func (p *Pending) Deliver() {
	if p.state.Load() != pendingAnswered {
		return
	}
	if p.ticket.Answer.OtherRules && p.changed < mostRuleChanges {
		p.changed++
		p.m.cfg.Repeat(p)
		return
	}
	p.finish(p.ticket.Finish())
}

// Cancel ends the wait: the request is answered with Overloaded, if it surely is not accepted, or with
// Unknown. It does nothing after an answer.
func (p *Pending) Cancel() {
	p.cancelled.Store(true)
	if p.state.CompareAndSwap(pendingWaiting, pendingDone) {
		p.reply(p.ticket.Cancel())
		return
	}
	if p.state.Load() == pendingBlocked {
		p.cancel()
	}
}

func (p *Pending) finish(a request.Answer) {
	p.state.Store(pendingDone)
	p.reply(a)
}

func (p *Pending) reply(a request.Answer) {
	p.session.completeAnswer(&a)
	p.answered(a)
}

// mostRuleChanges bounds how often a request is decided again because the rules have changed since it
// was admitted. After that the requester repeats it: the rules of its shard are not known to this
// process yet.
const mostRuleChanges = 2
