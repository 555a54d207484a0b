package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/sim/check"
)

// readMetrics records the metrics of all processes of a sale whose claims are held,
// unless one of the processes cannot answer for all shards.
func (w *world) readMetrics() {
	if w.scenario.payment == nil {
		return
	}
	for _, e := range w.executors {
		if !e.alive || e.paused || e.s.Ready(e.now()) != nil {
			return
		}
	}
	for _, e := range w.executors {
		uid, leases := e.s.Leases(e.now())
		r := check.Reading{Process: e.run, UID: uid, Shards: slices.Sorted(maps.Keys(leases)), Values: make(map[string]float64), Counted: maps.Clone(e.counted)}
		to := make(chan prometheus.Metric, 1024)
		e.s.Collect(e.now(), to)
		if e.checker != nil {
			for _, c := range e.checker.Collectors() {
				c.Collect(to)
			}
		}
		close(to)
		for m := range to {
			readMetric(r.Values, m)
		}
		w.hit("metrics read")
		w.history.Read(w.now, r)
	}
}

// readMetric adds the values of a metric, by its name and the values of its labels.
func readMetric(values map[string]float64, m prometheus.Metric) {
	var d dto.Metric
	if err := m.Write(&d); err != nil {
		panic(err)
	}
	name := strings.SplitN(m.Desc().String(), `"`, 3)[1]
	for _, l := range d.GetLabel() {
		if l.GetName() != "sale" {
			name += " " + l.GetValue()
		}
	}
	switch {
	case d.Gauge != nil:
		values[name] = d.GetGauge().GetValue()
	case d.Counter != nil:
		values[name] = d.GetCounter().GetValue()
	case d.Histogram != nil:
		values[name] = float64(d.GetHistogram().GetSampleCount())
		values[name+" sum"] = d.GetHistogram().GetSampleSum()
		for _, b := range d.GetHistogram().GetBucket() {
			values[fmt.Sprint(name, " ", b.GetUpperBound())] = float64(b.GetCumulativeCount())
		}
	}
}
