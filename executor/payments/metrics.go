package payments

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of a machine.
type metrics struct {
	checks      *prometheus.CounterVec
	seconds     prometheus.Histogram
	settlements *prometheus.CounterVec
}

func newMetrics(name string) *metrics {
	sale := prometheus.Labels{"sale": name}
	m := &metrics{
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "salectl_payment_checks_total", ConstLabels: sale,
			Help: "Requests to the payment service, by result.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "salectl_payment_check_seconds", ConstLabels: sale,
			Help:    "Duration of the payment service's answers, or of the wait for them.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 2, 15), // 1 ms to 16 s
		}),
		settlements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "salectl_payment_settlements_total", ConstLabels: sale,
			Help: "Confirms and cancels by answers of the payment service, by outcome.",
		}, []string{"how", "outcome"}),
	}
	for _, r := range results {
		m.checks.WithLabelValues(string(r))
	}
	return m
}

// Collectors returns the machine's counters. Register them once.
func (m *Machine) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.metrics.checks, m.metrics.seconds, m.metrics.settlements}
}

// Collectors returns the checker's metrics. Register them once. The watches are counted on collection.
func (c *Checker) Collectors() []prometheus.Collector {
	gauge := func(name, help string, read func(n int, oldest time.Duration) float64) prometheus.Collector {
		opts := prometheus.GaugeOpts{Name: name, ConstLabels: prometheus.Labels{"sale": c.sale.Sale()}, Help: help}
		return prometheus.NewGaugeFunc(opts, func() float64 { return read(c.watched()) })
	}
	return append(c.machine.Collectors(),
		gauge("salectl_payment_watched", "Claims about which the payment service is queried.",
			func(n int, _ time.Duration) float64 { return float64(n) }),
		gauge("salectl_payment_oldest_unanswered_seconds", "Longest time without an answer of the payment service about one of them.",
			func(_ int, oldest time.Duration) float64 { return oldest.Seconds() }),
	)
}

// watched returns the number of watches, and the longest time for which one of them has had no answer.
func (c *Checker) watched() (n int, oldest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock().Mono
	for _, w := range c.machine.schedule.watches {
		oldest = max(oldest, now-w.answered)
	}
	return len(c.machine.schedule.watches), oldest
}
