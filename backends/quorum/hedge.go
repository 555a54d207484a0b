package quorum

import "sync/atomic"

// A lock that is held for a millisecond need not be known to all nodes, only to a majority. So
// a first try queries only a majority. It queries the others when one of these refuses or is
// late, or when the lock is held for longer. That saves a third of the calls with three nodes,
// and two fifths with five. All processes prefer the same nodes for a key, and so do not split
// the votes.

// LateNodes records which nodes recently answered a try late. Machines may share one; it is
// safe for concurrent use.
type LateNodes struct{ late []atomic.Bool }

// NewLateNodes returns a LateNodes for some number of nodes, none of them late.
func NewLateNodes(nodes int) *LateNodes { return &LateNodes{late: make([]atomic.Bool, nodes)} }

// narrow restricts a first try to a majority of the nodes, preferring free ones that were not
// late.
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

// widen makes the try query the remaining nodes too, and records the late ones.
func (m *Machine) widen() {
	m.round.wide = true
	for i := range m.nodes {
		if n := &m.nodes[i]; n.first && n.answered != m.round.id {
			m.cfg.LateNodes.late[i].Store(true)
		}
	}
}
