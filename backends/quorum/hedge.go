package quorum

import "sync/atomic"

// A lock that is held for a millisecond need not be known to all nodes, only to a majority. So
// a first try queries only a majority. It queries the others when one of these refuses or is
// late, or when the lock is held for longer. That saves a third of the calls with three nodes,
// and two fifths with five. All processes prefer the same nodes for a key, and so do not split
// the votes.

// LateNodes records which nodes recently answered a try late. Groups may share one; it is
// safe for concurrent use.
type LateNodes struct{ late []atomic.Bool }

// NewLateNodes returns a LateNodes for some number of nodes, none of them late.
func NewLateNodes(nodes int) *LateNodes { return &LateNodes{late: make([]atomic.Bool, nodes)} }

// narrow restricts a first try to a majority of the nodes, preferring free ones that were not
// late.
func (k *key) narrow() {
	g := k.g
	if g.cfg.Hedge == 0 || k.refusals > 0 || g.watched {
		return
	}
	k.round.wide = false
	missing := g.majority()
	for i := range k.nodes {
		n := &k.nodes[i]
		n.first = missing > 0 && g.nodes[i].call == nil && !g.cfg.LateNodes.late[i].Load()
		if n.first {
			missing--
		}
	}
	for i := range k.nodes {
		if n := &k.nodes[i]; missing > 0 && !n.first {
			n.first = true
			missing--
		}
	}
}

// widen makes the try query the remaining nodes too, and records the late ones.
func (k *key) widen() {
	k.round.wide = true
	for i := range k.nodes {
		if n := &k.nodes[i]; n.first && n.answered != k.round.id {
			k.g.cfg.LateNodes.late[i].Store(true)
		}
	}
}
