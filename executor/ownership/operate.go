package ownership

import (
	"cmp"
	"slices"

	"salectl/api"
	"salectl/backends/clock"
)

// Operable reports whether operators can command this process: it takes part in the sale.
func (m *Machine) Operable() bool {
	return m.stage == serving && m.updates.collection.totals != nil && m.assignment.known && !m.draining
}

// Share returns the part of the sale that this process owns.
func (m *Machine) Share(now clock.Now) api.Share {
	left, takers := m.Retired(now)
	s := api.Share{Sale: m.cfg.Sale, State: cmp.Or(m.note().State, api.ProcessServing), Shards: left, HasTakers: takers}
	for _, id := range m.assignment.desired {
		if id == m.cfg.ID {
			s.Assigned++
		}
	}
	return s
}

// Retire makes this process release its shards to its peers and own none any more, because it is
// about to end.
func (m *Machine) Retire(now clock.Now) {
	m.ending = true
	m.roster.present(now)
}

// StandBy makes this process release its shards to its peers and own none. With undo, shards are
// assigned to it again.
func (m *Machine) StandBy(now clock.Now, undo bool) {
	m.standby = !undo
	m.roster.present(now)
}

// Retired returns how many shards this process still owns, and whether a peer could take them.
func (m *Machine) Retired(now clock.Now) (left int, takers bool) {
	for i := range m.handover.all {
		if st := m.handover.all[i].stage; m.handover.all[i].runs && st != warming && st != taking {
			left++
		}
	}
	return left, slices.ContainsFunc(m.assignment.members, func(p Process) bool { return p.ID != m.cfg.ID && p.State == "" && m.peers.isUp(now, p.ID) })
}
