package quorum

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
)

// Members returns all members that any node knows, this process included, sorted by ID. Each
// has its newest note, and the longest time left on any node, less the time since that node was
// queried. sure is false if fewer than a majority of the nodes have answered within the last
// ttl: members may then be missing.
func (r *Roster) Members(now clock.Now) (members []Member, sure bool) {
	aged := r.aged + max(0, now.Since(r.last))
	all := make(map[string]present)
	answered := 0
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.met {
			continue
		}
		if aged-n.heard <= r.cfg.TTL {
			answered++
		}
		for _, p := range n.there {
			p.Left -= aged - n.heard
			if p.Left <= 0 {
				continue
			}
			known, found := all[p.ID]
			if found && known.number > p.number {
				known, p = p, known
			}
			p.Left = max(p.Left, known.Left)
			all[p.ID] = p
		}
	}
	for p := range maps.Values(all) {
		members = append(members, p.Member)
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return members, answered > len(r.nodes)/2
}

// next returns, on the time base of aged, when a node is due for a call or an answer expires.
func (r *Roster) next() time.Duration {
	at := never
	ages := func(end time.Duration) {
		if end > r.aged {
			at = min(at, end)
		}
	}
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.met {
			continue
		}
		ages(n.heard + r.cfg.TTL + 1)
		for _, p := range n.there {
			ages(n.heard + p.Left)
		}
	}
	for i := range r.nodes {
		if r.due(i) {
			at = min(at, r.nodes[i].askAt)
		}
		if n := &r.nodes[i]; r.state == rosterLeaving && !r.parted(n) {
			at = min(at, n.until)
		}
	}
	return at
}

// Gone reports whether this process has left and each node has confirmed that, failed to twice,
// or forgotten the process.
func (r *Roster) Gone() bool {
	return r.state != rosterPresent && !slices.ContainsFunc(r.nodes, func(n rosterNode) bool { return !r.parted(&n) })
}
