package process

import (
	"context"
	"sync/atomic"

	"salectl/executor/request"
)

// Pending is a request without a waiting goroutine: it calls a function once, with the answer.
//
//	waiting  -> answered  its ticket has the answer: Config.Answered is called
//	waiting  -> done      it is given up, or answered without a ticket
//	answered -> done      Deliver
//	answered -> waiting   Deliver, if the rules have changed: Config.Repeat is called, and then Repeat
//	any      -> blocked   Block
//	blocked  -> done      the function that Block returned
type Pending struct {
	m        *Machine
	changed  int // how often the rules have changed since it was first admitted
	ticket   *request.Ticket
	session  *session // under which it was admitted
	answered func(request.Answer)

	state   atomic.Int32
	givenUp atomic.Bool
	cancel  context.CancelFunc
}

// The states of a Pending.
const (
	pendingWaiting int32 = iota
	pendingAnswered
	pendingBlocked
	pendingDone
)

// NewPending returns a request that calls answered. It is safe for concurrent use.
func (m *Machine) NewPending(answered func(request.Answer)) *Pending {
	return &Pending{m: m, answered: answered}
}

// Block has the caller find the answer, which it passes to finish. ctx ends when the request is given up.
func (p *Pending) Block() (ctx context.Context, finish func(request.Answer)) {
	ctx, p.cancel = context.WithCancel(context.Background())
	p.state.Store(pendingBlocked)
	if p.givenUp.Load() {
		p.cancel()
	}
	p.session = nil // the caller completes the answer
	return ctx, func(a request.Answer) {
		p.cancel()
		p.finish(a)
	}
}

// waitFor sets the ticket of the request, before the ticket can be answered.
func (p *Pending) waitFor(t *request.Ticket, under *session) {
	if p == nil {
		return
	}
	if under.packets != nil {
		under.packets() // they are computed here, and not where the answer is delivered
	}
	p.ticket, p.session = t, under
	t.OnAnswer(p)
}

// Answered is shard.Waiter's.
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

// GiveUp ends the wait: the request is answered with Overloaded, if it surely is not accepted, or with
// Unknown. It does nothing after an answer.
func (p *Pending) GiveUp() {
	p.givenUp.Store(true)
	if p.state.CompareAndSwap(pendingWaiting, pendingDone) {
		p.reply(p.ticket.GiveUp())
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
// was admitted. After that the requester repeats it: this process does not know the rules of its
// shard yet.
const mostRuleChanges = 2
