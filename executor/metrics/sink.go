package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// describing makes the description of a metric that Collect reads.
type describing func(name, help string, labels ...string) *prometheus.Desc

// sink sends the metrics that were read.
type sink chan<- prometheus.Metric

func (to sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (to sink) count(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// time sends a time, if there is one.
func (to sink) time(d *prometheus.Desc, at time.Time) {
	if !at.IsZero() {
		to.gauge(d, float64(at.UnixMilli())/1000)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
