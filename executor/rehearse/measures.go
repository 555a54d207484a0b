package rehearse

import (
	"time"

	"salectl/api"
	"salectl/report/threshold"
)

// Measures are the metrics that thresholds of a rehearsal may name.
var Measures = threshold.Metrics{Latency: true, All: measures()}

func measures() []threshold.Metric {
	const requests = "requests"
	all := []threshold.Metric{
		{Name: "max", Kind: threshold.Duration, Says: "the longest latency"},
		{Name: "mean", Kind: threshold.Duration, Says: "the mean latency"},
		{Name: "duration", Kind: threshold.Duration, Says: "from the first request to the last answer of the crowd; where claims are paid, until the stories of all buyers are over"},
		{Name: "rate", Kind: threshold.Rate, Says: "requests of the crowd with their final answer, a second"},
		{Name: requests, Says: "claims, each once however often it was sent"},
		{Name: "retries", Of: requests, Says: "how often one was sent again"},
		{Name: "sold", Of: "stock", Says: "units that buyers were told of, and that they have at the end"},
		{Name: "given", Of: requests, Says: "claims that were accepted, each once"},
		{Name: "refused", Of: requests, Says: "claims that were refused for whatever reason"},
		{Name: "errors", Of: requests, Says: "claims without a decision: unknown, overloaded, foreign answers and similar"},
		{Name: "inversions_sold_out", Of: "given", Says: "claims that were given units although a request that was sent earlier, for no more, was told sold_out"},
		{Name: "largest_inversion_sold_out", Kind: threshold.Duration, Says: "by how much later at most one of those was sent"},
		{Name: "inversions_none_now", Of: "given", Says: "claims that were given units although a request that was sent earlier, for no more, was told none_now; where claims are paid, 0"},
		{Name: "largest_inversion_none_now", Kind: threshold.Duration, Says: "by how much later at most one of those was sent"},
		{Name: "refunds_due", Says: "payments that bought nothing"},
		{Name: string(api.Replayed), Of: requests, Says: "claims that had been accepted before"},
	}
	for _, row := range api.Outcomes() {
		if !row.Outcome.Accepted() {
			all = append(all, threshold.Metric{Name: string(row.Outcome), Of: requests, Says: "claims with that outcome"})
		}
	}
	return all
}

// Values returns the measured values. stock is the sale's.
func (r *Report) Values(stock int64) threshold.Values {
	of := map[string]float64{
		"stock":    float64(stock),
		"duration": r.DurationSeconds * 1000, "rate": r.ThroughputPerSecond,
		"max": r.LatencyMs.Max, "mean": float64(r.latency.mean()) / float64(time.Millisecond),
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
	return threshold.Values{Of: of, Latency: r.latency.ms}
}
