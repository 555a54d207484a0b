package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/ownership"
	"salectl/executor/process"
	"salectl/executor/shard"
)

// saleMetrics are those of the sale as a whole. Each process that shares it has the same, as far as it
// knows: it knows the shards of its peers from their updates. It leaves out what it does not know, since
// a zero would be believed.
type saleMetrics struct {
	info, phase, soldOut, shards, generation         *prometheus.Desc
	stock, available, held, sold, moving, limit      *prometheus.Desc
	opens, closes                                    *prometheus.Desc
	openHolds, release, settled, refundsDue, entries *prometheus.Desc
	ledgerUp, ledgerRead                             *prometheus.Desc
}

func newSaleMetrics(describe describing) saleMetrics {
	return saleMetrics{
		info:       describe("salectl_sale_info", "1, with the uid of the sale's run.", "uid"),
		phase:      describe("salectl_sale_phase", "1 for the phase that the sale is in, 0 for all others; unknown: the ledger cannot be read.", "phase"),
		soldOut:    describe("salectl_sale_sold_out", "1 while every unit is sold."),
		shards:     describe("salectl_sale_shards", "Shards of the sale: its lockCount."),
		generation: describe("salectl_sale_generation", "The newest generation: how often what the sale declares was applied."),
		stock:      describe("salectl_sale_stock_units", "Units added less those removed or retired."),
		available:  describe("salectl_sale_available_units", "Units for sale."),
		held:       describe("salectl_sale_held_units", "Units in claims that are held until they are paid."),
		sold:       describe("salectl_sale_sold_units", "Units sold."),
		moving:     describe("salectl_sale_moving_units", "Units on their way from one shard to another."),
		limit:      describe("salectl_sale_user_limit_units", "Units that one user may have: perUserLimit."),
		opens:      describe("salectl_sale_opens_timestamp_seconds", "When the sale opens; no value where it has no such hour."),
		closes:     describe("salectl_sale_closes_timestamp_seconds", "When the sale ends; no value where it has no such hour."),
		openHolds:  describe("salectl_sale_open_holds", "Claims that are held."),
		release: describe("salectl_sale_next_release_timestamp_seconds",
			"When the next hold is released, unless it is paid; no value while nothing is held."),
		settled: describe("salectl_sale_settled_claims_total",
			"Claims that were confirmed, expired, cancelled, refunded, or resold to a late payment, since the sale began.", "how"),
		refundsDue: describe("salectl_sale_refunds_due_total", "Payments that bought nothing and are owed back, since the sale began."),
		entries:    describe("salectl_sale_entries", "Entries of a draw, also those that have won."),
		ledgerUp:   describe("salectl_ledger_up", "1 while this process can read the sale's log."),
		ledgerRead: describe("salectl_ledger_read_timestamp_seconds", "When this process last read the sale's log."),
	}
}

// phases are those that a process which serves a sale may report.
var phases = []string{
	ledger.PhasePlanned, ledger.PhaseScheduled, ledger.PhaseOpen, ledger.PhaseStalled, ledger.PhasePaused,
	ledger.PhaseEnded, ledger.PhaseClosed, ledger.PhaseSealed, ledger.PhaseDestroyed, ledger.PhaseUnknown,
}

// collect sends the metrics of the sale, by what is known of its shards and of its log. away is the
// answer to claims on shards that cannot be reached.
func (m *saleMetrics) collect(s process.Status, away api.Outcome, h *ownership.Status, now time.Time, to sink) {
	is := phaseNow(s, away, h, now)
	for _, phase := range phases {
		to.gauge(m.phase, one(phase == is), phase)
	}
	if h.Unread != nil || !h.Logged.ReadAt.IsZero() {
		to.gauge(m.ledgerUp, one(h.Unread == nil))
		to.time(m.ledgerRead, h.Logged.ReadAt)
	}
	if l := h.Logged; l.Phase != "" {
		to.gauge(m.info, 1, l.UID)
		to.gauge(m.shards, float64(l.Shards))
		to.gauge(m.generation, float64(l.Generation))
		to.gauge(m.limit, float64(l.PerUser))
		to.time(m.opens, l.OpensAt)
		to.time(m.closes, l.ClosesAt)
	}
	// A shard that no peer reports as its own may be served by a process that this one does not reach.
	if s.Away == "" && !slices.Contains(h.Held, false) {
		m.collectUnits(s, to)
	}
}

// collectUnits sends the sums of all shards.
func (m *saleMetrics) collectUnits(s process.Status, to sink) {
	var sum shard.Status
	for _, x := range s.Shards {
		sum.Limit += x.Limit
		sum.Available += x.Available
		sum.Held += x.Held
		sum.Sold += x.Sold
		sum.InFlight += x.InFlight
		sum.Paid = sum.Paid || x.Paid
		sum.Outcomes.Add(x.Outcomes)
		if next := x.NextRelease; !next.IsZero() && (sum.NextRelease.IsZero() || next.Before(sum.NextRelease)) {
			sum.NextRelease = next
		}
	}
	to.gauge(m.soldOut, one(s.Draw == nil && sum.Limit > 0 && sum.Sold == sum.Limit))
	to.gauge(m.stock, float64(sum.Limit))
	to.gauge(m.available, float64(sum.Available))
	to.gauge(m.held, float64(sum.Held))
	to.gauge(m.sold, float64(sum.Sold))
	to.gauge(m.moving, float64(sum.InFlight))
	if s.Draw != nil {
		to.gauge(m.entries, float64(s.Draw.Entries))
	}
	if !sum.Paid {
		return
	}
	to.gauge(m.openHolds, float64(sum.Outcomes.OpenHolds))
	to.time(m.release, sum.NextRelease)
	for how, n := range map[string]int64{
		"confirmed": sum.Outcomes.Confirmed, "expired": sum.Outcomes.Expired, "cancelled": sum.Outcomes.Cancelled,
		"refunded": sum.Outcomes.Refunded, "resold": sum.Outcomes.Resold,
	} {
		to.count(m.settled, float64(n), how)
	}
	to.count(m.refundsDue, float64(sum.Outcomes.RefundsDue))
}

// phaseNow returns the phase of the sale: by its shards or, where not all of them are known, by its log.
func phaseNow(s process.Status, away api.Outcome, h *ownership.Status, now time.Time) string {
	phase := ledger.PhaseUnknown
	switch {
	case s.Away == "":
		phase = ledger.PhaseAt(s.Phase, s.OpensAt, s.ClosesAt, now)
	case h.Unread == nil && h.Logged.Phase != "":
		phase = ledger.PhaseAt(h.Logged.Phase, h.Logged.OpensAt, h.Logged.ClosesAt, now)
	}
	if phase == ledger.PhaseOpen && !s.Sells && (s.Away == "" || away == api.NoQuorum || h.Idle != "") {
		return ledger.PhaseStalled
	}
	return phase
}
