package rehearse

import (
	"net/http"
	"slices"

	"salectl/api"
	"salectl/backends/ledger/audit"
	"salectl/spec"
)

// Payment reports the results of held claims, each counted once under Held, and of their payments.
type Payment struct {
	// Terms are those of the rehearsal. Declared are those of the sale; nil means the same. The
	// caller sets Declared.
	Terms    spec.Payment  `json:"terms"`
	Declared *spec.Payment `json:"declared,omitempty"`

	Held       int `json:"held"`       // number of claims
	Paid       int `json:"paid"`       // paid in time, including those refunded since
	Abandoned  int `json:"abandoned"`  // never paid
	Cancelled  int `json:"cancelled"`  // cancelled before payment
	PaidLate   int `json:"paidLate"`   // paid after the release, or so near to it that either is possible
	Unresolved int `json:"unresolved"` // result unknown

	LateSold      int `json:"lateSold"`      // of PaidLate: sold nevertheless
	LateRefundDue int `json:"lateRefundDue"` // of PaidLate: the payment is owed back
	Extended      int `json:"extended"`      // claims with an extended deadline
	Disputed      int `json:"disputed"`      // claims with a second payment
	Refunded      int `json:"refunded"`      // by an operator
	RefundsDue    int `json:"refundsDue"`    // payments that bought nothing, or whose purchase was refunded

	Released  int64 `json:"released"`  // returned units, each as often as it returned
	SoldAgain int64 `json:"soldAgain"` // of Released: given to another buyer

	// HoldTimes reports how long units were held. A caller that can read the ledger sets it.
	HoldTimes *audit.HoldTimes `json:"holdTimes,omitempty"`
}

// leftOver checks that no unit stayed held, and that the buyers of returned units got them.
func (j *judge) leftOver(records []record, left leftOver) {
	if left.stuck > 0 {
		j.violated("%s held although every hold is over", spec.Subject(left.stuck, "unit", "is", "are"))
	}
	if j.unresolved {
		return // the number of returned units is unknown
	}
	came := make(map[string]bool, len(left.came))
	for _, k := range left.came {
		came[k.key] = true
	}
	for i := range records {
		if r := &records[i]; came[r.key] && !r.accepted() {
			j.violated("%s claimed a returned unit, and received %d %s", r.key, r.status, r.Outcome)
		}
	}
}

// paid counts the results of claims.
func paid(c Config, j *judge) *Payment {
	p := &Payment{Terms: c.Payment.Terms(), Held: len(j.plays), Released: j.reused + int64(len(j.free)), SoldAgain: j.reused}
	for _, v := range j.plays {
		owes := len(v.owed) > 0
		p.RefundsDue += len(v.owed)
		if slices.ContainsFunc(v.steps, func(s step) bool { return s.how == api.Extend && s.Outcome == api.Held && s.status == http.StatusOK }) {
			p.Extended++
		}
		switch {
		case v.state == api.Unknown:
			p.Unresolved++
			continue
		case v.state == api.Cancelled:
			p.Cancelled++
			continue
		case v.late:
			p.PaidLate++
			p.LateSold++
		case v.paid != "":
			p.Paid++
		case owes:
			p.PaidLate++
			p.LateRefundDue++
			continue
		default:
			p.Abandoned++
			continue
		}
		if owes {
			p.Disputed++
		}
		if v.state == api.Refunded {
			p.Refunded++
			p.RefundsDue++
		}
	}
	return p
}
