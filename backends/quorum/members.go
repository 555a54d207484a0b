package quorum

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
)

// Members returns all that any node has, this process among them, in order of IDs: each
// with its newest note, and with the time that the node has it for which has it longest,
// less what has passed since that node was asked. sure is false if fewer than a majority
// of the nodes have answered within the last ttl: then others may be there.
func (r *Roster) Members(now clock.Now) (members []Member, sure bool) {
	return r.members(r.aged + max(0, now.Since(r.last)))
}

func (r *Roster) members(aged time.Duration) (members []Member, sure bool) {
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

// Changes grows whenever other members are there than before, or one has another note,
// or whether that is sure has changed.
func (r *Roster) Changes() uint64 { return r.changes }

// compare counts a change.
func (r *Roster) compare() {
	members, sure := r.members(r.aged)
	same := func(a, b Member) bool { return a.ID == b.ID && a.Note == b.Note }
	if sure != r.sure || !slices.EqualFunc(members, r.shown, same) {
		r.changes++
	}
	r.shown, r.sure = members, sure
}

// next returns when, on the time base of aged, a node is to be met, or something that
// nodes have said is too old.
func (r *Roster) next() time.Duration {
	r.stale = never
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.met {
			continue
		}
		r.ages(n.heard + r.cfg.TTL + 1)
		for _, p := range n.there {
			r.ages(n.heard + p.Left)
		}
	}
	at := r.stale
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

// ages notes when something that a node has said is too old.
func (r *Roster) ages(end time.Duration) {
	if end > r.aged {
		r.stale = min(r.stale, end)
	}
}

// Gone reports whether this process has left and all nodes know, or had their time: they
// were told twice, or have forgotten it by themselves.
func (r *Roster) Gone() bool {
	return r.state != rosterPresent && !slices.ContainsFunc(r.nodes, func(n rosterNode) bool { return !r.parted(&n) })
}

// Nodes returns a view of each node, in the order of RosterConfig.Nodes.
func (r *Roster) Nodes() []NodeView {
	views := make([]NodeView, len(r.nodes))
	for i := range r.nodes {
		s := &r.nodes[i].seen
		views[i] = NodeView{Name: r.cfg.Nodes[i], Err: s.trouble, Answers: s.answers, Errors: s.errors}
	}
	return views
}
