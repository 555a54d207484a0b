package spec

import (
	"strings"
	"time"
)

// Payment configures payments: each claim is held, and sold once its payment is confirmed.
type Payment struct {
	// HoldFor is the time from the claim to the buyer's deadline.
	HoldFor Duration `yaml:"holdFor" json:"holdForMs" min:"1s" max:"24h" example:"10m" doc:"Time from the claim to the payment deadline: {bounds}."`
	// Grace is the time from the deadline to the release of the units.
	Grace Duration `yaml:"grace,omitempty" json:"graceMs" min:"0s" max:"1h" default:"0s" example:"30s" doc:"Time after the deadline in which payments still count; then units are released: {bounds}."`
	// ExtendBy is the extension of a hold, once; 0: none.
	ExtendBy Duration `yaml:"extendBy,omitempty" json:"extendByMs,omitempty" min:"1s" max:"24h" example:"5m" doc:"Extension of a hold, possible once: {bounds}. Without it: none."`
	Late     Late     `yaml:"late,omitempty" json:"late" words:"refuse resell" default:"refuse" doc:"Effect of a payment after the release. refuse: it is owed back. resell: it buys free units, if possible the same."`

	// UnpaidPerUser is the number of unpaid claims of a user, cancelled or expired, after which
	// claims are refused; 0, in declarations of older versions: any number.
	UnpaidPerUser int64 `yaml:"unpaidPerUser,omitempty" json:"unpaidPerUser,omitempty" max:"1000000" default:"1000" doc:"Maximum number of cancelled and expired claims per user. Further claims are refused with limit_reached."`

	// Check is nil if the payment service is not queried, Webhook if it sends no webhooks.
	Check   *PaymentCheck   `yaml:"check,omitempty" json:"check,omitempty" doc:"Queries to the payment service about held claims. Default: none."`
	Webhook *PaymentWebhook `yaml:"webhook,omitempty" json:"webhook,omitempty" doc:"Messages from the payment service, by Standard Webhooks. Default: none accepted."`
}

// String formats the options in one line, by the keys of a sale file.
func (p Payment) String() string {
	var words []string
	Each(&p, func(name, text string) {
		if text != "" {
			words = append(words, name+" "+text)
		}
	})
	return strings.Join(words, ", ")
}

// Terms returns p without its payment service.
func (p Payment) Terms() Payment {
	p.Check, p.Webhook = nil, nil
	return p
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

// PaymentWebhook configures webhooks of the payment service. Its expressions are in CEL.
type PaymentWebhook struct {
	// SecretsEnv is the environment variable with the keys of signatures.
	SecretsEnv string `yaml:"secretsEnv" json:"secretsEnv" form:"env" example:"PAYMENT_WEBHOOK_SECRETS" doc:"Environment variable with the signature keys, whsec_ and base64 each, separated by spaces."`
	// Success is true if a claim is paid, Failure if it will not be. "": unused.
	Success string `yaml:"success" json:"success" form:"cel" example:"event.type == 'payment.paid'" doc:"CEL over event (the JSON of the body), sale.name and sale.run. If true, the claim is confirmed."`
	Failure string `yaml:"failure,omitempty" json:"failure,omitempty" form:"cel" example:"event.type == 'payment.failed'" doc:"CEL like success; if true, the claim is cancelled. Default: unpaid claims expire."`
	// Claim is the claim's id, Payment the reference of the payment. "": the claim's id.
	Claim   string `yaml:"claim" json:"claim" form:"cel" example:"event.data.claim" doc:"CEL for the claim's id."`
	Payment string `yaml:"payment,omitempty" json:"payment,omitempty" form:"cel" example:"event.data.id" doc:"CEL for the payment's reference, the same as that of check. Default: the claim's id."`
}

// oneReference reports a check and a webhook that would record one payment under two
// references: the second report would be owed back.
func (d *decoder) oneReference(p *Payment) {
	o, ok := d.objects["spec.payment"]
	if !ok || p.Check == nil || p.Webhook == nil || (p.Check.Payment == "") == (p.Webhook.Payment == "") {
		return
	}
	has, lacks := "check", "webhook"
	if p.Check.Payment == "" {
		has, lacks = lacks, has
	}
	d.refuse(o.keys[lacks], "Write payment in both, so that both name the same reference, or in neither.",
		"%s has payment, but %s has not: the ledger would record one payment as two", join(o.path, has), join(o.path, lacks))
}
