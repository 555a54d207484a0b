package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// onLists reports whether lists give out the sale's units.
func (x *execution) onLists() bool { return planner.EngineOf(x.sale.Newest()) == spec.EngineRedis }

// checkLists refuses to bring shards to a generation whose lists are on nodes that this
// process does not know: grabs of those lists would be missed.
func (x *execution) checkLists(p *pb.Planned) error {
	old, err := planner.Declared(p)
	if err != nil || old.Engine != spec.EngineRedis {
		return err
	}
	return planner.CheckLists(x.plan.Sale, old, x.Lists, x.sale.Applied() > 0)
}

// stopList stops and drains a shard's list before a generation is appended to the shard's log:
// only then does the log know which units are available. A shard that is not open has no list
// that gives, and a shard without a fill never had one.
func (d *rollout) stopList(i int, then func()) {
	s := d.x.states[i]
	open := func(s *ledger.State) bool { return s.Phase == ledger.PhaseOpen && s.Generation < d.goal }
	if !d.x.onLists() || s.Fill == 0 || !open(s) || d.x.machines[i] != nil && d.x.machines[i].Stopped(s) {
		then()
		return
	}
	d.x.bring(i, lists.Stopped, func(s *ledger.State) bool { return !open(s) }, then)
}

// fillLists turns every list on, once each shard has a generation in which its list may give.
// Where a process serves the sale, the owners do so sooner and get a ttl for it. A fill by
// another process is not disturbed.
func (x *execution) fillLists(goal uint64, then func()) {
	p, _ := x.sale.Planned(goal)
	if !x.onLists() || p.GetSettings().GetPhase() != pb.Phase_OPEN {
		then()
		return
	}
	began := x.core.Now.Mono
	fill := func(alive bool) {
		x.core.Each(x.allShards(), func(i int, done func()) {
			x.fillList(i, goal, alive, began, func() {
				x.shards[i], x.states[i], x.machines[i] = nil, nil, nil // a log may be large
				x.finished(planner.ListAddress(i), "")
				done()
			})
		}, then)
	}
	x.findOwner(fill)
}

func (x *execution) fillList(i int, goal uint64, alive bool, began time.Duration, done func()) {
	// Another execution has planned a generation that is not read yet or has other nodes.
	foreign := func(generation uint64) bool {
		return generation > x.sale.Generation() || generation > goal && x.otherNodes(goal)
	}
	mayNot := func(s *ledger.State) bool { return s.Phase != ledger.PhaseOpen || foreign(s.Generation) }
	var seen lists.State
	var look func()
	look = func() {
		x.inspect(i, func(state lists.State, err error) {
			head, changes := x.heads[i], err == nil && state != seen
			switch {
			case foreign(head.Generation):
				x.recheck(func() {
					if x.otherNodes(goal) {
						x.stale("was declared on other nodes meanwhile")
						return
					}
					x.core.After(pollOwner, func() { x.readHead(i, look) })
				})
			case err == nil && state.On && state.Fill == head.Fill, head.Phase != ledger.PhaseOpen:
				done()
			case errors.Is(err, fs.ErrPermission): // whether the owner fills it cannot be checked
				x.core.End(fmt.Errorf("%s on node %s cannot be looked at: %s", planner.ListAddress(i), x.listNode(i), planner.ShortNodeError(x.listNode(i), err)))
			case alive && x.core.Now.Mono < began+x.ttl(), changes && (!state.On || state.Fill > head.Fill):
				seen = state
				x.core.After(pollOwner, func() { x.readHead(i, look) })
			default:
				x.bring(i, lists.On, mayNot, func() {
					if s := x.states[i]; foreign(s.Generation) {
						x.readHead(i, look)
						return
					}
					done()
				})
			}
		})
	}
	look()
}

// otherNodes reports whether the newest generation names other nodes than the given one: only
// a process that knows those nodes may fill its lists.
func (x *execution) otherNodes(generation uint64) bool {
	p, _ := x.sale.Planned(generation)
	old, err := planner.Declared(p)
	newest, err2 := planner.Declared(x.sale.Newest())
	from, to, err3 := planner.HomesOf(old, newest)
	return errors.Join(err, err2, err3) == nil && (!planner.SameNodes(from.Locks, to.Locks) || !slices.Equal(old.ListNodes(), newest.ListNodes()))
}

// readHead reads a shard's head again. A missing head is a lagging read.
func (x *execution) readHead(i int, then func()) {
	x.readHeads([]int{i}, func(heads []*ledger.Head) {
		if heads[0] != nil {
			x.heads[i] = heads[0]
		}
		then()
	})
}

// forgetLists removes the sale's lists from the nodes. After several attempts it skips a node
// that cannot be reached: its keys belong to a run that has ended.
func (t *teardown) forgetLists(then func()) {
	if !t.x.onLists() {
		then()
		return
	}
	t.x.core.All(len(t.x.Lists), func(node int, done func()) {
		t.forgetFrom(node, 0, 1, func(all bool) {
			for i := range t.x.allShards() {
				if all && spec.ListNode(i, len(t.x.Lists)) == node {
					t.x.finished(planner.ListAddress(i), "")
				}
			}
			done()
		})
	}, then)
}

// forgetFrom removes the lists from a shard on, one after the other. Each node is asked for
// all lists: an earlier declaration may have named the nodes in another order.
func (t *teardown) forgetFrom(node, shard, try int, then func(all bool)) {
	if shard == t.x.sale.Shards() {
		then(true)
		return
	}
	list := t.x.list(shard)
	forget := func(ctx context.Context, node lists.Node) error { return node.Forget(ctx, list) }
	machine.OnList(t.x.core, node, "forget list", machine.NoValue(forget), func(_ any, err error) {
		switch {
		case err == nil:
			t.forgetFrom(node, shard+1, 1, then)
		case try == sweepTries, errors.Is(err, fs.ErrPermission):
			t.x.warn("node %s may still have lists of the sale: %s. They are never asked for again;"+
				" destroy, run again when the node is up, removes them", t.x.Lists[node], planner.ShortNodeError(t.x.Lists[node], err))
			then(false)
		default:
			t.x.core.After(machine.FirstPause<<try, func() { t.forgetFrom(node, shard, try+1, then) })
		}
	})
}
