package apply

import "salectl/planner/plannertest"

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
	packets   = plannertest.Packets
	paid      = plannertest.Paid
	choosy    = plannertest.Choosy
	onServers = plannertest.OnServers
	requestOf = plannertest.RequestOf
	commitOf  = plannertest.CommitOf
)
