package executor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/shard"
	"salectl/executor/status"
)

// metrics are an executor's collectors. What is known of the sale, and what the shards of
// this process have, is read when somebody asks, so that selling costs no gauge. No metric
// has a label for the shard: a sale has thousands of them.
type metrics struct {
	of    *admission
	clock clock.Clock
	shardMetrics
	vote     *prometheus.HistogramVec
	grab     *prometheus.HistogramVec
	ends     *prometheus.CounterVec
	sessions *prometheus.CounterVec
	rules    *prometheus.CounterVec
	moves    *prometheus.CounterVec
	pause    prometheus.Histogram

	// What is read when somebody asks, and its descriptions.
	descs    []*prometheus.Desc
	problems *prometheus.Desc
	sale     saleMetrics
	share    shareMetrics
	peers    peerMetrics
	locks    lockMetrics
}

// shardMetrics are those that all shards of the process count together.
type shardMetrics struct {
	append, queue                     prometheus.Histogram
	committed, taken, unknown, resent prometheus.Counter
	fills, voids                      prometheus.Counter
}

func newMetrics(of *admission, name string, now clock.Clock) *metrics {
	sale := prometheus.Labels{"sale": name}
	seconds := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	options := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: sale, Buckets: seconds}
	}
	counted := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help, ConstLabels: sale}
	}
	m := &metrics{
		of: of, clock: now,
		vote: prometheus.NewHistogramVec(options("salectl_vote_seconds", "How long a lock node took to vote, or was waited for."), []string{"node"}),
		grab: prometheus.NewHistogramVec(options("salectl_grab_seconds", "How long a node took to give units from its lists, or was waited for."), []string{"node"}),
		ends: prometheus.NewCounterVec(counted("salectl_appends_total",
			"What became of appends: committed, taken by another, unknown until read back, resent."), []string{"outcome"}),
		sessions: prometheus.NewCounterVec(counted("salectl_shard_sessions_total", "Times this process began or stopped to have a shard's machine run."), []string{"event"}),
		rules: prometheus.NewCounterVec(counted("salectl_rule_findings_total",
			"Claims that did not satisfy a rule, by rule and result: denied, missing_attribute, too_costly, "+
				"evaluation_failed; the same behind audit_ where the rule only counts, and behind priority_ for the queue; "+
				"not_checked where what rules read could not be read."), []string{"rule", "result"}),
		moves: prometheus.NewCounterVec(counted("salectl_moves_total", "Shards that this process has given to another, and taken from one."), []string{"event"}),
		pause: prometheus.NewHistogram(options("salectl_handover_seconds",
			"From the word of a shard's owner that it has freed the lease for this process until this one decides claims.")),
	}
	m.shardMetrics = shardMetrics{
		append:    prometheus.NewHistogram(options("salectl_append_seconds", "How long a shard's append took to return.")),
		queue:     prometheus.NewHistogram(options("salectl_queue_seconds", "From queue to answer, of the request of a batch that waited longest.")),
		committed: m.ends.WithLabelValues("committed"), taken: m.ends.WithLabelValues("taken"),
		unknown: m.ends.WithLabelValues("unknown"), resent: m.ends.WithLabelValues("resent"),
		fills: prometheus.NewCounter(counted("salectl_list_fills_total", "Times a shard's list was filled from the ledger.")),
		voids: prometheus.NewCounter(counted("salectl_void_grabs_total",
			"Grabs that the ledger could not take: a node had given what was somebody else's by then.")),
	}
	for _, event := range []string{"begun", "ended"} {
		m.sessions.WithLabelValues(event)
	}
	for _, event := range []string{"given", "taken"} {
		m.moves.WithLabelValues(event)
	}
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(name, help, labels, sale)
		m.descs = append(m.descs, d)
		return d
	}
	m.problems = describe("salectl_problems", "Nodes, processes, shards and other parts that have a problem, as the process compiled them in the last second.", "kind")
	m.sale, m.share = newSaleMetrics(describe), newShareMetrics(describe)
	m.peers, m.locks = newPeerMetrics(describe), newLockMetrics(describe)
	return m
}

// describing makes the description of what is read when somebody asks.
type describing func(name, help string, labels ...string) *prometheus.Desc

// tellMetrics passes on what was read.
type tellMetrics chan<- prometheus.Metric

func (to tellMetrics) gauge(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (to tellMetrics) count(d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// moment tells a time, if there is one.
func (to tellMetrics) moment(d *prometheus.Desc, at time.Time) {
	if !at.IsZero() {
		to.gauge(d, float64(at.UnixMilli())/1000)
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

// answered notes how long the request of a batch waited that waited longest.
func (m *shardMetrics) answered(oldest time.Duration) { m.queue.Observe(oldest.Seconds()) }

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

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.append, m.queue, m.vote, m.grab, m.fills, m.voids, m.ends, m.sessions, m.rules, m.moves, m.pause}
}

// ruled counts what a rule has said.
func (m *metrics) ruled(rule, result string) { m.rules.WithLabelValues(rule, result).Inc() }

// Describe and Collect make metrics a prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, d := range m.descs {
		to <- d
	}
}

// Collect sends what is read now along with the counters.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	now, health := m.clock(), m.of.health.Load()
	m.sale.collect(m.of.status(now), m.of.away.Load().Outcome, health, now.Wall, tellMetrics(to))
	m.share.collect(m.of.serving.Load(), tellMetrics(to))
	m.peers.collect(health, &m.of.links, tellMetrics(to))
	m.locks.collect(health, tellMetrics(to))
	if all := m.of.problems.Load(); all != nil {
		count := make(map[*status.Kind]int)
		for _, p := range *all {
			count[p.Kind]++
		}
		for _, kind := range status.Kinds {
			tellMetrics(to).gauge(m.problems, float64(count[kind]), kind.Name)
		}
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
