package rehearse

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// story is the behavior of a buyer with a held claim.
type story int

const (
	onlyClaims story = iota // another request pays
	pays
	paysTwice // two concurrent confirms of one payment
	abandons
	cancels
	extends  // extends the hold, and pays after the first deadline
	paysLate // after the release
	disputes // pays, and pays again with another reference
	returns  // pays, and an operator refunds it
)

// Mix of stories, in thousandths. The remaining buyers pay at once.
var stories = []struct {
	story story
	share int
}{
	{paysTwice, 80}, {abandons, 100}, {cancels, 80}, {extends, 60}, {paysLate, 80}, {disputes, 50}, {returns, 50},
}

// drawStory returns a random story.
func drawStory(c Config, random *rand.Rand) story {
	if c.Payment == nil {
		return onlyClaims
	}
	kind := random.IntN(1000)
	for _, s := range stories {
		if kind -= s.share; kind < 0 {
			if s.story == extends && c.Payment.ExtendBy == 0 {
				break
			}
			return s.story
		}
	}
	return pays
}

// Upper limits of a rehearsal's terms, so that it takes seconds and not as long as buyers may.
const (
	longestHold  = spec.Duration(2 * time.Second)
	longestGrace = spec.Duration(500 * time.Millisecond)
)

// Shortened returns the terms for the rehearsal of a sale with terms p.
func Shortened(p spec.Payment) spec.Payment {
	p.HoldFor = min(p.HoldFor, longestHold)
	p.Grace = min(p.Grace, longestGrace)
	p.ExtendBy = min(p.ExtendBy, longestHold)
	return p
}

// step is one request about a claim with its final answer. Its times are before the first attempt
// and after the last answer.
type step struct {
	how     api.How
	payment string

	reply        // with the claim of a successful step
	refundDue    bool
	began, ended clock.Now
}

// play is the course of a held claim: its first answer, the requests about it, and the judge's state.
type play struct {
	key   string
	claim api.Claim
	steps []step

	stands
}

// newClients makes the clients that query the sale and settle claims: the buyers' and the operator's.
func (d *drive) newClients() (err error) {
	c := d.api
	c.Sleep, c.Attempted = d.Sleep, d.again
	if d.buyers, err = api.NewClient(c); err != nil || d.Payment == nil {
		return err
	}
	c.Servers = []string{d.Admin}
	d.operator, err = api.NewClient(c)
	return err
}

// perform plays the story of a claim to its end. Delayed steps run in the group, so that the worker
// can continue with the next buyer.
func (d *drive) perform(ctx context.Context, g *errgroup.Group, r record) error {
	if d.Payment == nil || r.story == onlyClaims || r.Outcome != api.Held {
		return nil
	}
	v := &play{key: r.key, claim: r.Claim}
	d.mu.Lock()
	d.plays = append(d.plays, v)
	d.mu.Unlock()
	release := v.claim.HeldUntil.Add(time.Duration(d.Payment.Grace))
	pay := step{how: api.Confirm, payment: r.key + "-paid"}
	later := func(at time.Time) {
		g.Go(func() error {
			if err := d.waitFor(ctx, at); err != nil {
				return err
			}
			return d.settle(ctx, v, pay)
		})
	}
	switch r.story {
	case abandons:
		return nil
	case paysTwice:
		return d.race(ctx, v, pay)
	case cancels:
		return d.settle(ctx, v, step{how: api.Cancel})
	case disputes:
		return d.settle(ctx, v, pay, step{how: api.Confirm, payment: r.key + "-paid-again"})
	case returns:
		return d.settle(ctx, v, pay, step{how: api.Refund})
	case extends:
		if err := d.settle(ctx, v, step{how: api.Extend}); err != nil {
			return err
		}
		later(release.Add(time.Duration(d.Payment.ExtendBy) / 4))
		return nil
	case paysLate:
		later(release.Add(2 * slack))
		return nil
	}
	return d.settle(ctx, v, pay)
}

