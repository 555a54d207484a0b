package httpd

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/executor/httpd/wire"
)

// other is the label of an outcome that is not in the table.
const other api.Outcome = "other"

// metrics are those of HTTP; the executor has those of queues, appends and units.
type metrics struct {
	claims   *prometheus.CounterVec
	duration *prometheus.HistogramVec

	settlements *prometheus.CounterVec
	settling    *prometheus.HistogramVec

	webhooks   *prometheus.CounterVec
	delivering *prometheus.HistogramVec

	streams *prometheus.GaugeVec
}

// durations range from an answer out of memory to one that waits for its timeout.
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

// saleMetrics counts what is answered for one sale. The counters of claims exist from the beginning, with
// zero; the others since the first answer, since few sales have settlements or webhooks.
type saleMetrics struct {
	all      *metrics
	sale     string
	claims   map[api.Outcome]prometheus.Counter
	duration prometheus.Observer
	streams  prometheus.Gauge
}

func (m *metrics) of(sale string) *saleMetrics {
	s := &saleMetrics{
		all: m, sale: sale,
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

// CountStreams counts streams that begin or, with -1, end.
func (s *saleMetrics) CountStreams(change int) { s.streams.Add(float64(change)) }

// CountClaim counts an answer to a claim.
func (s *saleMetrics) CountClaim(label api.Outcome, took time.Duration) {
	counter, ok := s.claims[label]
	if !ok {
		counter = s.claims[other]
	}
	counter.Inc()
	s.duration.Observe(took.Seconds())
}

// CountSettlement counts an answer to a settlement.
func (s *saleMetrics) CountSettlement(how api.How, label api.Outcome, took time.Duration) {
	if !wire.Known(label) && label != api.Replayed {
		label = other
	}
	s.all.settlements.WithLabelValues(s.sale, string(how), string(label)).Inc()
	s.all.settling.WithLabelValues(s.sale).Observe(took.Seconds())
}

// countWebhook counts a message of a payment service.
func (s *saleMetrics) countWebhook(label api.Outcome, took time.Duration) {
	if !wire.Known(label) && label != api.Replayed && label != ignored && label != rejected {
		label = other
	}
	s.all.webhooks.WithLabelValues(s.sale, string(label)).Inc()
	s.all.delivering.WithLabelValues(s.sale).Observe(took.Seconds())
}
