package httpd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
)

// other is the label of an outcome that is not in the table.
const other api.Outcome = "other"

// metrics are the HTTP metrics; the executor has those of queues, appends and units.
type metrics struct {
	claims, settlements, webhooks  *prometheus.CounterVec
	duration, settling, delivering *prometheus.HistogramVec
}

// durations range from an answer from memory to a timeout.
var durations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"sale"}, labels...))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durations}, []string{"sale"})
	}
	return &metrics{
		claims: counter("salectl_http_claims_total",
			"Claims answered over HTTP, by outcome. An accepted claim requested again counts as replayed.", "outcome"),
		duration: histogram("salectl_http_claim_duration_seconds", "Time from a claim's headers to its answer."),
		settlements: counter("salectl_http_settlements_total",
			"Settlements of claims over HTTP, by outcome. A repeated one counts as replayed.", "how", "outcome"),
		settling: histogram("salectl_http_settlement_duration_seconds", "Time from the headers of a confirm, extend, cancel or refund to its answer."),
		webhooks: counter("salectl_http_webhooks_total",
			"Messages of payment services, by the outcome of their claim. ignored: it concerns no claim. rejected: not signed by the service, or invalid.", "outcome"),
		delivering: histogram("salectl_http_webhook_duration_seconds", "Time from the headers of a payment service's message to its answer."),
	}
}

// saleMetrics are the metrics of one sale. The counters of claims exist from the start, with zero.
// The others exist from the first answer on, since few sales have settlements or webhooks.
type saleMetrics struct {
	metrics  *metrics
	sale     string
	claims   map[api.Outcome]prometheus.Counter // by label
	duration prometheus.Observer
}

func (metrics *metrics) of(sale string) *saleMetrics {
	s := &saleMetrics{
		metrics: metrics, sale: sale,
		claims:   make(map[api.Outcome]prometheus.Counter, len(api.Outcomes())+2),
		duration: metrics.duration.WithLabelValues(sale),
	}
	for _, row := range append(api.Outcomes(), api.Row{Outcome: api.Replayed}, api.Row{Outcome: other}) {
		s.claims[row.Outcome] = metrics.claims.WithLabelValues(sale, string(row.Outcome))
	}
	return s
}

// all returns all metric vectors.
func (metrics *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{metrics.claims, metrics.duration, metrics.settlements, metrics.settling, metrics.webhooks, metrics.delivering}
}

// forget removes the metrics of a sale.
func (metrics *metrics) forget(sale string) {
	of := prometheus.Labels{"sale": sale}
	for _, v := range metrics.all() {
		v.(interface{ DeletePartialMatch(prometheus.Labels) int }).DeletePartialMatch(of)
	}
}

// Count counts an answer to a settlement or, if how is "", to a claim.
func (counts *saleMetrics) Count(how api.How, label api.Outcome, took time.Duration) {
	if counts.claims[label] == nil {
		label = other
	}
	if how == "" {
		counts.claims[label].Inc()
		counts.duration.Observe(took.Seconds())
		return
	}
	counts.metrics.settlements.WithLabelValues(counts.sale, string(how), string(label)).Inc()
	counts.metrics.settling.WithLabelValues(counts.sale).Observe(took.Seconds())
}

// countWebhook counts a message of a payment service.
func (counts *saleMetrics) countWebhook(_ api.How, label api.Outcome, took time.Duration) {
	if counts.claims[label] == nil && label != ignored && label != rejected {
		label = other
	}
	counts.metrics.webhooks.WithLabelValues(counts.sale, string(label)).Inc()
	counts.metrics.delivering.WithLabelValues(counts.sale).Observe(took.Seconds())
}

// Collectors returns the metrics of the Server. Register them once.
func (server *Server) Collectors() []prometheus.Collector {
	return append(server.metrics.all(), states{server})
}

// states collects values at the time of a scrape.
type states struct{ *Server }

var (
	readyDesc     = prometheus.NewDesc("salectl_ready", "1 while this process can answer for every shard of the sale, as /readyz reports.", []string{"sale"}, nil)
	streamsDesc   = prometheus.NewDesc("salectl_http_streams", "Streams that are open. The claims that come over them count as those that come one by one.", []string{"sale"}, nil)
	followersDesc = prometheus.NewDesc("salectl_feed_followers", "Programs that follow the feed of the sale here.", []string{"sale"}, nil)
	feedLagDesc   = prometheus.NewDesc("salectl_feed_lag_seconds", "Lag of the slowest follower: age of the newest commit when it was delivered, "+
		"or age of the oldest undelivered one.", []string{"sale"}, nil)
	validFromDesc  = prometheus.NewDesc("salectl_tls_certificate_from_timestamp_seconds", "From when the certificate that the process shows is valid.", nil, nil)
	validUntilDesc = prometheus.NewDesc("salectl_tls_certificate_until_timestamp_seconds", "Until when the certificate that the process shows is valid.", nil, nil)
)

// Describe and Collect make states a prometheus.Collector.
func (states states) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{readyDesc, streamsDesc, followersDesc, feedLagDesc, validFromDesc, validUntilDesc} {
		to <- desc
	}
}

func (states states) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for name, sale := range states.sales() {
		if states.unready(sale) == "" {
			gauge(readyDesc, 1, name)
		} else {
			gauge(readyDesc, 0, name)
		}
		gauge(streamsDesc, float64(states.streams.Open(sale)), name)
		n, lag := states.feeds.Lag(sale.feed)
		gauge(followersDesc, float64(n), name)
		if n > 0 {
			gauge(feedLagDesc, lag.Seconds(), name)
		}
	}
	if leaf := states.config.Certificates.Leaf(); leaf != nil {
		gauge(validFromDesc, float64(leaf.NotBefore.Unix()))
		gauge(validUntilDesc, float64(leaf.NotAfter.Unix()))
	}
}
