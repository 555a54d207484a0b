package quorum

import "sync/atomic"

// A lock that is held for a millisecond need not be known to all nodes, only to
// a majority. So a first try asks no more than that, and the others only when
// one of those refuses or keeps it waiting, or the lock is held for longer. That
// is a third less to do for three nodes, and two fifths for five. All who want a
// key begin with the same nodes, and so do not split the votes.

// LateNodes remembers which nodes have lately kept a try waiting. Machines may
// share one; it is safe for concurrent use.
type LateNodes struct{ late []atomic.Bool }

// NewLateNodes returns a LateNodes for some number of nodes, none of them late.
func NewLateNodes(nodes int) *LateNodes { return &LateNodes{late: make([]atomic.Bool, nodes)} }

// narrow lets a first try begin with a majority of the nodes: those that are
// free and were not late.
func (m *Machine) narrow() {
	if m.cfg.Hedge == 0 || m.refusals > 0 || m.watched || len(m.held) > 0 {
		return
	}
	m.round.wide = false
	missing := m.majority()
	for i := range m.nodes {
		n := &m.nodes[i]
		n.first = missing > 0 && n.call == nil && !m.cfg.LateNodes.late[i].Load()
		if n.first {
			missing--
		}
	}
	for i := range m.nodes {
		if n := &m.nodes[i]; missing > 0 && !n.first {
			n.first = true
			missing--
		}
	}
}

// widen lets the others be asked, too.
func (m *Machine) widen() {
	m.round.wide = true
	for i := range m.nodes {
		if n := &m.nodes[i]; n.first && n.answered != m.round.id {
			m.cfg.LateNodes.late[i].Store(true)
		}
	}
}
