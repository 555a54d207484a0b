package executor

import (
	"context"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/shard"
)

// The way of what is asked of a claim that was accepted, which is to confirm, extend, cancel or
// refund it, up to the shard that decides on that. What asks for units goes by executor.go,
// begin.go and admission.go.

// Settlement is what is asked, as a shard has it.
type Settlement = shard.Settlement

// Settler is who can be asked. Every Service is one.
type Settler interface {
	// Settle confirms, extends, cancels or refunds a claim. The outcome is How.Done if
	// that is done, now or, with Replayed, before; else it says what forbids it. It
	// returns when the answer is durable, or when ctx has ended: then with Unknown if it
	// may yet be done. To ask again is safe.
	Settle(ctx context.Context, s Settlement) Answer
	// BeginSettle is Begin for Settle.
	BeginSettle(s Settlement, answered func(Answer)) (giveUp func())
}

// Settle is Settler's.
func (e *Executor) Settle(ctx context.Context, x Settlement) Answer {
	a, ticket, t := e.admitSettlement(e.cfg.Clock(), x, nil)
	if ticket == nil {
		e.payloads.add(ctx, &a)
		return a
	}
	a = ticket.Wait(ctx)
	t.completeAnswer(&a)
	e.payloads.add(ctx, &a)
	return a
}

// BeginSettle is Settler's.
func (e *Executor) BeginSettle(s Settlement, answered func(Answer)) (giveUp func()) {
	x := settling(e, e.payloads.adding(answered))
	if a, ticket, _ := e.admitSettlement(e.cfg.Clock(), s, x); ticket == nil {
		x.finish(a)
	}
	return x.giveUp
}

// Settle is Executor's, and answers as Claim does.
func (p *Stepped) Settle(now clock.Now, s Settlement, answered func(Answer)) (withdraw func()) {
	p.now = now
	x := settling(p, answered)
	if a, ticket, _ := p.admitSettlement(now, s, x); ticket == nil {
		x.finish(a)
	}
	return func() { p.withdraw(x) }
}

// settling is the ask of a settlement. No rules have let it in: it is never decided on again
// because they have changed.
func settling(shell asyncShell, answered func(Answer)) *asyncRequest {
	return &asyncRequest{shell: shell, changed: mostRuleChanges, answered: answered}
}

// admitSettlement is admit for what is asked of a claim that was accepted.
func (d *admission) admitSettlement(now clock.Now, settle Settlement, x *asyncRequest) (Answer, *shard.Ticket, *session) {
	d.came.Add(1)
	t := d.serving.Load()
	if t == nil {
		return *d.away.Load(), nil, nil
	}
	if a, bad := t.unsettled(settle); bad {
		return a, nil, nil
	}
	s := t.local(settle.Claim.Shard)
	if s == nil || d.passesOn(now, t, s) {
		return d.pass(now, t, settle.Claim.Shard, shard.NewSettlement(d.tickets, settle, now.Mono), x)
	}
	a, ticket := d.admitSettlementTo(now, t, s, settle)
	if ticket == nil {
		return a, nil, nil
	}
	return d.queue(now, t, s, ticket, x)
}

// unsettled answers what can be asked of no claim of the sale.
func (t *session) unsettled(x Settlement) (Answer, bool) {
	switch {
	case len(t.grabs) > 0:
		return Answer{Outcome: api.BadRequest, Message: "the claims of a sale with engine redis are final"}, true
	case x.Claim.Shard >= len(t.shards) || x.Claim.Unit != 0:
		return Answer{Outcome: api.NoSuchClaim}, true
	}
	return Answer{}, false
}

// admitSettlementTo is admitTo for what is asked of a claim that was accepted.
func (d *admission) admitSettlementTo(now clock.Now, t *session, s *shard.Shard, x Settlement) (Answer, *shard.Ticket) {
	switch {
	case d.draining.Load() && !d.links.any():
		return Answer{Outcome: api.Draining, RetryAfter: time.Second}, nil
	case t.keepsOut(s.Stalled()):
		return Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: notLooked}, nil
	}
	return Answer{}, shard.NewSettlement(d.tickets, x, now.Mono)
}
