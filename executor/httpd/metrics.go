package httpd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/wire"
)

// other is the label of an outcome that this package has never heard of.
const other api.Outcome = "other"

// metrics are the HTTP side's; queues, appends and units are the executor's.
type metrics struct {
	claims   *prometheus.CounterVec
	duration *prometheus.HistogramVec

	settlements *prometheus.CounterVec
	settling    *prometheus.HistogramVec

	webhooks   *prometheus.CounterVec
	delivering *prometheus.HistogramVec

	streams *prometheus.GaugeVec
}

// durations are from an answer out of memory to one that waits for its timeout.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newMetrics() *metrics {
	return &metrics{
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "salectl_http_claims_total",
			Help: "Claims answered over HTTP, by outcome. An accepted claim asked again counts as replayed.",
		}, []string{"sale", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "salectl_http_claim_duration_seconds",
			Help:    "Time from a claim's headers to its answer.",
			Buckets: durations,
		}, []string{"sale"}),
		settlements: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "salectl_http_settlements_total",
			Help: "Claims that were to be confirmed, extended, cancelled or refunded over HTTP, by the outcome. What had been done before counts as replayed.",
		}, []string{"sale", "how", "outcome"}),
		settling: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "salectl_http_settlement_duration_seconds",
			Help:    "Time from the headers of a confirm, extend, cancel or refund to its answer.",
			Buckets: durations,
		}, []string{"sale"}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "salectl_http_webhooks_total",
			Help: "Messages of payment services, by the outcome for their claim. ignored: it is about none. rejected: the service did not send it, or it was not understood.",
		}, []string{"sale", "outcome"}),
		delivering: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "salectl_http_webhook_duration_seconds",
			Help:    "Time from the headers of a payment service's message to its answer.",
			Buckets: durations,
		}, []string{"sale"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "salectl_http_streams",
			Help: "Streams that are open. The claims that come over them count as those that come one by one.",
		}, []string{"sale"}),
	}
}

// Collectors are the Server's metrics, for whoever has the registry.
func (s *Server) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.claims, s.metrics.duration, s.metrics.settlements, s.metrics.settling,
		s.metrics.webhooks, s.metrics.delivering, s.metrics.streams, ready{s}, feeds{s}, validity{s.certs}}
}

// ready tells for each sale whether it is ready, as /readyz does.
type ready struct{ *Server }

var readyDesc = prometheus.NewDesc("salectl_ready", "1 while this process can answer for every shard of the sale, as /readyz says.", []string{"sale"}, nil)

// Describe and Collect make ready a prometheus.Collector.
func (r ready) Describe(to chan<- *prometheus.Desc) { to <- readyDesc }

func (r ready) Collect(to chan<- prometheus.Metric) {
	for name, sale := range r.sales() {
		is := 0.
		if r.unready(sale) == "" {
			is = 1
		}
		to <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, is, name)
	}
}

// feeds tells who follows each sale.
type feeds struct{ *Server }

var (
	followersDesc = prometheus.NewDesc("salectl_feed_followers", "Programs that follow the feed of the sale here.", []string{"sale"}, nil)
	feedLagDesc   = prometheus.NewDesc("salectl_feed_lag_seconds", "Of the follower that is furthest behind, how old the newest commit was that it was told when it was told, "+
		"or how old is what it has not taken yet.", []string{"sale"}, nil)
)

// Describe and Collect make feeds a prometheus.Collector.
func (f feeds) Describe(to chan<- *prometheus.Desc) { to <- followersDesc; to <- feedLagDesc }

func (f feeds) Collect(to chan<- prometheus.Metric) {
	for name, sale := range f.sales() {
		n, lag := f.followers.of(sale)
		to <- prometheus.MustNewConstMetric(followersDesc, prometheus.GaugeValue, float64(n), name)
		if n > 0 {
			to <- prometheus.MustNewConstMetric(feedLagDesc, prometheus.GaugeValue, lag.Seconds(), name)
		}
	}
}

// validity tells from when until when the process's certificate is valid, if it has one.
type validity struct{ of *access.Certificates }

var (
	validFromDesc  = prometheus.NewDesc("salectl_tls_certificate_from_timestamp_seconds", "From when the certificate that the process shows is valid.", nil, nil)
	validUntilDesc = prometheus.NewDesc("salectl_tls_certificate_until_timestamp_seconds", "Until when the certificate that the process shows is valid.", nil, nil)
)

// Describe and Collect make validity a prometheus.Collector.
func (v validity) Describe(to chan<- *prometheus.Desc) { to <- validFromDesc; to <- validUntilDesc }

func (v validity) Collect(to chan<- prometheus.Metric) {
	from, until, ok := v.of.Validity()
	if !ok {
		return
	}
	to <- prometheus.MustNewConstMetric(validFromDesc, prometheus.GaugeValue, float64(from.Unix()))
	to <- prometheus.MustNewConstMetric(validUntilDesc, prometheus.GaugeValue, float64(until.Unix()))
}

// saleMetrics are one sale's counters. They are looked up once, and so are there
// with a zero before the first claim.
type saleMetrics struct {
	claims   map[api.Outcome]prometheus.Counter
	duration prometheus.Observer
	streams  prometheus.Gauge
}

func (m *metrics) of(sale string) saleMetrics {
	s := saleMetrics{
		claims:   make(map[api.Outcome]prometheus.Counter, len(api.Outcomes())+2),
		duration: m.duration.WithLabelValues(sale),
		streams:  m.streams.WithLabelValues(sale),
	}
	for _, row := range append(api.Outcomes(), api.Row{Outcome: api.Replayed}, api.Row{Outcome: other}) {
		s.claims[row.Outcome] = m.claims.WithLabelValues(sale, string(row.Outcome))
	}
	return s
}

// forget drops what was counted of a sale.
func (m *metrics) forget(sale string) {
	of := prometheus.Labels{"sale": sale}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.claims, m.duration, m.settlements, m.settling, m.webhooks, m.delivering, m.streams} {
		v.DeletePartialMatch(of)
	}
}

func (s *saleMetrics) claim(label api.Outcome, took time.Duration) {
	counter, ok := s.claims[label]
	if !ok {
		counter = s.claims[other]
	}
	counter.Inc()
	s.duration.Observe(took.Seconds())
}

// settlement counts an answer. Few sales settle claims, so what is counted has no zero
// before the first one.
func (m *metrics) settlement(sale string, how api.How, label api.Outcome, took time.Duration) {
	if !wire.Known(label) && label != api.Replayed {
		label = other
	}
	m.settlements.WithLabelValues(sale, string(how), string(label)).Inc()
	m.settling.WithLabelValues(sale).Observe(took.Seconds())
}

// webhook counts a message of a payment service.
func (m *metrics) webhook(sale string, label api.Outcome, took time.Duration) {
	if !wire.Known(label) && label != api.Replayed && label != ignored && label != rejected {
		label = other
	}
	m.webhooks.WithLabelValues(sale, string(label)).Inc()
	m.delivering.WithLabelValues(sale).Observe(took.Seconds())
}
