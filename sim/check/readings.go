package check

import (
	"fmt"
	"math"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
)

// Reading has the metrics of a process at a time, by name and the values of labels.
type Reading struct {
	Place
	Process string
	UID     string // of the run of the sale
	Shards  []int  // whose leases it has
	Values  map[string]float64
	Counted map[string]float64 // what its payment checker did, as the world has counted it, by the same names
}

// Read adds a reading.
func (h *History) Read(at time.Duration, r Reading) {
	r.Place = h.place(at)
	h.Readings = append(h.Readings, r)
}

// reportDelay is how long a process may take to receive the reports of the shards of others.
const reportDelay = 1500 * time.Millisecond

// readings compares the metrics of the units, holds, payments and refunds of a sale with
// what its log adds up to. All processes answer for all shards; where something was stored just
// before, they need not know of it.
func readings(e *evidence, bad fault) {
	for i := range e.h.Readings {
		x := &e.h.Readings[i]
		for name, want := range x.Counted {
			if x.Values[name] != want {
				bad("%s says that %s is %v, it is %v", x.Process, name, x.Values[name], want)
			}
		}
		r := e.run(x.UID)
		if r == nil || len(r.planned) == 0 || r.restless(x) {
			continue
		}
		want := r.metrics(e, x)
		for name, n := range want {
			if got, has := x.Values[name]; !has || math.Abs(got-n) > 0.002 {
				bad("the metric %s of %s is %v (there: %v) at %v; by the log it is %v", name, x.Process, got, has, x.At, n)
			}
		}
	}
}

// restless reports whether a shard has no slot before a reading, or one that was stored just then.
func (r *run) restless(x *Reading) bool {
	for _, l := range r.shards {
		if s := l.at(x.Seq); s == nil || s.At > x.At-reportDelay || s.after.sealed {
			return true
		}
	}
	return false
}

// metrics returns the expected values of a reading.
func (r *run) metrics(e *evidence, x *Reading) map[string]float64 {
	var sum moment
	paid, settings := false, (*pb.Settings)(nil)
	own := make(map[int]bool)
	for _, i := range x.Shards {
		own[i] = true
	}
	ownPaid := false
	for i, l := range r.shards {
		m := &l.at(x.Seq).after
		sum.limit += m.limit
		sum.available += m.available
		sum.held += m.held
		sum.sold += m.sold
		sum.inFlight += m.inFlight
		sum.outcomes.add(m.outcomes)
		settings = m.settings
		paid = paid || settings.GetPayment() != nil
		ownPaid = ownPaid || own[i] && settings.GetPayment() != nil
	}
	want := map[string]float64{
		"salectl_sale_stock_units": float64(sum.limit), "salectl_sale_available_units": float64(sum.available),
		"salectl_sale_held_units": float64(sum.held), "salectl_sale_sold_units": float64(sum.sold), "salectl_sale_moving_units": float64(sum.inFlight),
		"salectl_owned_shards": float64(len(x.Shards)),
	}
	if !paid {
		return want
	}
	want["salectl_sale_open_holds"] = float64(sum.OpenHolds)
	for how, n := range map[string]int64{
		"confirmed": sum.Confirmed, "expired": sum.Expired, "cancelled": sum.Cancelled, "refunded": sum.Refunded, "resold": sum.Resold,
	} {
		want["salectl_sale_settled_claims_total "+how] = float64(n)
	}
	want["salectl_sale_refunds_due_total"] = float64(sum.RefundsDue)
	want["salectl_sale_refunds_returned_total"] = float64(sum.Returned)
	release := int64(math.MaxInt64)
	extended, ended, seconds := 0, 0, 0.
	for _, c := range e.claims {
		if c.at.log.run != r || c.deadline == 0 || c.again {
			continue
		}
		if c.state == "held" {
			release = min(release, c.deadline+c.grace)
		}
		if !own[c.at.log.shard] {
			continue
		}
		if c.extended {
			extended++
		}
		if c.heldTo != 0 {
			ended++
			seconds += float64(c.heldTo-c.heldFrom) / 1e6
			for _, bound := range []float64{.1, .5, 1, 5, 15, 30, 60} {
				if float64(c.heldTo-c.heldFrom)/1e6 <= bound {
					want[fmt.Sprint("salectl_hold_seconds ", bound)]++
				}
			}
		}
	}
	if release != math.MaxInt64 {
		want["salectl_sale_next_release_timestamp_seconds"] = float64(release/1000) / 1000
	}
	if ownPaid {
		want["salectl_extended_holds"], want["salectl_hold_seconds"], want["salectl_hold_seconds sum"] = float64(extended), float64(ended), seconds
	}
	return want
}
