package current

import (
	"context"

	"salectl/backends/lists"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// lists queries all list nodes at once, the lists of each in sequence, and ends the reading.
func (r *reading) lists() {
	r.stage = "the lists"
	a := r.actual
	a.ListNodes = make([]planner.ListNodeActual, len(r.terms.Lists))
	a.Lists = make([]planner.ListActual, planner.CountLists(a.Sale, len(r.terms.Lists)))
	r.core.All(len(r.terms.Lists), func(i int, done func()) {
		at := &a.ListNodes[i]
		at.Name = r.terms.Lists[i]
		machine.OnList(r.core, i, "read settings", func(ctx context.Context, node lists.Node) (lists.Settings, error) { return node.Settings(ctx) }, func(settings lists.Settings, err error) {
			at.Settings, at.Err = settings, err
			r.list(i, 0, nil, done)
		})
	}, func() { r.finish(nil) })
}

// list inspects a node's lists from a shard on. After a node fails to answer, its other lists
// get the same error.
func (r *reading) list(node, shard int, away error, done func()) {
	for ; shard < len(r.actual.Lists); shard++ {
		if spec.ListNode(shard, len(r.terms.Lists)) != node {
			continue
		}
		l := &r.actual.Lists[shard]
		l.Node, l.Err = r.terms.Lists[node], away
		if away == nil {
			r.core.Inspect(node, lists.List{UID: r.actual.Sale.UID(), Shard: shard}, func(state lists.State, err error) {
				l.State, l.Err = state, err
				r.list(node, shard+1, err, done)
			})
			return
		}
	}
	done()
}
