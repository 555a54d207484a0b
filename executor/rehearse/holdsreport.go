package rehearse

import (
	"fmt"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"salectl/api"
	"salectl/backends/ledger/audit"
	"salectl/spec"
)

// Payment is what became of the claims that were held, each counted once under held,
// and of their payments.
type Payment struct {
	// Terms are those of the rehearsal, Declared those of the sale, for whoever knows them
	// to fill in: nil, they are the same.
	Terms    Terms  `json:"terms"`
	Declared *Terms `json:"declared,omitempty"`

	Held       int `json:"held"`       // claims
	Paid       int `json:"paid"`       // in time; those that were refunded since are among them
	Abandoned  int `json:"abandoned"`  // never paid
	Cancelled  int `json:"cancelled"`  // given up before they were paid
	PaidLate   int `json:"paidLate"`   // after the release, or so near to it that either may be
	Unresolved int `json:"unresolved"` // nobody knows

	LateSold      int `json:"lateSold"`      // of those paid late: sold after all
	LateRefundDue int `json:"lateRefundDue"` // of those paid late: the payment is owed back
	Extended      int `json:"extended"`      // claims that got a later deadline
	Disputed      int `json:"disputed"`      // claims that a second payment came for
	Refunded      int `json:"refunded"`      // by an operator
	RefundsDue    int `json:"refundsDue"`    // payments that bought nothing, all of them

	Released  int64 `json:"released"`  // units that came back, each as often as it did
	SoldAgain int64 `json:"soldAgain"` // and were given to somebody else

	// HoldTimes is how long units lay in holds, for whoever can read the ledger to fill in.
	HoldTimes *audit.HoldTimes `json:"holdTimes,omitempty"`
}

// Terms are how claims are paid.
type Terms struct {
	HoldForMs  int64     `json:"holdForMs"`
	GraceMs    int64     `json:"graceMs"`
	ExtendByMs int64     `json:"extendByMs,omitempty"`
	Late       spec.Late `json:"late"`
}

// NewTerms returns a payment's terms.
func NewTerms(p spec.Payment) Terms {
	return Terms{p.HoldFor.Milliseconds(), p.Grace.Milliseconds(), p.ExtendBy.Milliseconds(), p.Late}
}

func (t Terms) String() string {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	s := fmt.Sprintf("holds of %s, grace %s", ms(t.HoldForMs), ms(t.GraceMs))
	if t.ExtendByMs > 0 {
		s += fmt.Sprintf(", extended by %s", ms(t.ExtendByMs))
	}
	return s + fmt.Sprintf(", late payments: %s", t.Late)
}

// leftOver checks that no unit stayed in a hold, and that those who came for the units
// that came back have them.
func (j *judge) leftOver(records []record, left leftOver) {
	if left.stuck > 0 {
		j.violated("%s held although every hold is over", are(left.stuck))
	}
	if j.unresolved {
		return // nobody knows how many there were
	}
	came := make(map[string]bool, len(left.came))
	for _, k := range left.came {
		came[k.key] = true
	}
	for i := range records {
		if r := &records[i]; came[r.key] && !r.accepted() {
			j.violated("%s came for a unit that had come back, and was told %d %s", r.key, r.status, r.Outcome)
		}
	}
}

func are(units int64) string {
	if units == 1 {
		return "1 unit is"
	}
	return spec.Grouped(units) + " units are"
}

// paid counts what became of the claims.
func paid(c Config, j *judge) *Payment {
	p := &Payment{Terms: NewTerms(*c.Payment), Held: len(j.plays), Released: j.reused + int64(len(j.free)), SoldAgain: j.reused}
	for _, v := range j.plays {
		owes := len(v.owed) > 0
		p.RefundsDue += len(v.owed)
		if slices.ContainsFunc(v.steps, func(s step) bool { return s.how == api.Extend && s.outcome == api.Held && s.status == http.StatusOK }) {
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
		}
	}
	return p
}

// writeText adds the rows for people.
func (p *Payment) writeText(rows *tabwriter.Writer) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(rows, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	n := func(n int) string { return spec.Grouped(int64(n)) }
	row("terms", "%s", p.Terms)
	if p.Declared != nil {
		row("", "shortened for the rehearsal; the sale has %s", *p.Declared)
	}
	row("held", "%s: %s paid in time, %s abandoned, %s cancelled, %s paid late%s",
		spec.Count(p.Held, "claim"), n(p.Paid), n(p.Abandoned), n(p.Cancelled), n(p.PaidLate), unresolved(p.Unresolved))
	row("paid late", "%s sold after all, %s owed back", n(p.LateSold), n(p.LateRefundDue))
	row("of the sold", "%s extended, %s paid twice by different payments, %s refunded", n(p.Extended), n(p.Disputed), n(p.Refunded))
	row("refunds due", "%s", spec.Count(p.RefundsDue, "payment"))
	row("came back", "%s, %s of them given to somebody else", spec.Count(p.Released, "unit"), spec.Grouped(p.SoldAgain))
	if h := p.HoldTimes; h != nil {
		row("in holds", "units lay p50 %s, p90 %s, p99 %s, max %s; %.1f unit-seconds in all",
			ms(1000*h.P50), ms(1000*h.P90), ms(1000*h.P99), ms(1000*h.Max), h.UnitSeconds)
	}
}

func unresolved(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", of %s nobody knows", spec.Grouped(int64(n)))
}
