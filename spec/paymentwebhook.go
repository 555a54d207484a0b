package spec

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
