package spec

import (
	"fmt"
	"reflect"
	"time"
)

// Payment says that claims are paid: each is held first, and sold once its payment
// is confirmed. Its times are whole milliseconds.
type Payment struct {
	HoldFor  time.Duration // from the claim to the deadline that the buyer is told; MinHold to MaxHold
	Grace    time.Duration // from the deadline to the release of the units; 0, the default, to MaxGrace
	ExtendBy time.Duration // by how much a hold is extended, once; MinHold to MaxHold, or 0: no hold is extended
	Late     Late

	Check   *PaymentCheck   // nil: the payment service is not asked
	Webhook *PaymentWebhook // nil: it does not tell by itself
}

// Late is what comes of a payment that is confirmed after its hold has expired.
type Late string

// The ways with late payments.
const (
	LateRefuse Late = "refuse" // it buys nothing and is owed back
	LateResell Late = "resell" // it buys the units if they are still free, or others
)

// payment takes how claims are paid.
func (d *decoder) payment(v value) *Payment {
	o, ok := d.object(v, reflect.TypeFor[paymentPart]())
	if !ok {
		return nil
	}
	p := &Payment{
		HoldFor:  d.term(o, "holdFor", "10m", MinHold, MaxHold),
		Grace:    d.term(o, "grace", "30s", 0, MaxGrace),
		ExtendBy: d.term(o, "extendBy", "5m", MinHold, MaxHold),
	}
	p.Late, _ = choice(d, o, "late", LateRefuse, LateResell)
	if v, ok := d.value(o, "check"); ok {
		p.Check = d.paymentCheck(v)
	}
	if v, ok := d.value(o, "webhook"); ok {
		p.Webhook = d.paymentWebhook(v)
	}
	d.oneReference(o, p)
	return p
}

// term takes a duration from least to most; 0 if there is none, or a wrong one.
func (d *decoder) term(o object, key, example string, least, most time.Duration) time.Duration {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "a duration", fmt.Sprintf("Write a duration, such as %s: %s.", key, example)) {
		return 0
	}
	term, f := readTerm(v.node.Value, example, least, most)
	if f != nil {
		d.fault(v, f)
	}
	return term
}

// check holds a payment to what the rest of the program takes for granted.
func (p Payment) check() error {
	if err := p.Check.sane(); err != nil {
		return err
	}
	if err := p.Webhook.sane(); err != nil {
		return err
	}
	switch {
	case p.HoldFor <= 0 || p.Grace < 0 || p.ExtendBy < 0:
		return fmt.Errorf("the payment's holdFor of %v, grace of %v and extendBy of %v must not be negative, nor holdFor zero",
			p.HoldFor, p.Grace, p.ExtendBy)
	case p.HoldFor%time.Millisecond != 0 || p.Grace%time.Millisecond != 0 || p.ExtendBy%time.Millisecond != 0:
		return fmt.Errorf("the payment's holdFor of %v, grace of %v and extendBy of %v must be whole milliseconds",
			p.HoldFor, p.Grace, p.ExtendBy)
	case p.Late != LateRefuse && p.Late != LateResell:
		return fmt.Errorf("the payment's late %q is not known to this program: use a newer one", p.Late)
	}
	return nil
}
