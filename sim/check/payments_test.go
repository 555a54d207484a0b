package check

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// serviced is a sale whose claims are paid at a payment service, whose payments have to be in the
// ledger after ten seconds.
func serviced(t testing.TB) *world {
	w := paid(t)
	w.h.Service = &Service{Checked: true, Bound: 10 * time.Second}
	return w
}

// pays makes a payment for a claim at the service.
func (w *world) pays(c ledger.Claim, reference string) int {
	return w.h.Paid(w.pass(), w.run, c.ID(0), reference, true)
}

// calls has the service say that a payment paid a claim, or, "", that it will not be paid.
func (w *world) calls(c ledger.Claim, reference string) {
	w.h.Called(w.pass(), w.run, c.ID(0), reference)
}

// checks has a process confirm a claim by what the service said.
func (w *world) checks(c ledger.Claim, reference string) {
	w.calls(c, reference)
	w.append(0, func(d *ledger.Draft) { d.Confirm(c, reference) })
}

// owed has a process note that a payment is due as a refund, by what the service said.
func (w *world) owed(c ledger.Claim, reference string) {
	w.calls(c, reference)
	w.append(0, func(d *ledger.Draft) { d.Late(c, reference) })
}

// cancels has a process cancel a claim.
func (w *world) cancels(c ledger.Claim, who string) {
	w.append(0, func(d *ledger.Draft) { d.Cancel(c, who, "failure is true") })
}

func (w *world) expires(c ledger.Claim) {
	w.released()
	w.append(0, func(d *ledger.Draft) { d.Expire(c) })
}

// sameID begins the next run, and returns a claim there that has the id of one of the last.
func (w *world) sameID(c ledger.Claim) ledger.Claim {
	w.another()
	w.plan(0, 0, pb.Phase_OPEN)
	next := w.reserve(w.user(0), "k", 1)
	if next.ID(0) != c.ID(0) {
		w.t.Fatalf("the claim is %s, not %s", next.ID(0), c.ID(0))
	}
	return next
}

// goesDown ends the world a minute later.
func (w *world) goesDown() {
	w.at += time.Minute
	w.h.Service.Down = w.at
}

// TestToleratedPayments has payments that come into the ledger as they should, or need not.
func TestToleratedPayments(t *testing.T) {
	for name, do := range map[string]func(w *world, c ledger.Claim){
		"found by a check":      func(w *world, c ledger.Claim) { w.pays(c, "p"); w.checks(c, "p") },
		"due after the release": func(w *world, c ledger.Claim) { w.expires(c); w.pays(c, "p"); w.owed(c, "p") },
		"made after the release, and not told": func(w *world, c ledger.Claim) {
			w.expires(c)
			w.pays(c, "p")
		},
		"denied by the service": func(w *world, c ledger.Claim) {
			w.calls(c, "")
			w.cancels(c, "payment check")
			w.pays(c, "p")
		},
		"misread": func(w *world, c ledger.Claim) {
			w.h.Service.Payments[w.pays(c, "p")].Misread = true
			w.expires(c)
		},
		"of a claim that another payment bought": func(w *world, c ledger.Claim) {
			w.pays(c, "p")
			w.confirm(c, "q")
		},
		"confirmed by the shop":  func(w *world, c ledger.Claim) { w.pays(c, "p"); w.confirm(c, "p") },
		"carried out":            func(w *world, c ledger.Claim) { n := w.pays(c, "p"); w.checks(c, "p"); w.h.CarriedOut(w.pass(), n) },
		"cancelled by its buyer": func(w *world, c ledger.Claim) { w.cancels(c, "client-1") },
		"where nobody asks":      func(w *world, c ledger.Claim) { w.h.Service.Checked = false; w.pays(c, "p") },
		"confirmed late, in the next run": func(w *world, c ledger.Claim) {
			w.pays(c, "p")
			w.checks(c, "p")
			w.does(c, api.Sold, "p", Answer{Outcome: Lost}, nil)
			w.confirm(w.sameID(c), "p")
		},
		"confirmed by the shop, and late in the next run": func(w *world, c ledger.Claim) {
			w.confirm(c, "p")
			w.confirm(w.sameID(c), "p")
		},
		"of a world without rest": func(w *world, c ledger.Claim) { w.pays(c, "p"); w.h.Service.Down = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := serviced(t)
			do(w, w.reserve(w.user(0), "k", 1))
			if w.h.Service.Down == 0 {
				w.goesDown()
			}
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// paymentFaults are planted into what became of payments.
var paymentFaults = map[string]planted{
	"a payment made at the service that is lost": {serviced, func(w *world) {
		w.pays(w.reserve(w.user(0), "k", 1), "p")
		w.goesDown()
	}, "payments"},
	"a payment that a check of the next run takes for its own": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.pays(c, "p")
		w.checks(c, "p")
		w.checks(w.sameID(c), "p")
	}, "payments"},
	"a payment that is confirmed once in each of two runs": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.pays(c, "p")
		w.checks(c, "p")
		w.confirm(w.sameID(c), "p")
	}, "payments"},
	"a payment that is lost as its claim is cancelled": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.pays(c, "p")
		w.cancels(c, "client-1")
		w.goesDown()
	}, "payments"},
	"a payment whose webhook is sent, lost after the release": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.expires(c)
		w.h.Service.Payments[w.pays(c, "p")].Sent = true
		w.goesDown()
	}, "payments"},
	"a payment that comes into the ledger too late": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.pays(c, "p")
		w.expires(c)
		w.at += 11 * time.Second
		w.owed(c, "p")
		w.goesDown()
	}, "payments"},
	"a webhook said to be carried out that was not": {serviced, func(w *world) {
		w.h.CarriedOut(w.pass(), w.pays(w.reserve(w.user(0), "k", 1), "p"))
	}, "payments"},
	"a webhook carried out after that was said": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.h.CarriedOut(w.pass(), w.pays(c, "p"))
		w.checks(c, "p")
	}, "payments"},
	"a claim confirmed that the service has not called paid": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.append(0, func(d *ledger.Draft) { d.Confirm(c, "p") })
		w.calls(c, "p")
	}, "settlements payments"},
	"a claim confirmed by the payment of another": {serviced, func(w *world) {
		c, other := w.reserve(w.user(0), "k", 1), w.reserve(w.user(0), "k", 1)
		w.pays(other, "p")
		w.confirm(c, "p") // by the shop, for the wrong one
	}, "payments"},
	"two claims bought by one payment": {serviced, func(w *world) {
		c, other := w.reserve(w.user(0), "k", 1), w.reserve(w.user(0), "k", 1)
		w.pays(c, "p")
		w.checks(c, "p")
		w.checks(other, "p")
	}, "payments"},
	"a payment that bought its claim and is due as a refund": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.pays(c, "p")
		w.checks(c, "p")
		w.plantSettle(c, pb.Settle_REFUND_DUE, func(op *pb.Settle) { op.Payment = "p" })
	}, "units payments"},
	"a claim cancelled that the service has not called unpaid": {serviced, func(w *world) {
		w.cancels(w.reserve(w.user(0), "k", 1), "payment check")
	}, "payments"},
	"a claim cancelled by a webhook before it was sent": {serviced, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.cancels(c, "payment webhook")
		w.calls(c, "")
	}, "payments"},
}
