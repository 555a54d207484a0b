package rehearse

import (
	"time"

	"salectl/api"
	"salectl/report/threshold"
)

// Measures are the metrics that thresholds of a rehearsal may name; docs/reports.md describes them.
var Measures = threshold.Metrics{Latency: true, All: measures()}

func measures() []threshold.Metric {
	const requests = "requests"
	all := []threshold.Metric{
		{Name: "max", Unit: threshold.Duration},
		{Name: "mean", Unit: threshold.Duration},
		{Name: "duration", Unit: threshold.Duration},
		{Name: "rate", Unit: threshold.Rate},
		{Name: requests},
		{Name: "retries", Of: requests},
		{Name: "sold", Of: "stock"},
		{Name: "given", Of: requests},
		{Name: "refused", Of: requests},
		{Name: "errors", Of: requests},
		{Name: "inversions_sold_out", Of: "given"},
		{Name: "largest_inversion_sold_out", Unit: threshold.Duration},
		{Name: "inversions_none_now", Of: "given"},
		{Name: "largest_inversion_none_now", Unit: threshold.Duration},
		{Name: "refunds_due"},
		{Name: string(api.Replayed), Of: requests},
	}
	for _, row := range api.Outcomes() {
		if !row.Outcome.Accepted() {
			all = append(all, threshold.Metric{Name: string(row.Outcome), Of: requests})
		}
	}
	return all
}

// Values returns the measured values. stock is the sale's.
func (r *Report) Values(stock int64) threshold.Values {
	latency, sum := latenciesOf(r.Attempts), time.Duration(0)
	for _, took := range latency {
		sum += took
	}
	mean := sum / time.Duration(max(len(latency), 1))
	of := map[string]float64{
		"stock":    float64(stock),
		"duration": r.Timing.DurationSeconds * 1000, "rate": r.Timing.ThroughputPerSecond,
		"max": r.Timing.LatencyMs.Max, "mean": float64(mean) / float64(time.Millisecond),
		"requests": float64(r.Requests), "retries": float64(r.Retries), "sold": float64(r.UnitsSold),
	}
	for outcome, n := range r.Outcomes {
		switch KindOf(outcome) {
		case Given:
			of["given"] += float64(n)
			continue // the metric with its name counts units
		case NoneLeft, AtLimit, Refused:
			of["refused"] += float64(n)
		case Undecided:
			of["errors"] += float64(n)
		}
		of[outcome] = float64(n)
	}
	if f := r.Fairness; f != nil {
		of["inversions_sold_out"], of["largest_inversion_sold_out"] = float64(f.SoldOut.Inversions), f.SoldOut.LargestMs
		if n := f.NoneNow; n != nil {
			of["inversions_none_now"], of["largest_inversion_none_now"] = float64(n.Inversions), n.LargestMs
		}
	}
	if p := r.Payment; p != nil {
		of["refunds_due"] = float64(p.RefundsDue)
	}
	return threshold.Values{Of: of, Latency: latency.ms}
}
