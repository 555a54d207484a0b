package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"salectl/executor/ownership"
)

// lockMetrics are those of the lock nodes and of the leases, read from the process's health.
type lockMetrics struct {
	up, abstains, quorum, clock *prometheus.Desc

	tries, votes, renewals, lost, forced, repaired, acquiring, waited, errors *prometheus.Desc
}

func newLockMetrics(describe describing) lockMetrics {
	return lockMetrics{
		up:       describe("salectl_node_up", "1 while the lock node answers.", "node"),
		abstains: describe("salectl_node_abstaining", "1 while the lock node does not vote because it lost its memory.", "node"),
		quorum:   describe("salectl_lock_quorum", "1 while a majority of the lock nodes votes."),
		clock: describe("salectl_clock_offset_seconds",
			"By how much this host's clock is ahead of the median of the lock nodes', while that is too much to sell; else 0."),

		tries:     describe("salectl_lock_tries_total", "Tries to get leases: won, or refused.", "outcome"),
		votes:     describe("salectl_lock_votes_total", "Answers of lock nodes about single leases: yes, no, abstained, failed.", "answer"),
		renewals:  describe("salectl_lock_renewals_total", "Leases of shards that a majority renewed."),
		lost:      describe("salectl_leases_lost_total", "Leases of shards that were lost."),
		forced:    describe("salectl_lock_forced_releases_total", "Holders without a sign of life that were removed because they blocked this process."),
		repaired:  describe("salectl_lock_repairs_total", "Keys without an end, or with one too far, that lock nodes gave one."),
		acquiring: describe("salectl_lock_acquire_seconds_total", "From asking for leases until they were held, in sum."),
		waited:    describe("salectl_lock_wait_seconds_total", "The part of it that was before the tries that won."),
		errors:    describe("salectl_lock_errors_total", "Calls of a lock node that failed, by kind.", "node", "kind"),
	}
}

func (m *lockMetrics) collect(h *ownership.Status, to sink) {
	m.collectNodes(h, to)
	to.gauge(m.clock, h.ClockOff.Seconds())
	s := &h.Locks
	to.count(m.tries, float64(s.Won), "won")
	to.count(m.tries, float64(s.Refused), "refused")
	to.count(m.votes, float64(s.Yes), "yes")
	to.count(m.votes, float64(s.No), "no")
	to.count(m.votes, float64(s.Abstained), "abstained")
	to.count(m.votes, float64(s.Failed), "failed")
	to.count(m.renewals, float64(s.Renewals))
	to.count(m.lost, float64(s.Lost))
	to.count(m.forced, float64(s.Forced))
	to.count(m.repaired, float64(s.Repaired))
	to.count(m.acquiring, s.Acquiring.Seconds())
	to.count(m.waited, s.Waited.Seconds())
	for _, n := range h.Nodes {
		for kind, errors := range n.Errors {
			to.count(m.errors, float64(errors), n.Name, kind)
		}
	}
}

// collectNodes leaves out nodes that this process has not called.
func (m *lockMetrics) collectNodes(h *ownership.Status, to sink) {
	known := false
	for _, n := range h.Nodes {
		if n.Since.IsZero() {
			continue
		}
		known = true
		to.gauge(m.up, one(n.Up), n.Name)
		to.gauge(m.abstains, one(!n.VotesFrom.IsZero()), n.Name)
	}
	if known {
		to.gauge(m.quorum, one(!h.NoMajority))
	}
}
