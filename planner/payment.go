package planner

import (
	"strconv"
	"strings"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Payment describes how claims are paid, in plans and statuses.
type Payment struct {
	HoldForMs  int64  `json:"holdForMs"`
	GraceMs    int64  `json:"graceMs"`
	ExtendByMs int64  `json:"extendByMs,omitempty"` // 0: holds are not extended
	Late       string `json:"late"`                 // refuse, resell

	UnpaidPerUser int64 `json:"unpaidPerUser,omitempty"` // 0: any number

	// The declared payment service, which shards do not know. A status has neither.
	Check   *spec.StoredCheck    `json:"check,omitempty"`   // nil: the service is not queried
	Webhook *spec.PaymentWebhook `json:"webhook,omitempty"` // nil: the service sends no webhooks
}

// withService adds the declared payment service to p. Nil stays nil: claims are not paid.
func (p *Payment) withService(declared *spec.Payment) *Payment {
	if p == nil || declared == nil {
		return p
	}
	p.Check, p.Webhook = declared.Check.Stored(), declared.Webhook
	return p
}

// paymentOf converts a declared payment to that of the shards' settings.
func paymentOf(p spec.Payment) *pb.Payment {
	late := pb.Payment_REFUSE
	if p.Late == spec.LateResell {
		late = pb.Payment_RESELL
	}
	return &pb.Payment{
		HoldForUs: p.HoldFor.Microseconds(), GraceUs: p.Grace.Microseconds(), ExtendByUs: p.ExtendBy.Microseconds(), Late: late,
		UnpaidPerUser: p.UnpaidPerUser,
	}
}

// paymentShown describes the payment of settings; nil if they sell at once.
func paymentShown(p *pb.Payment) *Payment {
	if p == nil {
		return nil
	}
	late := spec.LateRefuse
	if p.GetLate() == pb.Payment_RESELL {
		late = spec.LateResell
	}
	return &Payment{
		HoldForMs: p.GetHoldForUs() / 1000, GraceMs: p.GetGraceUs() / 1000, ExtendByMs: p.GetExtendByUs() / 1000, Late: string(late),
		UnpaidPerUser: p.GetUnpaidPerUser(),
	}
}

// list returns every attribute of a payment, absent ones as "".
func (p *Payment) list() []Field {
	holdFor, grace, extendBy, late, unpaid := "", "", "", "", ""
	if p != nil {
		holdFor, grace, late = termText(p.HoldForMs), termText(p.GraceMs), p.Late
		if p.ExtendByMs != 0 {
			extendBy = termText(p.ExtendByMs)
		}
		if p.UnpaidPerUser != 0 {
			unpaid = strconv.FormatInt(p.UnpaidPerUser, 10)
		}
	}
	fields := []Field{
		{Name: "payment.holdFor", After: holdFor}, {Name: "payment.grace", After: grace},
		{Name: "payment.extendBy", After: extendBy}, {Name: "payment.late", After: late},
		{Name: "payment.unpaidPerUser", After: unpaid},
	}
	return append(fields, p.service()...)
}

// service returns every attribute of the payment service, absent ones as "".
func (p *Payment) service() []Field {
	check, webhook, interval, timeout := new(spec.StoredCheck), new(spec.PaymentWebhook), "", ""
	if p != nil && p.Check != nil {
		check = p.Check
		interval, timeout = termText(check.IntervalMs), termText(check.TimeoutMs)
	}
	if p != nil && p.Webhook != nil {
		webhook = p.Webhook
	}
	fields := []Field{
		{Name: "payment.check.url", After: check.URL}, {Name: "payment.check.interval", After: interval},
		{Name: "payment.check.timeout", After: timeout}, {Name: "payment.check.success", After: check.Success},
		{Name: "payment.check.failure", After: check.Failure}, {Name: "payment.check.payment", After: check.Payment},
		{Name: "payment.check.tokenEnv", After: check.TokenEnv},
		{Name: "payment.webhook.secretsEnv", After: webhook.SecretsEnv}, {Name: "payment.webhook.success", After: webhook.Success},
		{Name: "payment.webhook.failure", After: webhook.Failure}, {Name: "payment.webhook.claim", After: webhook.Claim},
		{Name: "payment.webhook.payment", After: webhook.Payment},
	}
	for i := range fields {
		fields[i].After = strings.Join(strings.Fields(fields[i].After), " ") // an expression may span lines
	}
	return fields
}

// String describes the payment in one line, by the keys of a sale file.
func (p *Payment) String() string {
	var words []string
	for _, f := range p.list() {
		if f.After != "" {
			words = append(words, strings.TrimPrefix(f.Name, "payment.")+" "+f.After)
		}
	}
	return strings.Join(words, ", ")
}

func termText(ms int64) string { return spec.FormatTerm(time.Duration(ms) * time.Millisecond) }