// race makes a step twice concurrently.
func (d *drive) race(ctx context.Context, v *play, s step) error {
	done := [2]step{s, s}
	g, ctx := errgroup.WithContext(ctx)
	for i := range done {
		g.Go(func() error { return d.settlement(ctx, v, &done[i]) })
	}
	err := g.Wait()
	v.steps = append(v.steps, done[:]...)
	return err
}

// settle makes steps one after another.
func (d *drive) settle(ctx context.Context, v *play, steps ...step) error {
	for _, s := range steps {
		err := d.settlement(ctx, v, &s)
		if v.steps = append(v.steps, s); err != nil {
			return err
		}
	}
	return nil
}

// settlement sends a settlement until it has a final answer.
func (d *drive) settlement(ctx context.Context, v *play, s *step) error {
	settlement, client := api.Settlement{Payment: s.payment}, d.buyers
	switch s.how {
	case api.Cancel:
		settlement.Who, settlement.Reason = v.claim.User, "a rehearsal's buyer has changed her mind"
	case api.Refund:
		settlement.Who, settlement.Reason, client = "rehearsal", "a rehearsal's buyer has returned it", d.operator
	}
	s.began = d.Clock()
	a, err := client.Settle(ctx, v.claim.ID, s.how, settlement)
	s.ended = d.Clock()
	if s.reply, err = replyOf(ctx, fmt.Sprintf("%s of claim %s", s.how, v.claim.ID), &a, err); err == nil && s.status != http.StatusOK {
		s.refundDue = a.Problem().RefundDue
	}
	return err
}

// waitFor waits until a time of the wall clock.
func (d *drive) waitFor(ctx context.Context, at time.Time) error {
	for {
		left := at.Sub(d.Clock().Wall)
		if left <= 0 {
			return nil
		}
		if err := d.Sleep(ctx, left); err != nil {
			return err
		}
	}
}

// lastRelease returns the time after which no claim is held.
func (d *drive) lastRelease() (last time.Time) {
	for _, v := range d.plays {
		until := v.claim.HeldUntil
		for _, s := range v.steps {
			if s.HeldUntil.After(until) {
				until = s.HeldUntil
			}
		}
		if release := until.Add(time.Duration(d.Payment.Grace)); release.After(last) {
			last = release
		}
	}
	return last
}

// leftOver is the result of selling returned units.
type leftOver struct {
	stuck int64 // number of units still held after every hold has ended
	came  []click
}

// sellAgain waits until every hold has ended. Then a new buyer claims and pays each returned unit
// without owner: it must be for sale again.
func (d *drive) sellAgain(ctx context.Context, workers []*worker) (left leftOver, err error) {
	if left.stuck, err = d.released(ctx); err != nil {
		return left, err
	}
	if d.visits = nil; d.Refused != nil {
		return left, nil
	}
	for i := range judged(d.Config, recordsOf(workers), slices.Clone(d.plays), nil).free {
		k := click{user: fmt.Sprintf("late-buyer-%06d", i), quantity: 1, story: pays}
		k.key = k.user + "-1"
		left.came, d.visits = append(left.came, k), append(d.visits, visit{k})
	}
	return left, d.burst(ctx, workers[:min(len(workers), len(d.visits))])
}

// released waits until every hold has ended, and returns the number of units that the server still
// reports as held.
func (d *drive) released(ctx context.Context) (held int64, err error) {
	if err := d.waitFor(ctx, d.lastRelease()); err != nil {
		return 0, err
	}
	const interval = 20 * time.Millisecond
	for end := d.Clock().Mono + d.Patience; ; {
		sale, err := d.buyers.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err == nil && sale.Held == 0:
			return 0, nil
		case d.Clock().Mono > end:
			return sale.Held, err
		}
		if err := d.Sleep(ctx, interval); err != nil {
			return 0, err
		}
	}
}
