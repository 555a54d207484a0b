package planner

import (
	"cmp"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// kindNames are what the calls of a Machine are called, other than those of logs and
// of a lists.Machine.
var kindNames = map[callKind]string{
	callHeads:       "read heads",
	callDelete:      "delete",
	callCheckTable:  "check table",
	callCreateTable: "create table",
	callInfo:        "info",
	callReadMarker:  "read marker",
	callMark:        "mark", // by a new sale: the node votes at once
	callReadLeases:  "read leases",
	callFindOwner:   "find owner",
	callFindLeases:  "sweep list",
	callRelease:     "sweep leases",
	callForget:      "sweep marker",
	callInspect:     "inspect list",
	callForgetList:  "forget list",
	callSettings:    "read settings",
	callExport:      "export",
	callReadUnits:   "read units",
}

// stepNames are those of the calls of a lists.Machine.
var stepNames = map[lists.CallKind]string{
	lists.InspectCall: "inspect list",
	lists.RunIDCall:   "ask list's run",
	lists.StopCall:    "stop list",
	lists.ReadCall:    "read stream",
	lists.PutCall:     "fill list",
	lists.StartCall:   "start list",
}

// appendNames are those of appends that ledger.OpNames calls otherwise.
var appendNames = map[string]string{
	"in":     "drive in",  // units that another shard has sent, for an owner that is away
	"ack":    "drive out", // the end of a transfer that was received
	"settle": "expire",    // the end of holds
	"claim":  "drain",     // what a stream held, into the log
}

// unitsLogs is what the logs of what units are end with.
const unitsLogs = "/units"

// name says what a call does. An append has the name of what it appends, so that each
// is a step at which a command may be killed.
func (k call) name() string {
	switch {
	case k.commit != nil:
		return appendName(k.commit, k.request.Slot)
	case k.kind == callLog && strings.HasPrefix(k.request.Log, spec.SaleLog("")):
		return "read sale"
	case k.kind == callLog && strings.HasSuffix(k.request.Log, unitsLogs):
		return "read payloads"
	case k.kind == callLog:
		return "read shard"
	case k.kind == callStep:
		return stepNames[k.step.Kind]
	case k.kind == callMark && k.runID == "":
		return "mend marker"
	}
	return kindNames[k.kind]
}

// appendName goes by the first op: the planner appends no commit of several
// kinds, except where it drives transfers and holds to their ends.
func appendName(c *pb.Commit, slot uint64) string {
	name := ledger.OpNames(c)[0]
	switch settings := c.GetOps()[0].GetGeneration().GetSettings(); {
	case name == "generation" && slot == 0:
		return "create shard"
	case settings.GetPhase() == pb.Phase_CLOSED:
		return "close" // for good
	}
	return cmp.Or(appendNames[name], name)
}
