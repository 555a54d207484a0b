package planner

import (
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// first is the event that begins the plan, nil if it is carried out already: an
// empty plan is, except that of a destroyed sale, whose lock nodes are swept, and
// that of a sale which is in its phase already, which is made sure of.
func (w *work) first(rehearsal bool) func() {
	switch p := w.plan; {
	case p.Kind == KindApply && p.Empty():
		w.result.Generation = p.Generation
		return nil
	case p.Kind != KindDestroy:
		return w.startApply
	case p.Empty() && !rehearsal && p.Phase != ledger.PhaseDestroyed:
		return nil
	}
	return (&teardown{work: w, rehearsal: rehearsal}).start
}

// startApply is the first event of an apply: ask the nodes who they are, make the
// table, append what is planned to the sale's log, bring every shard to it, mark
// the nodes, fill the lists, say that it is done.
func (w *work) startApply() {
	enter := func() {
		w.enter(w.applyPlanned, func() { w.stale("was destroyed since the plan was made") })
	}
	w.askNodes(func() {
		w.checkNodes(func() { w.provideTable(enter) })
	})
}

func (w *work) applyPlanned() {
	// Perhaps more was planned since by others. All of it is brought to the
	// shards: what stands in the log was accepted.
	goal := w.sale.Generation()
	w.drive(goal, func() {
		w.mark(func(unmarked []string) {
			w.fillLists(goal, func() { w.conclude(goal, unmarked) })
		})
	})
}

// conclude ends an apply that has done its part.
func (w *work) conclude(goal uint64, unmarked []string) {
	changed, said := w.changed, w.sale.Applied() >= goal
	w.noteApplied(goal, unmarked, func() {
		if said && w.plan.Kind == KindPhase { // the note says nothing new
			w.changed = changed
		}
		w.result.Generation = goal
		w.result.Shortfall = w.shortfall(goal)
		w.finished(saleAddress(w.plan.Sale), "")
		w.end(nil)
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
func (w *work) noteApplied(goal uint64, unmarked []string, then func()) {
	op := &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: goal, Unmarked: unmarked}}}
	w.note(func() bool {
		ours, live := w.sale.UID() == w.plan.UID, w.sale.Live()
		if ours && !live && w.overtaken != nil {
			return true
		}
		if !ours || !live {
			w.stale("was destroyed meanwhile")
		}
		if w.plan.Kind == KindPhase && !w.ours {
			if w.sale.Generation() > w.plan.Generation {
				w.stale("has changed since the plan was made")
			}
			return false
		}
		return w.sale.Applied() > goal || w.sale.Applied() == goal && slices.Equal(w.sale.Unmarked(), unmarked)
	}, op, then)
}

// shortfall returns how many units more the shards have than was declared, since
// they were claimed before they could be removed. A shard that has taken a later
// generation already says nothing about this one. It is the business of an apply
// alone, and of no sale that is closed.
func (w *work) shortfall(goal uint64) int64 {
	p, _ := w.sale.Planned(goal)
	old, err := declared(p)
	if err != nil || w.plan.Kind != KindApply || p.GetSettings().GetPhase() == pb.Phase_CLOSED {
		return 0
	}
	var have int64
	for _, h := range w.heads {
		if h.Generation != goal {
			return 0
		}
		have += h.Limit
	}
	return max(0, have-old.Stock)
}
