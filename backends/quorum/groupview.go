package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// State returns the state of a key.
func (g *Group) State(key string) State {
	if k := g.byKey[key]; k != nil {
		return k.m.state
	}
	return Released
}

// Validity returns the validity of a key's lease.
func (g *Group) Validity(key string) Validity {
	k := g.byKey[key]
	if k == nil || k.m.state != Held {
		return Validity{}
	}
	return Validity{from: g.last, left: k.m.since + g.tm.valid - g.aged}
}

// Settled reports whether no call is under way and no node owes a release.
func (g *Group) Settled() bool {
	return !slices.ContainsFunc(g.members, func(k *member) bool { return !k.m.Settled() })
}

// Nodes returns a view of each node, in the order of Config.Nodes.
func (g *Group) Nodes() []NodeView {
	views := make([]NodeView, len(g.nodes))
	for i := range g.nodes {
		s := &g.nodes[i].seen
		views[i] = NodeView{Name: g.cfg.Nodes[i], Err: s.trouble, Answers: s.answers, Errors: s.errors, VotesFrom: s.votesFrom}
	}
	for _, k := range g.members {
		for i := range views {
			views[i].Owes += len(k.m.nodes[i].owed)
			if k.m.state == Held && k.m.held[0].at[i].answer == Yes {
				views[i].Has++
			}
		}
	}
	return views
}

// Stats returns the sums of the statistics of all keys since the group was created: one renewal
// of 1,024 keys counts as 1,024 renewals.
func (g *Group) Stats() Stats {
	sum := g.retired
	for _, k := range g.members {
		sum = sum.Plus(k.m.stats)
	}
	return sum
}

// ClockOff returns the median of NodeClockOff over all nodes; false without a majority of them.
func (g *Group) ClockOff(now clock.Now) (time.Duration, bool) {
	var off []time.Duration
	for i := range g.nodes {
		if d, ok := g.NodeClockOff(now, i); ok {
			off = append(off, d)
		}
	}
	if len(off) <= len(g.nodes)/2 {
		return 0, false
	}
	return median(off), true
}

// NodeClockOff is like Machine.NodeClockOff.
func (g *Group) NodeClockOff(now clock.Now, node int) (time.Duration, bool) {
	s := &g.nodes[node].seen
	if s.clock.IsZero() || g.aged+max(0, now.Since(g.last))-s.aged > g.cfg.TTL {
		return 0, false
	}
	return s.clockOff(now), true
}
