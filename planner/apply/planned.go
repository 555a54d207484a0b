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
func (x *execution) enter() {
	x.begin(readingSale)
	x.readSale()
	for {
		switch x.standing() {
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
			x.begin(readingSale)
			x.readSale()
		default:
			x.stale("has changed since the plan was made")
		}
	}
}

// appendPlanned appends the plan. It returns false if another writer took the slot, perhaps
// another execution of this plan.
func (x *execution) appendPlanned() bool {
	x.core.Check(errors.Join(x.checkClock(), x.checkLists(x.intent)))
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: x.intent}})
	x.core.Check(err)
	x.begin(appendingPlanned)
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

// standing compares the log, read to its end, with the plan.
func (x *execution) standing() planner.Standing { return x.plan.Standing(x.intent, x.sale) }
