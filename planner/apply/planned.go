package apply

import (
	"errors"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
)

// enter reads the sale's log, and appends the plan unless the log has it. If the run has ended,
// the plan is stale, or overtaken continues.
func (x *execution) enter(then func()) {
	x.begin(readingSale)
	x.readSale(func() { x.follow(then) })
}

func (x *execution) follow(then func()) {
	switch x.standing() {
	case planner.IsDue:
		x.storeUnits(func() { x.appendPlanned(then) })
	case planner.IsPlanned:
		if err := x.checkClock(); err != nil {
			x.core.End(err)
			return
		}
		x.planned, x.seenAt = found, x.core.Now.Mono
		if x.intent != nil && x.sale.Applied() >= x.plan.Generation {
			x.planned = carriedOut
		}
		then()
	case planner.IsEnded:
		x.planned = found
		if x.sale.Destroyed() {
			x.planned = carriedOut
		}
		if x.overtaken == nil {
			x.stale("was destroyed since the plan was made")
			return
		}
		x.overtaken()
	case planner.IsBehind:
		if x.lags++; x.lags <= lagTries {
			x.core.After(lagPause, func() { x.enter(then) })
			return
		}
		x.stale("is at slot %d of its log, the plan was made at %d", x.sale.Next(), x.plan.Slot)
	default:
		x.stale("has changed since the plan was made")
	}
}

func (x *execution) appendPlanned(then func()) {
	if err := errors.Join(x.checkClock(), x.checkLists(x.intent)); err != nil {
		x.core.End(err)
		return
	}
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: x.intent}})
	if err != nil {
		x.core.End(err)
		return
	}
	x.begin(appendingPlanned)
	x.planned = sent
	var outcome func(ledger.Event)
	outcome = func(e ledger.Event) {
		switch e {
		case ledger.Committed:
			x.planned, x.seenAt = stored, x.core.Now.Mono
			then()
		case ledger.Taken:
			// Perhaps by another execution of this plan.
			x.follow(then)
		case ledger.Again:
			// A sale's own log is never deleted, so a repeated create restores nothing.
			x.core.After(againPause, func() { x.log.Resend(outcome) })
		default:
			x.reopenSale(func() { x.follow(then) })
		}
	}
	x.log.Append(entry, outcome)
}

// againPause is the wait before an unstored create is sent again.
const againPause = 50 * time.Millisecond

// standing compares the log, read to its end, with the plan.
func (x *execution) standing() planner.Standing { return x.plan.Standing(x.intent, x.sale) }
