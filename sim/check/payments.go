package check

import (
	"slices"
	"time"
)

// Service is a payment service: its payments, and its answers.
type Service struct {
	Checked bool          // the sale declares a check of the service
	Bound   time.Duration // within which the ledger has a payment, from its time or that of Calm on
	Calm    time.Duration // when the faults stopped
	Down    time.Duration // when the processes were signalled to go down; 0: they were not

	Payments []Payment // in order
	Calls    []Call    // in order
}

// Payment is one that was made at the service.
type Payment struct {
	Place
	Run       int64
	Claim     string // its id
	Reference string
	First     bool   // of its claim: checks receive this one
	Sent      bool   // a webhook reports it, until it is carried out
	Misread   bool   // a check was answered, wrongly, that it was not made yet
	Done      uint64 // Seq of when a process reported the webhook as carried out; 0: none has
}

// Call is the answer of the service to a process about a claim, whether or not it arrives: which
// payment paid it, or "", that it will not be paid.
type Call struct {
	Place
	Run       int64
	Claim     string
	Reference string
}

// Paid adds a payment, and returns its index.
func (h *History) Paid(at time.Duration, run int64, claim, reference string, first bool) int {
	h.Service.Payments = append(h.Service.Payments, Payment{Place: h.place(at), Run: run, Claim: claim, Reference: reference, First: first})
	return len(h.Service.Payments) - 1
}

// Called adds an answer of the service about a claim.
func (h *History) Called(at time.Duration, run int64, claim, reference string) {
	h.Service.Calls = append(h.Service.Calls, Call{h.place(at), run, claim, reference})
}

// CarriedOut adds that a process reported the webhook of a payment as carried out.
func (h *History) CarriedOut(at time.Duration, payment int) {
	if p := &h.Service.Payments[payment]; p.Done == 0 {
		p.Done = h.place(at).Seq
	}
}

// booking is a payment in the ledger.
type booking struct {
	of        *claim
	reference string
	due       bool // as a refund; else it has bought the claim
	at        *slot
}

// payments judges that each payment which the service counts as made is in the ledger, once:
// its claim is sold by it, or it is due as a refund; and that no claim is confirmed or cancelled
// without a report of the service, or of whoever confirms beside it.
func payments(e *evidence, bad fault) {
	s := e.h.Service
	if s == nil {
		return
	}
	booked := make(map[string]booking)
	for _, c := range e.claims {
		for _, b := range c.bookings {
			if e.strayed(c, b) {
				continue
			}
			if other, twice := booked[b.reference]; twice {
				bad("payment %q is in the ledger for %v (refund due: %v) at %v, and for %v (refund due: %v) at %v",
					b.reference, other.of, other.due, other.at, c, b.due, b.at)
			}
			booked[b.reference] = b
			if !e.called(c, b.reference, b.at) {
				bad("%v has payment %q in %v, of which the service had not told", c, b.reference, b.at)
			}
		}
		if c.cancelled != nil && (c.who == "payment check" || c.who == "payment webhook") && !e.called(c, "", c.cancelled) {
			bad("%v was cancelled by the %s in %v, and the service had not said that it would not be paid", c, c.who, c.cancelled)
		}
	}
	for _, p := range s.Payments {
		b, has := booked[p.Reference]
		switch due := max(p.At, s.Calm) + s.Bound; {
		case has && (b.of.id() != p.Claim || b.of.at.log.run.number != p.Run):
			bad("payment %q for claim %s of run %d is in the ledger for %v", p.Reference, p.Claim, p.Run, b.of)
		case p.Done != 0 && (!has || b.at.Seq > p.Done):
			bad("payment %q for claim %s of run %d was said to be carried out, and was not in the ledger", p.Reference, p.Claim, p.Run)
		case (!has || b.at.At > due) && e.owes(p, due):
			bad("payment %q for claim %s of run %d, made at %v, was not in the ledger at %v", p.Reference, p.Claim, p.Run, p.At, due)
		}
	}
}

// strayed reports whether a payment came into the books of a run by a confirm that was sent before
// the run began: the id of a claim is unique within its run only.
func (e *evidence) strayed(c *claim, b booking) bool {
	r := c.at.log.run
	return len(r.planned) > 0 && !e.reported(c, b.reference, b.at) && e.called(c, b.reference, r.planned[0].at)
}

// called reports whether the service, or whoever confirms claims beside it, has reported a payment
// for a claim before a slot was stored; "": that it will not be paid.
func (e *evidence) called(c *claim, reference string, before *slot) bool {
	if e.reported(c, reference, before) {
		return true
	}
	for _, o := range e.all(SettleInvoked) {
		if o.invoked.Claim == c.id() && o.invoked.Payment == reference && reference != "" && o.invoked.Seq < before.Seq {
			return true
		}
	}
	return false
}

// reported is called for the service alone.
func (e *evidence) reported(c *claim, reference string, before *slot) bool {
	run, id := c.at.log.run.number, c.id()
	return slices.ContainsFunc(e.h.Service.Calls, func(x Call) bool {
		return x.Run == run && x.Claim == id && x.Reference == reference && x.Seq < before.Seq
	})
}

// owes reports whether a payment has to be in the ledger at a time: its webhook is sent until it is
// carried out; or it was made while its claim was held, so that checks find it. The latter do not
// where the service has denied it, or another payment has bought the claim.
func (e *evidence) owes(p Payment, at time.Duration) bool {
	s := e.h.Service
	if s.Down == 0 || s.Down < at {
		return false
	}
	for _, c := range e.named(p.Claim) {
		r := c.at.log.run
		if r.number != p.Run {
			continue
		}
		if r.sealedAt != nil && r.sealedAt.At < at {
			return false
		}
		failed := slices.ContainsFunc(s.Calls, func(x Call) bool { return x.Run == p.Run && x.Claim == p.Claim && x.Reference == "" })
		sold := slices.ContainsFunc(c.bookings, func(b booking) bool { return !b.due && b.reference != p.Reference })
		return p.Sent || s.Checked && p.First && !p.Misread && c.stateAt(p.Seq) == "held" && !failed && !sold
	}
	return false
}
