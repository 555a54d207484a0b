package planner

import (
	"strings"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Payment is how claims are paid, as plans and status tell it.
type Payment struct {
	HoldForMs  int64  `json:"holdForMs"`
	GraceMs    int64  `json:"graceMs"`
	ExtendByMs int64  `json:"extendByMs,omitempty"` // 0: no hold is extended
	Late       string `json:"late"`                 // refuse, resell
}

// paymentOf is how claims are paid, as shards know it.
func paymentOf(p spec.Payment) *pb.Payment {
	late := pb.Payment_REFUSE
	if p.Late == spec.LateResell {
		late = pb.Payment_RESELL
	}
	return &pb.Payment{
		HoldForUs: p.HoldFor.Microseconds(), GraceUs: p.Grace.Microseconds(), ExtendByUs: p.ExtendBy.Microseconds(), Late: late,
	}
}

// paymentShown is the payment of settings in force; nil if they sell at once.
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
	}
}

// list returns every attribute of a payment, absent ones as "".
func (p *Payment) list() []Field {
	holdFor, grace, extendBy, late := "", "", "", ""
	if p != nil {
		holdFor, grace, late = termText(p.HoldForMs), termText(p.GraceMs), p.Late
		if p.ExtendByMs != 0 {
			extendBy = termText(p.ExtendByMs)
		}
	}
	return []Field{
		{Name: "payment.holdFor", After: holdFor}, {Name: "payment.grace", After: grace},
		{Name: "payment.extendBy", After: extendBy}, {Name: "payment.late", After: late},
	}
}

// String is the payment in one line, by the keys of a sale file.
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
