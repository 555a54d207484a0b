package payments

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/executor"
)

// metrics are the collectors of a checker. The watches are counted on collection.
type metrics struct {
	watching    func() (n int, oldest time.Duration)
	checks      *prometheus.CounterVec
	seconds     prometheus.Histogram
	settlements *prometheus.CounterVec

	watched, oldest prometheus.GaugeFunc
}

func newMetrics(name string, watching func() (n int, oldest time.Duration)) *metrics {
	sale := prometheus.Labels{"sale": name}
	m := &metrics{
		watching: watching,
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
	gauge := func(name, help string, read func(n int, oldest time.Duration) float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, ConstLabels: sale, Help: help}, func() float64 { return read(m.watching()) })
	}
	m.watched = gauge("salectl_payment_watched", "Claims about which the payment service is asked.",
		func(n int, _ time.Duration) float64 { return float64(n) })
	m.oldest = gauge("salectl_payment_oldest_unanswered_seconds", "Longest time without an answer of the payment service about one of them.",
		func(_ int, oldest time.Duration) float64 { return oldest.Seconds() })
	for _, r := range results {
		m.checks.WithLabelValues(string(r))
	}
	return m
}

func (m *metrics) asked(r result, took time.Duration) {
	m.checks.WithLabelValues(string(r)).Inc()
	m.seconds.Observe(took.Seconds())
}

func (m *metrics) settled(how api.How, a executor.Answer) {
	outcome := a.Outcome
	if a.Replayed {
		outcome = api.Replayed
	}
	m.settlements.WithLabelValues(string(how), string(outcome)).Inc()
}

// Collectors returns the checker's metrics. Register them once.
func (c *Checker) Collectors() []prometheus.Collector { return c.machine.Collectors() }

// Collectors returns the machine's metrics. Register them once.
func (m *Machine) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.metrics.checks, m.metrics.seconds, m.metrics.settlements, m.metrics.watched, m.metrics.oldest}
}

// watched returns the machine's numbers of watches at this moment.
func (c *Checker) watched() (n int, oldest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.watched(c.cfg.Clock().Mono)
}

// watched returns the number of watches, and the longest time for which one of them has had no answer.
func (m *Machine) watched(now time.Duration) (n int, oldest time.Duration) {
	for _, w := range m.schedule.watches {
		oldest = max(oldest, now-w.answered)
	}
	return len(m.schedule.watches), oldest
}
