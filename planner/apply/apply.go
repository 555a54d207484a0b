// Package apply carries out plans. Run brings a sale to its newest generation or reveals a draw,
// Destroy exports a sale and deletes it, and Purge deletes the copy of a rehearsal.
//
// The package guarantees:
//   - An execution may be killed at any point and may run beside others; a later run completes
//     it. No unit is given to two shards: the sale's log records the units of each shard before
//     any shard receives them.
//   - Nothing is deleted before its export is on disk, was read back, and its digest is in the
//     sale's log.
//   - Nothing is appended with a clock that is off the lock nodes' clocks by more than a ttl.
//
// An execution takes the steps of its plan in order, each of which is a stage (execution.go):
//
//	apply    query the nodes → make the table → read the sale's log → store payloads → append
//	         Planned → bring every shard to it → mark the nodes → fill the lists → append Applied
//	reveal   query the nodes → read the sale's log → close the entries of every shard → append
//	         EntriesClosed → Drawn → Ranked
//	destroy  as apply, to a closed generation → end transfers and holds → seal every shard →
//	         export → append Sealed → remove leases, markers, lists and logs → append Destroyed
//
// A step whose result is in a log already is skipped, so that every execution begins at the
// first. The knowledge about the plan in the sale's log only grows: unsent, sent, found or
// stored, carried out.
//
// Callers make the plan from a recent read, and check a saved one with Plan.Check.
package apply

import (
	"errors"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
)

// apply brings the sale to its newest generation. Others may have planned further generations
// since the plan was made: what the log has was accepted.
func (x *execution) apply() {
	x.core.Check(errors.Join(drawSeed(x.intent, x.Rand), drawSecret(x.intent, x.Rand, x.DrawKey)))
	x.readNodes()
	x.checkNodes()
	x.provideTable()
	x.enter() // reads the sale's log, stores payloads and appends Planned
	x.rollOut()
	x.mark()
	x.fillLists()
	changed, noted := x.core.Changed, x.sale.Applied() >= x.goal
	x.noteApplied()
	if noted && x.plan.Kind == planner.KindPhase { // the note adds nothing
		x.core.Changed = changed
	}
	x.result.Generation = x.goal
	x.result.Shortfall = x.shortfall(x.goal)
	x.result.Packets = ledger.PacketsStatusOf(x.sale)
	x.finished(planner.SaleAddress(x.plan.Sale), "")
}

// noteApplied records in the sale's log that every shard has a generation, and which lock
// nodes have no marker. A destroy that was overtaken by another continues, and discovers that
// when it reads a shard.
//
// A change of phase that has not stored its plan itself always appends the note: it had
// nothing to plan, or another had planned the same. The phase of the sale is known to it only
// from a read, and that read may lag behind the next change. If the note can be stored, no
// change came before it.
func (x *execution) noteApplied() {
	goal, unmarked := x.goal, x.unmarked
	x.begin("appending Applied")
	x.note(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: goal, Unmarked: unmarked}}}, func() bool {
		ours, live := x.sale.UID() == x.plan.UID, x.sale.Live()
		if ours && !live && x.overtaken != nil {
			return true
		}
		if !ours || !live {
			x.stale("was destroyed meanwhile")
		}
		if x.plan.Kind == planner.KindPhase && x.planned != stored {
			if x.sale.Generation() > x.plan.Generation {
				x.core.Fail(x.plan.Changed(x.sale))
			}
			return false
		}
		if x.sale.Applied() < goal && x.otherNodes(goal) { // a process could begin to serve it on those nodes
			x.stale("was declared on other nodes meanwhile")
		}
		return x.sale.Applied() > goal || x.sale.Applied() == goal && slices.Equal(x.sale.Unmarked(), unmarked)
	})
}

// shortfall returns how many more units the shards have than declared, because the units were
// claimed before their removal. A shard that has taken a later generation makes the number
// unknown, and 0 is returned, as it is for plans other than apply and for a closed sale.
func (x *execution) shortfall(goal uint64) int64 {
	p := x.sale.Planned(goal)
	old, err := planner.Declared(p)
	if err != nil || x.plan.Kind != planner.KindApply || p.GetSettings().GetPhase() == pb.Phase_CLOSED {
		return 0
	}
	var have int64
	for _, s := range x.shards {
		if s.head.Generation != goal {
			return 0
		}
		have += s.head.Limit
	}
	return max(0, have-old.Stock)
}

// enter reads the sale's log, and appends the plan unless the log has it. If the run has ended,
// the plan is stale, or overtaken continues.
func (x *execution) enter() {
	x.begin("reading the sale's log")
	x.readSale()
	for {
		switch x.plan.Standing(x.intent, x.sale) {
		case planner.IsDue:
			x.storeUnits()
			if x.appendPlanned() {
				return
			}
		case planner.IsPlanned:
			x.core.Check(x.checkClock())
			x.planned, x.seenAt = found, x.core.Now.Mono
			if x.intent != nil && x.sale.Applied() >= x.plan.Generation {
				x.planned = carriedOut
			}
			return
		case planner.IsEnded:
			x.planned = found
			if x.sale.Destroyed() {
				x.planned = carriedOut
			}
			if x.overtaken == nil {
				x.stale("was destroyed since the plan was made")
			}
			x.core.Become(x.overtaken)
		case planner.IsBehind:
			if x.lags++; x.lags > lagTries {
				x.stale("is at slot %d of its log, the plan was made at %d", x.sale.Next(), x.plan.Slot)
			}
			x.core.Sleep(lagPause)
			x.begin("reading the sale's log")
			x.readSale()
		default:
			x.core.Fail(x.plan.Changed(x.sale))
		}
	}
}

// appendPlanned appends the plan. It returns false if another writer took the slot, perhaps
// another execution of this plan.
func (x *execution) appendPlanned() bool {
	x.core.Check(errors.Join(x.checkClock(), x.checkLists(x.intent)))
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: x.intent}})
	x.core.Check(err)
	x.begin("appending Planned")
	x.planned = sent
	e := x.log.Append(entry)
	for e == ledger.Again {
		// A sale's own log is never deleted, so a repeated create restores nothing.
		x.core.Sleep(againPause)
		e = x.log.Resend()
	}
	switch e {
	case ledger.Committed:
		x.planned, x.seenAt = stored, x.core.Now.Mono
		return true
	case ledger.Taken:
	default:
		x.reopenSale()
	}
	return false
}

// againPause is the wait before an unstored create is sent again.
const againPause = 50 * time.Millisecond
