package apply

import (
	"salectl/planner/plannertest"
	"salectl/spec"
)

const workUID = plannertest.UID

var (
	epoch     = plannertest.Epoch
	said      = plannertest.Log
	plannedOp = plannertest.PlannedOp
	appliedOp = plannertest.AppliedOp
	sealedOp  = plannertest.SealedOp
	specOf    = plannertest.JSON
	tickets   = plannertest.Tickets
	with      = plannertest.With
	numbers   = plannertest.Numbers
	paid      = plannertest.Paid
	choosy    = plannertest.Choosy
	onServers = plannertest.OnServers
	requestOf = plannertest.RequestOf
	commitOf  = plannertest.CommitOf
)

// packets returns a sale of engine redis whose units are packets of money.
func packets(stock int64) spec.Sale {
	s := numbers(stock)
	s.RedPacket = &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 100 * stock, Min: 1, Split: spec.SplitRandom}
	return s
}
