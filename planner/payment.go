package planner

import (
	"strconv"
	"strings"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// paymentOf converts a declared payment to that of the shards' settings.
func paymentOf(p spec.Payment) *pb.Payment {
	late := pb.Payment_REFUSE
	if p.Late == spec.LateResell {
		late = pb.Payment_RESELL
	}
	return &pb.Payment{
		HoldForUs: time.Duration(p.HoldFor).Microseconds(), GraceUs: time.Duration(p.Grace).Microseconds(), ExtendByUs: time.Duration(p.ExtendBy).Microseconds(), Late: late,
		UnpaidPerUser: p.UnpaidPerUser,
	}
}

// paymentShown describes the payment of settings, without the payment service, which shards do
// not know; nil if they sell at once.
func paymentShown(p *pb.Payment) *spec.Payment {
	if p == nil {
		return nil
	}
	late := spec.LateRefuse
	if p.GetLate() == pb.Payment_RESELL {
		late = spec.LateResell
	}
	us := func(n int64) spec.Duration { return spec.Duration(n) * spec.Duration(time.Microsecond) }
	return &spec.Payment{
		HoldFor: us(p.GetHoldForUs()), Grace: us(p.GetGraceUs()), ExtendBy: us(p.GetExtendByUs()), Late: late,
		UnpaidPerUser: p.GetUnpaidPerUser(),
	}
}

// withService returns the payment of settings with the declared payment service. Nil stays
// nil: claims are not paid.
func withService(p, declared *spec.Payment) *spec.Payment {
	if p != nil && declared != nil {
		p.Check, p.Webhook = declared.Check, declared.Webhook
	}
	return p
}

// paymentFields returns every attribute of a payment, absent ones as "".
func paymentFields(p *spec.Payment) []Field {
	holdFor, grace, extendBy, late, unpaid := "", "", "", "", ""
	if p != nil {
		holdFor, grace, late = termText(p.HoldFor), termText(p.Grace), string(p.Late)
		if p.ExtendBy != 0 {
			extendBy = termText(p.ExtendBy)
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
	return append(fields, serviceFields(p)...)
}

// serviceFields returns every attribute of the payment service, absent ones as "".
func serviceFields(p *spec.Payment) []Field {
	check, webhook, interval, timeout := new(spec.PaymentCheck), new(spec.PaymentWebhook), "", ""
	if p != nil && p.Check != nil {
		check = p.Check
		interval, timeout = termText(check.Interval), termText(check.Timeout)
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

// PaymentText describes a payment in one line, by the keys of a sale file.
func PaymentText(p *spec.Payment) string {
	var words []string
	for _, f := range paymentFields(p) {
		if f.After != "" {
			words = append(words, strings.TrimPrefix(f.Name, "payment.")+" "+f.After)
		}
	}
	return strings.Join(words, ", ")
}

func termText(d spec.Duration) string { return spec.FormatTerm(time.Duration(d)) }
