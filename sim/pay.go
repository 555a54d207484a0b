package sim

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/sim/check"
	"salectl/spec"
)

// unpaid is a stream under which no sale of TestWorldsThatFailed has a payment: those
// worlds are as they were when they failed.
const unpaid = 1081

// drawPayment has the claims of some sales held until they are paid. All else stays as it
// was drawn.
func (s *scenario) drawPayment(r random) {
	if s.lists != nil || !r.chance(0.35) {
		return
	}
	s.payment = &spec.Payment{
		HoldFor: spec.Duration(r.spread(spec.MinHold, 15*time.Second).Truncate(time.Millisecond)),
		Grace:   spec.Duration(pick(r, 0, 500*time.Millisecond, 3*time.Second)),
		Late:    pick(r, spec.LateRefuse, spec.LateResell),
	}
	if r.chance(0.5) {
		s.payment.ExtendBy = spec.Duration(r.spread(spec.MinHold, 10*time.Second).Truncate(time.Millisecond))
	}
	s.payment.UnpaidPerUser = pick[int64](r, 1, 2, spec.DefaultUnpaid)
}

// payer is what a client does with claims that are held for it. It draws from a stream of
// its own, and does not keep the client from going on.
type payer struct {
	c *client
	random
	payments int
	odd      int    // claims paid in odd ways at a payment service
	waits    random // draws for how long it waits for answers

	bookkeeper *payer // records what was paid back
}

// decide decides what becomes of a claim that was just held.
func (p *payer) decide(claim executor.Claim) {
	if p.c.w.service.decide(p, claim) {
		return
	}
	if p.c.w.calm && p.c.w.scenario.drawn == nil { // all is to be sold
		p.settle(api.Confirm, claim, p.pay(), 1000, func(api.Outcome) {})
		return
	}
	left := claim.HeldUntil.Sub(epoch.Add(p.c.w.now))
	in := p.between(0, max(left, time.Millisecond))
	switch draw := p.IntN(100); {
	case draw < 40:
		p.confirm(claim, in)
	case draw < 50: // by two payments
		p.confirm(claim, in)
		p.confirm(claim, in+p.between(0, time.Second))
	case draw < 60: // at about the time of its release
		p.confirm(claim, left+time.Duration(p.c.w.scenario.payment.Grace)+p.between(0, 400*time.Millisecond)-200*time.Millisecond)
	case draw < 68: // late
		p.confirm(claim, left+time.Duration(p.c.w.scenario.payment.Grace)+p.between(0, 10*time.Second))
	case draw < 78:
		p.after(in, api.Cancel, claim, "")
		if p.chance(0.3) {
			p.confirm(claim, in+p.between(0, time.Second))
		}
	case draw < 88:
		p.after(in, api.Extend, claim, "")
		p.after(in+p.between(0, time.Second), api.Extend, claim, "")
		p.confirm(claim, left+p.between(0, time.Duration(p.c.w.scenario.payment.ExtendBy)+time.Second))
	} // else nobody comes back
}

// confirm pays after a while; what was bought is refunded now and then.
func (p *payer) confirm(claim executor.Claim, in time.Duration) {
	payment := p.pay()
	p.later(in, func() {
		p.settle(api.Confirm, claim, payment, 8, func(o api.Outcome) {
			if o == api.Sold && p.chance(0.15) {
				p.refund(p.between(0, 3*time.Second), claim, payment)
			}
		})
	})
}

func (p *payer) after(in time.Duration, how api.How, claim executor.Claim, payment string) {
	p.later(in, func() { p.settle(how, claim, payment, 3, func(api.Outcome) {}) })
}

// refund refunds a claim after a while. The bookkeeper may record then that its payment was paid back.
func (p *payer) refund(in time.Duration, claim executor.Claim, payment string) {
	p.later(in, func() {
		p.settle(api.Refund, claim, "", 3, func(o api.Outcome) {
			if o == api.Refunded && payment != "" {
				p.bookkeeper.paidBack(claim, payment)
			}
		})
	})
}

// paidBack records the return of a payment that is owed back, sometimes twice, and sometimes that of a payment
// that nobody owes.
func (p *payer) paidBack(claim executor.Claim, payment string) {
	for n := p.IntN(3); n > 0; n-- {
		p.after(p.between(0, 4*time.Second), api.Return, claim, payment)
	}
	if p.chance(0.2) {
		p.after(p.between(0, 4*time.Second), api.Return, claim, "of nobody")
	}
}

// later does something after a while. A world does not end before.
func (p *payer) later(in time.Duration, do func()) {
	w := p.c.w
	in = max(in, 0)
	w.latestPay = max(w.latestPay, w.now+in)
	w.after(in, do)
}

// pay makes a payment.
func (p *payer) pay() string {
	p.payments++
	return fmt.Sprintf("payment-%d-%d", p.c.n, p.payments)
}

// settleMessage is a request to settle a claim.
const settleMessage = "settle"

// settle requests the settlement of a claim until it is answered for good, or was requested
// for often enough.
func (p *payer) settle(how api.How, claim executor.Claim, payment string, tries int, then func(api.Outcome)) {
	w := p.c.w
	if tries == 0 || w.over {
		return
	}
	x := executor.Settlement{Claim: claim.ID, How: how, Settlement: api.Settlement{Payment: payment}}
	if how.HasReason() {
		x.Who, x.Reason, x.Retire = fmt.Sprintf("client-%d", p.c.n), "in doubt", how != api.Return && p.chance(0.2)
	}
	e := w.executors[p.IntN(len(w.executors))]
	op := w.history.Op()
	w.history.Record(w.now, check.Event{
		Kind: check.SettleInvoked, Op: op, Process: e.n, User: claim.User, Claim: claim.ID.String(), How: how.Done(), Payment: payment,
	})
	w.vanished[op] = true // nobody waits for it for ever
	over := false
	done := func(a executor.Answer, received bool) {
		if over {
			return
		}
		over = true
		if received {
			w.recordResult(op, check.SettleReturned, answerOf(a))
			w.hit("settle " + string(how.Done()) + ": " + string(a.Outcome))
			// One that was read long ago may be reported not to exist, or to be closed.
			gone := a.Outcome == api.NoSuchSale || a.Outcome == api.Closed
			if a.RefundDue {
				p.bookkeeper.paidBack(claim, payment)
			}
			if a.Outcome.Row().Retry == api.Final && (!gone || w.operators.ending) {
				then(a.Outcome)
				return
			}
		}
		p.later(p.between(20*time.Millisecond, 500*time.Millisecond), func() { p.settle(how, claim, payment, tries-1, then) })
	}
	w.net.send(message{from: atClients, to: e.host, what: settleMessage}, func() {
		e.settle(x, func(a executor.Answer, received bool) {
			w.net.send(message{from: e.host, to: atClients, what: "settled"}, func() { done(a, received) })
		})
	})
	p.later(w.waitsFor(p.waits), func() { done(executor.Answer{}, false) })
}
