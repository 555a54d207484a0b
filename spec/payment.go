package spec

import (
	"cmp"
	"time"
)

// Payment configures payments: each claim is held, and sold once its payment is confirmed.
type Payment struct {
	// HoldFor is the time from the claim to the buyer's deadline.
	HoldFor Duration `yaml:"holdFor" json:"holdForMs" min:"1s" max:"24h" example:"10m" doc:"How long a claim is held for its payment, from the claim to the deadline that the buyer is told: {bounds}."`
	// Grace is the time from the deadline to the release of the units.
	Grace Duration `yaml:"grace,omitempty" json:"graceMs" min:"0s" max:"1h" default:"0s" example:"30s" doc:"How long after the deadline a payment still counts, before the units are for sale again: {bounds}."`
	// ExtendBy is the extension of a hold, once; 0: none.
	ExtendBy Duration `yaml:"extendBy,omitempty" json:"extendByMs,omitempty" min:"1s" max:"24h" example:"5m" doc:"By how much a hold may be extended, once: {bounds}. Without it: no hold is extended."`
	Late     Late     `yaml:"late,omitempty" json:"late" words:"refuse resell" default:"refuse" doc:"What a payment does that comes after the release. refuse: it buys nothing and is owed back. resell: it buys the same units if they are still free, else others; if there are none, it is owed back."`

	// UnpaidPerUser is the number of unpaid claims of a user, cancelled or expired, after which
	// claims are refused; 0, in declarations of older versions: any number.
	UnpaidPerUser int64 `yaml:"unpaidPerUser,omitempty" json:"unpaidPerUser,omitempty" max:"1000000" default:"1000" doc:"How many claims of a user may be cancelled or expire. Further claims of that user are refused with limit_reached, which bounds the space that unpaid claims take in the ledger."`

	// Check is nil if the payment service is not queried, Webhook if it sends no webhooks.
	Check   *PaymentCheck   `yaml:"check,omitempty" json:"check,omitempty" doc:"How the process that serves asks the payment service what became of a held claim's payment. Without it: nobody is asked."`
	Webhook *PaymentWebhook `yaml:"webhook,omitempty" json:"webhook,omitempty" doc:"How the payment service tells by itself, by Standard Webhooks. Without it: no webhook is taken."`
}

// Late is the effect of a payment that is confirmed after its hold has expired.
type Late string

// Values of Late.
const (
	LateRefuse Late = "refuse" // it buys nothing and is owed back
	LateResell Late = "resell" // it buys the same units if available, or others
)

// MinHold is the least time of a hold, DefaultUnpaid the default of UnpaidPerUser.
const (
	MinHold       = time.Second
	DefaultUnpaid = 1000
)

// sane checks what the rest of the program assumes about a payment.
func (p *Payment) sane() error {
	if p == nil {
		return nil
	}
	return cmp.Or(p.Check.sane(), p.Webhook.sane())
}
