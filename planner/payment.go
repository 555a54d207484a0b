package planner

import (
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

// PaymentText describes a payment in one line, by the keys of a sale file.
func PaymentText(p *spec.Payment) string {
	var words []string
	for _, f := range options("", p) {
		if f.After != "" {
			words = append(words, f.Name+" "+f.After)
		}
	}
	return strings.Join(words, ", ")
}

func termText(d spec.Duration) string { return spec.FormatTerm(time.Duration(d)) }
