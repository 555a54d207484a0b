package httpd

import (
	"github.com/prometheus/client_golang/prometheus"

	"salectl/executor/httpd/access"
)

// Collectors returns the metrics of the Server, to be registered.
func (s *Server) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.metrics.claims, s.metrics.duration, s.metrics.settlements, s.metrics.settling,
		s.metrics.webhooks, s.metrics.delivering, s.metrics.streams, ready{s}, followers{s}, validity{s.config.Certificates}}
}

// ready collects for each sale whether it is ready, as /readyz says.
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

// followers collects how many follow each sale.
type followers struct{ *Server }

var (
	followersDesc = prometheus.NewDesc("salectl_feed_followers", "Programs that follow the feed of the sale here.", []string{"sale"}, nil)
	feedLagDesc   = prometheus.NewDesc("salectl_feed_lag_seconds", "Of the follower that is furthest behind, how old the newest commit was that it was told when it was told, "+
		"or how old is what it has not taken yet.", []string{"sale"}, nil)
)

// Describe and Collect make followers a prometheus.Collector.
func (f followers) Describe(to chan<- *prometheus.Desc) { to <- followersDesc; to <- feedLagDesc }

func (f followers) Collect(to chan<- prometheus.Metric) {
	for name, sale := range f.sales() {
		n, lag := f.feeds.Lag(sale.feed)
		to <- prometheus.MustNewConstMetric(followersDesc, prometheus.GaugeValue, float64(n), name)
		if n > 0 {
			to <- prometheus.MustNewConstMetric(feedLagDesc, prometheus.GaugeValue, lag.Seconds(), name)
		}
	}
}

// validity collects from when until when the process's certificate is valid, if it has one.
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
