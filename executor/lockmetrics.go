package executor

import (
	"github.com/prometheus/client_golang/prometheus"
)

// lockMetrics are the counts of what the leases cost and went through. They are
// read from the process's health when somebody asks.
type lockMetrics struct {
	tries, votes, renewals, lost, forced, repaired, acquiring, waited, errors *prometheus.Desc
}

func newLockMetrics(sale prometheus.Labels) *lockMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, sale)
	}
	return &lockMetrics{
		tries:     desc("salectl_lock_tries_total", "Tries to get leases: won, or refused.", "outcome"),
		votes:     desc("salectl_lock_votes_total", "Answers of lock nodes about single leases: yes, no, abstained, failed.", "answer"),
		renewals:  desc("salectl_lock_renewals_total", "Leases of shards that a majority renewed."),
		lost:      desc("salectl_leases_lost_total", "Leases of shards that were lost."),
		forced:    desc("salectl_lock_forced_releases_total", "Holders without a sign of life that were removed because they blocked this process."),
		repaired:  desc("salectl_lock_repairs_total", "Keys without an end, or with one too far, that lock nodes gave one."),
		acquiring: desc("salectl_lock_acquire_seconds_total", "From asking for leases until they were held, in sum."),
		waited:    desc("salectl_lock_wait_seconds_total", "The part of it that was before the tries that won."),
		errors:    desc("salectl_lock_errors_total", "Calls of a lock node that failed, by kind.", "node", "kind"),
	}
}

func (m *lockMetrics) describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.tries, m.votes, m.renewals, m.lost, m.forced, m.repaired, m.acquiring, m.waited, m.errors} {
		to <- d
	}
}

func (m *lockMetrics) collect(h *health, to chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, n, labels...)
	}
	s := &h.locks
	count(m.tries, float64(s.Won), "won")
	count(m.tries, float64(s.Refused), "refused")
	count(m.votes, float64(s.Yes), "yes")
	count(m.votes, float64(s.No), "no")
	count(m.votes, float64(s.Abstained), "abstained")
	count(m.votes, float64(s.Failed), "failed")
	count(m.renewals, float64(s.Renewals))
	count(m.lost, float64(s.Lost))
	count(m.forced, float64(s.Forced))
	count(m.repaired, float64(s.Repaired))
	count(m.acquiring, s.Acquiring.Seconds())
	count(m.waited, s.Waited.Seconds())
	for i, n := range h.nodes {
		for kind, errors := range h.errors[i] {
			count(m.errors, float64(errors), n.Name, kind)
		}
	}
}
