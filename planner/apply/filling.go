package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/planner"
)

// fillLists turns every list on, once each shard has a generation in which its list may give.
// Where a process serves the sale, the owners do so sooner and get a ttl for it. A fill by
// another process is not disturbed.
func (x *execution) fillLists(then func()) {
	x.begin(fillingLists)
	p, _ := x.sale.Planned(x.goal)
	if !x.onLists() || p.GetSettings().GetPhase() != pb.Phase_OPEN {
		then()
		return
	}
	began := x.core.Now.Mono
	fill := func(alive bool) {
		x.core.Each(x.allShards(), func(i int, done func()) {
			x.fillList(i, x.goal, alive, began, func() {
				x.shards[i].forget()
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
			head, changes := x.shards[i].head, err == nil && state != seen
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
					if s := x.shards[i].state; foreign(s.Generation) {
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
