package executor

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// metrics are an executor's collectors. What a shard has at the moment is read
// from it when somebody asks, so that selling costs no gauge.
type metrics struct {
	e      *Executor
	append *prometheus.HistogramVec
	queue  *prometheus.HistogramVec
	vote   *prometheus.HistogramVec
	grab   *prometheus.HistogramVec
	fills  *prometheus.CounterVec
	voids  *prometheus.CounterVec
	ends   *prometheus.CounterVec
	terms  *prometheus.CounterVec
	rules  *prometheus.CounterVec
	moves  *prometheus.CounterVec
	pause  prometheus.Histogram
	gauges map[string]*prometheus.Desc

	forwards, members, links *prometheus.Desc

	up, abstains, stalls *prometheus.Desc
	holds                holdMetrics
	locks                *lockMetrics
}

// shardMetrics are those of one shard, with their labels looked up.
type shardMetrics struct {
	append, queue                     prometheus.Observer
	committed, taken, unknown, resent prometheus.Counter
	fills, voids                      prometheus.Counter
}

func newMetrics(e *Executor) *metrics {
	sale := prometheus.Labels{"sale": e.cfg.Sale}
	seconds := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: sale, Buckets: seconds,
		}, []string{label})
	}
	gauge := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, sale)
	}
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: sale}, []string{label})
	}
	m := &metrics{
		e:      e,
		append: histogram("salectl_append_seconds", "How long a shard's append took to return.", "shard"),
		queue:  histogram("salectl_queue_seconds", "From queue to answer, of the request of a batch that waited longest.", "shard"),
		vote:   histogram("salectl_vote_seconds", "How long a lock node took to vote, or was waited for.", "node"),
		grab:   histogram("salectl_grab_seconds", "How long a node took to give units from its lists, or was waited for.", "node"),
		fills:  counter("salectl_list_fills_total", "Times a shard's list was filled from the ledger.", "shard"),
		voids: counter("salectl_void_grabs_total",
			"Grabs that the ledger could not take: a node had given what was somebody else's by then.", "shard"),
		ends: counter("salectl_appends_total",
			"What became of appends: committed, taken by another, unknown until read back, resent.", "outcome"),
		terms: counter("salectl_tenures_total", "Times this process began or stopped to have a shard's machine run.", "event"),
		rules: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "salectl_rule_findings_total", ConstLabels: sale,
			Help: "Claims that did not satisfy a rule, by rule and result: denied, missing_attribute, too_costly, " +
				"evaluation_failed; the same behind audit_ where the rule only counts, and behind priority_ for the queue; " +
				"not_checked where what rules read could not be read."}, []string{"rule", "result"}),
		moves: counter("salectl_moves_total", "Shards that this process has given to another, and taken from one.", "event"),
		pause: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "salectl_handover_seconds", ConstLabels: sale, Buckets: seconds,
			Help: "From the word of a shard's owner that it has freed the lease for this process until this one decides claims."}),
		gauges: make(map[string]*prometheus.Desc),

		forwards: gauge("salectl_forwards_total", "Requests that this process passed on to others, by what came of it: answered, "+
			"not_owner (it is passed on again), lost (the link was cut; it is asked again).", "outcome"),
		members: gauge("salectl_members", "Processes of the sale that this one knows of, itself among them, by state.", "state"),
		links:   gauge("salectl_links_up", "Processes of the sale that this one reaches."),
		holds:   newHoldMetrics(sale),
		locks:   newLockMetrics(sale),

		up:       gauge("salectl_node_up", "1 while the lock node answers.", "node"),
		abstains: gauge("salectl_node_abstaining", "1 while the lock node does not vote because it lost its memory.", "node"),
		stalls:   gauge("salectl_stalled_shards", "Shards for which the store does not answer, or not clearly."),
	}
	for name, help := range map[string]string{
		"salectl_available_units": "Units for sale on the shard.",
		"salectl_sold_units":      "Units sold on the shard.",
		"salectl_entries":         "Entries of a draw that the shard has, also those that have won.",
		"salectl_queue_depth":     "Requests that wait on the shard.",
		"salectl_owner":           "1 while this process may append to the shard.",
		"salectl_stalled":         "1 while the store does not answer for the shard, or not clearly.",
		"salectl_shard_bytes":     "Size of the shard's log.",
		"salectl_list_on":         "1 while the shard's list gives units.",
		"salectl_undrained_grabs": "Grabs that the shard's list gave and its log does not have yet.",
	} {
		m.gauges[name] = gauge(name, help, "shard")
	}
	return m
}

