package spec

import (
	"fmt"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"
)

// Payment configures payments: each claim is held, and sold once its payment is confirmed.
type Payment struct {
	// HoldFor is the time from the claim to the buyer's deadline; MinHold to MaxHold.
	HoldFor Duration `yaml:"holdFor" json:"holdForMs" jsonschema:"example=10m" jsonschema_description:"Time from the claim to the payment deadline, 1s to 24h."`
	// Grace is the time from the deadline to the release of the units; 0 (default) to MaxGrace.
	Grace Duration `yaml:"grace,omitempty" json:"graceMs" jsonschema:"example=30s" jsonschema_description:"Time after the deadline in which payments still count; then units are released. Up to 1h."`
	// ExtendBy is the extension of a hold, once; MinHold to MaxHold, or 0: none.
	ExtendBy Duration `yaml:"extendBy,omitempty" json:"extendByMs,omitempty" jsonschema:"example=5m" jsonschema_description:"Extension of a hold, possible once, 1s to 24h. Default: none."`
	Late     Late     `yaml:"late,omitempty" json:"late" jsonschema_description:"Effect of a payment after the release. refuse: it is owed back. resell: it buys free units, if possible the same."`

	// UnpaidPerUser is the number of unpaid claims of a user, cancelled or expired, after which
	// claims are refused; 0, in declarations of older versions: any number.
	UnpaidPerUser int64 `yaml:"unpaidPerUser,omitempty" json:"unpaidPerUser,omitempty" jsonschema_description:"Maximum number of cancelled and expired claims per user. Further claims are refused with limit_reached."`

	// Check is nil if the payment service is not queried, Webhook if it sends no webhooks.
	Check   *PaymentCheck   `yaml:"check,omitempty" json:"check,omitempty" jsonschema_description:"Queries to the payment service about held claims. Default: none."`
	Webhook *PaymentWebhook `yaml:"webhook,omitempty" json:"webhook,omitempty" jsonschema_description:"Messages from the payment service, by Standard Webhooks. Default: none accepted."`
}

// Late is the effect of a payment that is confirmed after its hold has expired.
type Late string

// Values of Late.
const (
	LateRefuse Late = "refuse" // it buys nothing and is owed back
	LateResell Late = "resell" // it buys the same units if available, or others
)

// Limits of a payment.
const (
	MinHold  = time.Second // of a hold, and of its extension
	MaxHold  = 24 * time.Hour
	MaxGrace = time.Hour

	DefaultUnpaid = 1000 // claims of a user
	MaxUnpaid     = 1_000_000
)

func (Payment) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "grace").Default = FormatTerm(0)
	choices(s, "late", LateRefuse, LateResell)
	bound(s, "unpaidPerUser", MaxUnpaid, DefaultUnpaid)
}

// payment decodes the payment.
func (d *decoder) payment(spec object) *Payment {
	o, ok := d.part(spec, "payment", reflect.TypeFor[Payment]())
	if !ok {
		return nil
	}
	p := &Payment{
		HoldFor:  d.term(o, "holdFor", "10m", MinHold, MaxHold),
		Grace:    d.term(o, "grace", "30s", 0, MaxGrace),
		ExtendBy: d.term(o, "extendBy", "5m", MinHold, MaxHold),
	}
	p.Late, _ = choice(d, o, "late", LateRefuse, LateResell)
	p.UnpaidPerUser = DefaultUnpaid
	if v, ok := d.value(o, "unpaidPerUser"); ok {
		p.UnpaidPerUser, _ = d.number(v, 1, MaxUnpaid)
	}
	p.Check, p.Webhook = d.paymentCheck(o), d.paymentWebhook(o)
	d.oneReference(o, p)
	return p
}

// part returns the payment as in a document, without defaults.
func (p *Payment) part() *Payment {
	if p == nil {
		return nil
	}
	part := *p
	part.Late, part.UnpaidPerUser = unless(LateRefuse, p.Late), unless(DefaultUnpaid, p.UnpaidPerUser)
	part.Check = p.Check.part()
	return &part
}

// sane checks what the rest of the program assumes about a payment.
func (p *Payment) sane() error {
	if p == nil {
		return nil
	}
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
	case !p.HoldFor.isWhole() || !p.Grace.isWhole() || !p.ExtendBy.isWhole():
		return fmt.Errorf("the payment's holdFor of %v, grace of %v and extendBy of %v must be whole milliseconds",
			p.HoldFor, p.Grace, p.ExtendBy)
	case p.UnpaidPerUser < 0:
		return fmt.Errorf("the payment's unpaidPerUser of %d must not be negative", p.UnpaidPerUser)
	case p.Late != LateRefuse && p.Late != LateResell:
		return fmt.Errorf("the payment's late %q is not known to this program: use a newer one", p.Late)
	}
	return nil
}
