package executor

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are an executor's collectors. What a shard has at the moment is read
// from it when somebody asks, so that selling costs no gauge.
type metrics struct {
	e      *Executor
	append *prometheus.HistogramVec
	queue  *prometheus.HistogramVec
	doubt  *prometheus.CounterVec
	terms  *prometheus.CounterVec
	gauges map[string]*prometheus.Desc
}

// shardMetrics are those of one shard, with their labels looked up.
type shardMetrics struct {
	append, queue prometheus.Observer
	doubt         prometheus.Counter
}

func newMetrics(e *Executor) *metrics {
	sale := prometheus.Labels{"sale": e.cfg.Sale}
	seconds := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: sale, Buckets: seconds,
		}, []string{"shard"})
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: sale}, []string{label})
	}
	m := &metrics{
		e:      e,
		append: histogram("salectl_append_seconds", "How long a shard's append took to return."),
		queue:  histogram("salectl_queue_seconds", "From queue to answer, of the request of a batch that waited longest."),
		doubt:  counter("salectl_appends_in_doubt_total", "Appends whose outcome had to be read back.", "shard"),
		terms:  counter("salectl_tenures_total", "Times this process began or stopped to own the sale.", "event"),
		gauges: make(map[string]*prometheus.Desc),
	}
	for name, help := range map[string]string{
		"salectl_available_units": "Units for sale on the shard.",
		"salectl_sold_units":      "Units sold on the shard.",
		"salectl_queue_depth":     "Requests that wait on the shard.",
		"salectl_owner":           "1 while this process may append to the shard.",
		"salectl_stalled":         "1 while the outcome of the shard's append has been unknown for long.",
		"salectl_shard_bytes":     "Size of the shard's log.",
	} {
		m.gauges[name] = prometheus.NewDesc(name, help, []string{"shard"}, sale)
	}
	return m
}

func (m *metrics) shard(shard int) *shardMetrics {
	label := strconv.Itoa(shard)
	return &shardMetrics{
		append: m.append.WithLabelValues(label), queue: m.queue.WithLabelValues(label),
		doubt: m.doubt.WithLabelValues(label),
	}
}

func (m *shardMetrics) appended(d time.Duration, err error) {
	m.append.Observe(d.Seconds())
	if err != nil {
		m.doubt.Inc()
	}
}

func (m *shardMetrics) answered(oldest time.Duration) { m.queue.Observe(oldest.Seconds()) }

// Describe and Collect make metrics a prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range []prometheus.Collector{m.append, m.queue, m.doubt, m.terms} {
		c.Describe(to)
	}
	for _, d := range m.gauges {
		to <- d
	}
}

// Collect sends the state of each shard along with the counters.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.append, m.queue, m.doubt, m.terms} {
		c.Collect(to)
	}
	t := m.e.tenure.Load()
	if t == nil {
		return
	}
	for _, shard := range t.shards {
		s := shard.status()
		gauge := func(name string, v float64) {
			to <- prometheus.MustNewConstMetric(m.gauges[name], prometheus.GaugeValue, v, strconv.Itoa(s.Shard))
		}
		gauge("salectl_available_units", float64(s.Available))
		gauge("salectl_sold_units", float64(s.Sold))
		gauge("salectl_queue_depth", float64(s.Queue))
		gauge("salectl_owner", one(s.Owned))
		gauge("salectl_stalled", one(s.Stalled))
		gauge("salectl_shard_bytes", float64(s.Bytes))
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
