package planner

import (
	"errors"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// first is the event that begins the plan, nil if it is carried out already: an
// empty plan is, except that of a destroyed sale, whose lock nodes are swept, and
// that of a sale which is in its phase already, which is made sure of.
func (x *execution) first(rehearsal bool) func() {
	switch p := x.plan; {
	case p.Kind == KindReveal && p.Empty():
		x.result.Generation = p.Generation
		return nil
	case p.Kind == KindReveal:
		return (&revealing{x: x}).start
	case p.Kind == KindApply && p.Empty():
		x.result.Generation = p.Generation
		return nil
	case p.Kind != KindDestroy:
		return x.startApply
	case p.Empty() && !rehearsal && p.Phase != ledger.PhaseDestroyed:
		return nil
	}
	return (&teardown{x: x, rehearsal: rehearsal}).start
}

// startApply is the first event of an apply: ask the nodes who they are, make the
// table, store what new units are, append what is planned to the sale's log, bring
// every shard to it, mark the nodes, fill the lists, say that it is done.
func (x *execution) startApply() {
	if err := errors.Join(drawSeed(x.intent, x.rand), drawSecret(x.intent, x.rand, x.drawKey)); err != nil {
		x.core.end(err)
		return
	}
	enter := func() {
		x.enter(x.applyPlanned, func() { x.stale("was destroyed since the plan was made") })
	}
	x.askNodes(func() {
		x.checkNodes(func() { x.provideTable(enter) })
	})
}

func (x *execution) applyPlanned() {
	// Perhaps more was planned since by others. All of it is brought to the
	// shards: what stands in the log was accepted.
	goal := x.sale.Generation()
	x.begin(bringingShards)
	x.rollOut(goal, func() {
		x.begin(markingNodes)
		x.mark(func(unmarked []string) {
			x.begin(fillingLists)
			x.fillLists(goal, func() { x.conclude(goal, unmarked) })
		})
	})
}

// conclude ends an apply that has done its part.
func (x *execution) conclude(goal uint64, unmarked []string) {
	changed, said := x.core.changed, x.sale.Applied() >= goal
	x.noteApplied(goal, unmarked, func() {
		if said && x.plan.Kind == KindPhase { // the note says nothing new
			x.core.changed = changed
		}
		x.result.Generation = goal
		x.result.Shortfall = x.shortfall(goal)
		x.result.Packets = ledger.PacketsStatusOf(x.sale)
		x.finished(saleAddress(x.plan.Sale), "")
		x.core.end(nil)
	})
}

// noteApplied says in the sale's log that every shard has a generation, and
// which lock nodes have no marker yet. A destroy that another has overtaken goes
// on, and finds that out where it reads a shard.
//
// A change of phase that has not stored its plan itself says so in any case: it
// had nothing to plan, or another had planned the same. That the sale is in its
// phase already it was only told by a read, which may have lagged behind the next
// change; but where the note can be stored, no change came before it.
func (x *execution) noteApplied(goal uint64, unmarked []string, then func()) {
	op := &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: goal, Unmarked: unmarked}}}
	x.begin(notingApplied)
	x.note(func() (bool, error) {
		ours, live := x.sale.UID() == x.plan.UID, x.sale.Live()
		if ours && !live && x.overtaken != nil {
			return true, nil
		}
		if !ours || !live {
			return false, stale("was destroyed meanwhile")
		}
		if x.plan.Kind == KindPhase && x.planned != stored {
			if x.sale.Generation() > x.plan.Generation {
				return false, stale("has changed since the plan was made")
			}
			return false, nil
		}
		if x.sale.Applied() < goal && x.otherNodes(goal) { // a process could begin to serve it on those
			return false, stale("was declared on other nodes meanwhile")
		}
		return x.sale.Applied() > goal || x.sale.Applied() == goal && slices.Equal(x.sale.Unmarked(), unmarked), nil
	}, op, then)
}

// shortfall returns how many units more the shards have than was declared, since
// they were claimed before they could be removed. A shard that has taken a later
// generation already says nothing about this one. It is the business of an apply
// alone, and of no sale that is closed.
func (x *execution) shortfall(goal uint64) int64 {
	p, _ := x.sale.Planned(goal)
	old, err := declared(p)
	if err != nil || x.plan.Kind != KindApply || p.GetSettings().GetPhase() == pb.Phase_CLOSED {
		return 0
	}
	var have int64
	for _, h := range x.heads {
		if h.Generation != goal {
			return 0
		}
		have += h.Limit
	}
	return max(0, have-old.Stock)
}
