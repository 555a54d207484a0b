package executor

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/executor/shard"
)

// holdMetrics describe what became of claims that were held. All of it is read from the
// ledger's state when somebody asks, so that whoever takes a sale over tells the same.
// A sale that sells at once has none of them.
type holdMetrics struct {
	open, units, release *prometheus.Desc
	settled, owed        *prometheus.Desc
	lasted               *prometheus.Desc
}

func newHoldMetrics(sale prometheus.Labels) holdMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"shard"}, labels...), sale)
	}
	return holdMetrics{
		open:    desc("salectl_open_holds", "Claims that are held on the shard."),
		units:   desc("salectl_held_units", "Units in the shard's open holds."),
		release: desc("salectl_next_release_timestamp_seconds", "When the next hold of the shard is released, unless it is paid; no value while nothing is held."),
		settled: desc("salectl_settled_claims_total", "Claims of the ledger that were confirmed, expired, cancelled, extended, refunded, or resold to a late payment.", "how"),
		owed:    desc("salectl_refunds_due_total", "Payments that bought nothing and are owed back."),
		lasted:  desc("salectl_hold_seconds", "From a claim to the end of its hold."),
	}
}

func (m holdMetrics) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.open, m.units, m.release, m.settled, m.owed, m.lasted} {
		to <- d
	}
}

// collect tells of one shard.
func (m holdMetrics) collect(s shard.Status, tally shard.HoldTally, to chan<- prometheus.Metric) {
	label := strconv.Itoa(s.Shard)
	gauge := func(d *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
	}
	gauge(m.open, float64(s.Outcomes.OpenHolds))
	gauge(m.units, float64(s.Held))
	if !s.NextRelease.IsZero() {
		gauge(m.release, float64(s.NextRelease.UnixMilli())/1000)
	}
	for how, n := range map[string]int64{
		"confirmed": s.Outcomes.Confirmed, "expired": s.Outcomes.Expired, "cancelled": s.Outcomes.Cancelled,
		"refunded": s.Outcomes.Refunded, "resold": s.Outcomes.Resold, "extended": int64(tally.Extended),
	} {
		to <- prometheus.MustNewConstMetric(m.settled, prometheus.CounterValue, float64(n), label, how)
	}
	to <- prometheus.MustNewConstMetric(m.owed, prometheus.CounterValue, float64(s.Outcomes.RefundsDue), label)
	buckets := make(map[float64]uint64, len(shard.HoldBounds))
	for i, bound := range shard.HoldBounds {
		buckets[bound] = tally.Within[i]
	}
	to <- prometheus.MustNewConstHistogram(m.lasted, tally.Count, tally.Seconds, buckets, label)
}
