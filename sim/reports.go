package sim

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/sim/check"
)

// scheduleReports has some processes report their status and metrics at some times, and all of
// them when the world is at rest. It changes nothing.
func (w *world) scheduleReports() {
	r := w.Options.random(forReports, 0)
	for range 16 + r.IntN(8) {
		n := r.IntN(len(w.executors))
		w.at(r.between(w.Until/20, w.Until+20*time.Second), func() { w.executors[n].report(false) })
	}
}

// report takes down what a process reports of itself. One that stands still reports nothing.
func (e *server) report(idle bool) {
	if !e.alive || e.paused || e.w.over && !idle {
		return
	}
	to := make(chan prometheus.Metric, 1<<12)
	e.s.Collect(e.now(), to)
	close(to)
	s := e.s.Status()
	r := check.Report{
		Process: e.run, Writer: string(e.me), UID: s.UID, Whole: s.Outcome == "", Idle: idle, Metrics: make(map[string]float64),
	}
	for _, x := range s.Shards {
		if x.Unknown {
			continue
		}
		o := x.Outcomes
		r.Shards = append(r.Shards, check.ShardReport{
			Shard: x.Shard, Slot: x.Next - 1, Epoch: x.Epoch, Generation: x.Generation,
			Limit: x.Limit, Available: x.Available, Held: x.Held, Sold: x.Sold, InFlight: x.InFlight, Entries: x.Entries,
			OpenHolds: o.OpenHolds, Confirmed: o.Confirmed, Expired: o.Expired, Cancelled: o.Cancelled, Refunded: o.Refunded, Resold: o.Resold,
			RefundsDue: o.RefundsDue, Returned: o.Returned,
		})
	}
	for m := range to {
		name, value := sample(m)
		r.Metrics[name] = value
	}
	e.w.history.Reported(e.w.now, r)
	e.w.hit("report")
}

// sample returns the name of a metric, behind a blank the values of its labels but sale, and its
// value; of a histogram, how many it has observed.
func sample(m prometheus.Metric) (name string, value float64) {
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		panic(err)
	}
	_, name, _ = strings.Cut(m.Desc().String(), `fqName: "`)
	name, _, _ = strings.Cut(name, `"`)
	for _, label := range d.GetLabel() {
		if label.GetName() != "sale" {
			name += " " + label.GetValue()
		}
	}
	return name, d.GetGauge().GetValue() + d.GetCounter().GetValue() + float64(d.GetHistogram().GetSampleCount())
}
