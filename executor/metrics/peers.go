package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/executor/ownership"
	"salectl/executor/process"
)

// peerMetrics are those of the processes of the sale, and of the requests between them.
type peerMetrics struct {
	forwards, members, links, due *prometheus.Desc
}

func newPeerMetrics(describe describing) peerMetrics {
	return peerMetrics{
		forwards: describe("salectl_forwards_total", "Requests that this process passed on to others, by what came of it: answered, "+
			"not_owner (it is passed on again), lost (the link was cut; it is asked again).", "outcome"),
		members: describe("salectl_members", "Processes of the sale that this one knows of, itself among them, by state.", "state"),
		links:   describe("salectl_links_up", "Processes of the sale that this one reaches."),
		due:     describe("salectl_misplaced_shards", "Shards that are assigned to another process than their owner, as far as is known."),
	}
}

func (m *peerMetrics) collect(h *ownership.Status, of *process.Machine, to sink) {
	answered, bounced, lost := of.Forwards()
	for outcome, n := range map[string]uint64{"answered": answered, "not_owner": bounced, "lost": lost} {
		to.count(m.forwards, float64(n), outcome)
	}
	up, states := 0, map[string]int{api.ProcessServing: 0, api.ProcessStandby: 0, api.ProcessDraining: 0, api.ProcessUnable: 0}
	for _, x := range h.Members {
		states[cmp.Or(x.State, api.ProcessServing)]++
		if x.Up && !x.Here {
			up++
		}
	}
	for state, n := range states {
		to.gauge(m.members, float64(n), state)
	}
	to.gauge(m.links, float64(up))
	to.gauge(m.due, float64(len(h.Moves)))
}