func (m *metrics) shard(shard int) *shardMetrics {
	label := strconv.Itoa(shard)
	return &shardMetrics{
		append: m.append.WithLabelValues(label), queue: m.queue.WithLabelValues(label),
		committed: m.ends.WithLabelValues("committed"), taken: m.ends.WithLabelValues("taken"),
		unknown: m.ends.WithLabelValues("unknown"), resent: m.ends.WithLabelValues("resent"),
		fills: m.fills.WithLabelValues(label), voids: m.voids.WithLabelValues(label),
	}
}

// tally adds what was counted.
func (m *shardMetrics) tally(t shard.Tally) {
	if t == (shard.Tally{}) {
		return
	}
	m.committed.Add(float64(t.Committed))
	m.taken.Add(float64(t.Taken))
	m.unknown.Add(float64(t.Unknown))
	m.resent.Add(float64(t.Resent))
	m.fills.Add(float64(t.Fills))
	m.voids.Add(float64(t.Voids))
}

// observe lets the votes of nodes be timed.
func (m *metrics) observe(nodes []quorum.Node) []quorum.Node {
	timed := make([]quorum.Node, len(nodes))
	for i, n := range nodes {
		timed[i] = timedNode{n, m.vote.WithLabelValues(n.Name())}
	}
	return timed
}

type timedNode struct {
	quorum.Node
	took prometheus.Observer
}

func (n timedNode) Vote(ctx context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	defer func(began time.Time) { n.took.Observe(time.Since(began).Seconds()) }(time.Now())
	return n.Node.Vote(ctx, b)
}

// answered notes how long the request of a batch waited that waited longest.
func (m *shardMetrics) answered(oldest time.Duration) { m.queue.Observe(oldest.Seconds()) }

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.append, m.queue, m.vote, m.grab, m.fills, m.voids, m.ends, m.terms, m.rules, m.moves, m.pause}
}

// ruled counts what a rule has said.
func (m *metrics) ruled(rule, result string) { m.rules.WithLabelValues(rule, result).Inc() }

// Describe and Collect make metrics a prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, d := range []*prometheus.Desc{m.up, m.abstains, m.stalls, m.forwards, m.members, m.links} {
		to <- d
	}
	for _, d := range m.gauges {
		to <- d
	}
	m.holds.describe(to)
	m.locks.describe(to)
}

// Collect sends the state of each shard along with the counters.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	health := m.e.health.Load()
	m.locks.collect(health, to)
	for _, n := range health.nodes {
		to <- prometheus.MustNewConstMetric(m.up, prometheus.GaugeValue, one(n.Up), n.Name)
		to <- prometheus.MustNewConstMetric(m.abstains, prometheus.GaugeValue, one(!n.VotesFrom.IsZero()), n.Name)
	}
	m.collectPeers(health, to)
	t := m.e.tenure.Load()
	if t == nil {
		to <- prometheus.MustNewConstMetric(m.stalls, prometheus.GaugeValue, 0)
		return
	}
	to <- prometheus.MustNewConstMetric(m.stalls, prometheus.GaugeValue, float64(len(t.stalled())))
	for _, shard := range t.locals() {
		s := shard.Status()
		gauge := func(name string, v float64) {
			to <- prometheus.MustNewConstMetric(m.gauges[name], prometheus.GaugeValue, v, strconv.Itoa(s.Shard))
		}
		gauge("salectl_available_units", float64(s.Available))
		gauge("salectl_sold_units", float64(s.Sold))
		gauge("salectl_queue_depth", float64(s.Queue))
		gauge("salectl_owner", one(s.Owned))
		gauge("salectl_stalled", one(s.Stall != nil))
		gauge("salectl_shard_bytes", float64(s.Bytes))
		if s.Drawn {
			gauge("salectl_entries", float64(s.Entries))
		}
		if s.Listed {
			gauge("salectl_list_on", one(s.ListOn))
			gauge("salectl_undrained_grabs", float64(s.Undrained))
		}
		if s.Paid {
			m.holds.collect(s, shard.Holds(), to)
		}
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
