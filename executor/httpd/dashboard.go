package httpd

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/dashboard"
	"salectl/executor/status"
)

// look returns a sale's state for the dashboard. unready is the reason why some shard cannot sell.
func (sale *sale) look(unready string) dashboard.Look {
	status := sale.Status()
	l := dashboard.Look{View: sale.view(&status), About: status.About, Away: status.Away, Unready: unready}
	l.Answers, l.Took = sale.read()
	moving := make(map[int]bool)
	for _, m := range status.Moves {
		moving[m.Shard] = true
	}
	busy := busier(status.Shards)
	for i, one := range status.Shards {
		l.Shards = append(l.Shards, shardOf(&one, busy[i], moving[one.Shard]))
	}
	return l
}

func shardOf(s *executor.ShardStatus, busy, moving bool) dashboard.Shard {
	return dashboard.Shard{
		Shard: s.Shard, Known: !s.Unknown, Owner: s.Owner, Available: s.Available, Held: s.Held, Sold: s.Sold, InFlight: s.InFlight,
		Entries: s.Entries, Load: tenths(s.PerSecond), Waiting: s.Queue, Busy: busy, Stalled: s.Stall != nil || s.Stuck == status.Ledger,
		NoLease: s.NoLease, Moving: moving,
	}
}

// read returns the number of answered claims by outcome, and the distribution of their durations.
func (counts *saleMetrics) read() (map[api.Outcome]uint64, dashboard.Histogram) {
	answers := make(map[api.Outcome]uint64)
	for outcome, counter := range counts.claims {
		if n := written(counter).GetCounter().GetValue(); n > 0 {
			answers[outcome] = uint64(n)
		}
	}
	var took dashboard.Histogram
	h := written(counts.duration.(prometheus.Metric)).GetHistogram() // a HistogramVec has only such observers
	below := uint64(0)
	for _, b := range h.GetBucket() {
		took.Bounds = append(took.Bounds, b.GetUpperBound())
		took.Counts = append(took.Counts, b.GetCumulativeCount()-below)
		below = b.GetCumulativeCount()
	}
	took.Counts = append(took.Counts, h.GetSampleCount()-below)
	return answers, took
}

func written(m prometheus.Metric) *dto.Metric {
	var said dto.Metric
	if err := m.Write(&said); err != nil {
		panic(err) // unreachable: writing a counter or histogram does not fail
	}
	return &said
}
