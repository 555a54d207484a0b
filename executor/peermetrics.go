package executor

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// collectPeers sends what is known of the other processes of the sale.
func (m *metrics) collectPeers(h *health, to chan<- prometheus.Metric) {
	l := &m.e.links
	for outcome, n := range map[string]uint64{"answered": l.answered.Load(), "not_owner": l.bounced.Load(), "lost": l.lost.Load()} {
		to <- prometheus.MustNewConstMetric(m.forwards, prometheus.CounterValue, float64(n), outcome)
	}
	up, states := 0, map[string]int{"serving": 0, memberStandby: 0, memberDraining: 0, memberUnable: 0}
	for _, x := range h.members {
		states[cmp.Or(x.State, "serving")]++
		if x.Up && !x.Here {
			up++
		}
	}
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(m.members, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(m.links, prometheus.GaugeValue, float64(up))
}
