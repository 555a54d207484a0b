package check

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
)

// measured is a sale of 6 units, of which one is sold, one held whose hold was extended, one was
// refunded and its payment returned, and one hold has expired whose payment came too late.
func measured(t testing.TB) *world {
	w := paid(t)
	sold, refunded, late := w.reserve(w.user(0), "k", 1), w.reserve(w.user(0), "k", 1), w.reserve(w.user(0), "k", 1)
	w.at += 300 * time.Millisecond
	w.confirm(sold, "p")
	w.confirm(refunded, "q")
	w.does(refunded, api.Refunded, "", Answer{Outcome: api.Refunded}, func(d *ledger.Draft) { d.Refund(refunded, "ann", "why", false) })
	w.does(sold, api.Sold, "r", Answer{Outcome: api.NotHeld, RefundDue: true}, func(d *ledger.Draft) { d.Late(sold, "r") })
	w.does(refunded, api.Returned, "q", Answer{Outcome: api.Returned}, func(d *ledger.Draft) { d.Return(refunded, "q", "ann", "why") })
	w.released()
	w.append(0, func(d *ledger.Draft) { d.Expire(late) })
	held := w.reserve(w.user(0), "k", 1)
	w.does(held, api.Held, "", Answer{Outcome: api.Held}, func(d *ledger.Draft) { d.Extend(held) })
	w.reads(nil)
	return w
}

// reads adds what the metrics of a process say, two seconds later, that has the lease of shard 0.
func (w *world) reads(change func(values map[string]float64)) {
	w.at += 2 * time.Second
	values := map[string]float64{
		"salectl_sale_stock_units": 6, "salectl_sale_available_units": 4, "salectl_sale_held_units": 1, "salectl_sale_sold_units": 1,
		"salectl_sale_moving_units": 0, "salectl_owned_shards": 1, "salectl_sale_open_holds": 1,
		"salectl_sale_settled_claims_total confirmed": 2, "salectl_sale_settled_claims_total expired": 1,
		"salectl_sale_settled_claims_total cancelled": 0, "salectl_sale_settled_claims_total refunded": 1,
		"salectl_sale_settled_claims_total resold": 0, "salectl_sale_refunds_due_total": 2, "salectl_sale_refunds_returned_total": 1,
		"salectl_extended_holds": 1, "salectl_hold_seconds": 3, "salectl_hold_seconds sum": 2.935,
		"salectl_hold_seconds 0.5": 2, "salectl_hold_seconds 1": 2, "salectl_hold_seconds 5": 3, "salectl_hold_seconds 15": 3,
		"salectl_hold_seconds 30": 3, "salectl_hold_seconds 60": 3,
		"salectl_sale_next_release_timestamp_seconds": 4.436,
		"salectl_payment_checks_total pending":        3,
	}
	if change != nil {
		change(values)
	}
	w.h.Read(w.pass(), Reading{
		Process: "executor-0, run 1", UID: w.uid, Shards: []int{0}, Values: values,
		Counted: map[string]float64{"salectl_payment_checks_total pending": 3},
	})
}

// TestReadings has metrics that are what the log adds up to.
func TestReadings(t *testing.T) {
	for _, p := range Check(measured(t).h) {
		t.Error(p)
	}
}

// readingFaults are planted into what metrics say.
var readingFaults = map[string]planted{
	"a hold that metrics count which has ended": {measured, func(w *world) {
		w.reads(func(values map[string]float64) { values["salectl_sale_open_holds"]++ })
	}, "readings"},
	"a hold that the histogram lacks": {measured, func(w *world) {
		w.reads(func(values map[string]float64) { delete(values, "salectl_hold_seconds 5") })
	}, "readings"},
	"a response that is counted as another": {measured, func(w *world) {
		w.reads(func(values map[string]float64) { values["salectl_payment_checks_total pending"]-- })
	}, "readings"},
}
