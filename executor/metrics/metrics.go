// Package metrics has the Prometheus metrics of a process of a sale. New returns its collector.
//
// The metrics of the sale, and of the shards, peers and lock nodes of the process, are read from the
// process's machine at each scrape, so that selling costs no gauge. The shells of the machine count the
// rest: they call Shards.Add, and add to the exported collectors. No metric has a label for the shard:
// a sale has thousands of them. Metrics is safe for concurrent use.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/process"
	"salectl/executor/shard"
)

// Metrics are the collectors of one process. It is a prometheus.Collector.
type Metrics struct {
	of    *process.Machine
	clock clock.Clock
	sale  prometheus.Labels
	Shards
	Grab     *prometheus.HistogramVec // by node that keeps lists
	Sessions *prometheus.CounterVec   // begun, ended
	Rules    *prometheus.CounterVec   // by rule and result
	Moves    *prometheus.CounterVec   // given, taken
	Handover prometheus.Histogram
	vote     *prometheus.HistogramVec
	ends     *prometheus.CounterVec
}

// Shards are the metrics that all shards of the process count together.
type Shards struct {
	Append, Queue                     prometheus.Histogram
	committed, taken, unknown, resent prometheus.Counter
	fills, voids                      prometheus.Counter
}

// New returns the metrics of a process of a sale.
func New(of *process.Machine, name string, now clock.Clock) *Metrics {
	sale := prometheus.Labels{"sale": name}
	seconds := prometheus.ExponentialBuckets(50e-6, 2, 18) // 50 µs to 6.5 s
	options := func(name, help string) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, ConstLabels: sale, Buckets: seconds}
	}
	counted := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help, ConstLabels: sale}
	}
	m := &Metrics{
		of: of, clock: now, sale: sale,
		vote: prometheus.NewHistogramVec(options("salectl_vote_seconds", "Duration of a lock node's vote, or of the wait for it."), []string{"node"}),
		Grab: prometheus.NewHistogramVec(options("salectl_grab_seconds", "Duration of a node's grabs, or of the wait for them."), []string{"node"}),
		ends: prometheus.NewCounterVec(counted("salectl_appends_total",
			"Appends by result: committed, taken by another, unknown until read back, resent."), []string{"outcome"}),
		Sessions: prometheus.NewCounterVec(counted("salectl_shard_sessions_total", "Sessions of shards that this process began or ended."), []string{"event"}),
		Rules: prometheus.NewCounterVec(counted("salectl_rule_findings_total",
			"Claims that did not satisfy a rule, by rule and result: denied, missing_attribute, too_costly, "+
				"evaluation_failed; with the prefix audit_ if the rule only counts, and priority_ for the queue; "+
				"not_checked if the data that rules read was unavailable."), []string{"rule", "result"}),
		Moves: prometheus.NewCounterVec(counted("salectl_moves_total", "Shards that this process has given to another, and taken from one."), []string{"event"}),
		Handover: prometheus.NewHistogram(options("salectl_handover_seconds",
			"From the notice that a shard's owner has released the lease for this process until this process decides claims.")),
	}
	m.Shards = Shards{
		Append:    prometheus.NewHistogram(options("salectl_append_seconds", "Duration of a shard's append.")),
		Queue:     prometheus.NewHistogram(options("salectl_queue_seconds", "Longest time from queue to answer in each batch.")),
		committed: m.ends.WithLabelValues("committed"), taken: m.ends.WithLabelValues("taken"),
		unknown: m.ends.WithLabelValues("unknown"), resent: m.ends.WithLabelValues("resent"),
		fills: prometheus.NewCounter(counted("salectl_list_fills_total", "Times a shard's list was filled from the ledger.")),
		voids: prometheus.NewCounter(counted("salectl_void_grabs_total",
			"Grabs that the ledger could not take, because it had given the units or the user's share otherwise.")),
	}
	for _, event := range []string{"begun", "ended"} {
		m.Sessions.WithLabelValues(event)
	}
	for _, event := range []string{"given", "taken"} {
		m.Moves.WithLabelValues(event)
	}
	return m
}

// Add adds a tally.
func (m *Shards) Add(t shard.Tally) {
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

// Observe returns nodes whose votes are timed.
func (m *Metrics) Observe(nodes []quorum.Node) []quorum.Node {
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

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.Append, m.Queue, m.vote, m.Grab, m.fills, m.voids, m.ends, m.Sessions, m.Rules, m.Moves, m.Handover}
}

// Describe is prometheus.Collector's.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	complete.collect(sink{m.sale, func(x prometheus.Metric) { to <- x.Desc() }})
}

// Collect sends the counters, and what it reads of the process.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	status := m.of.Status()
	r := reading{view: status.View(m.clock().Wall), health: m.of.Health(), problems: m.of.Problems()}
	r.answered, r.bounced, r.lost = m.of.Forwards()
	for _, s := range m.of.Shards() {
		r.shards.add(s)
	}
	r.collect(sink{m.sale, func(x prometheus.Metric) { to <- x }})
}
