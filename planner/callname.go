package planner

import (
	"cmp"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// kindNames are the names of a Machine's calls, except those on logs and of a lists.Machine.
var kindNames = map[callKind]string{
	callHeads:       "read heads",
	callDelete:      "delete",
	callCheckTable:  "check table",
	callCreateTable: "create table",
	callInfo:        "info",
	callReadMarker:  "read marker",
	callMark:        "mark", // for a new sale: the node votes at once
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

// stepNames are the names of the calls of a lists.Machine.
var stepNames = map[lists.CallKind]string{
	lists.InspectCall: "inspect list",
	lists.RunIDCall:   "ask list's run",
	lists.StopCall:    "stop list",
	lists.ReadCall:    "read stream",
	lists.PutCall:     "fill list",
	lists.StartCall:   "start list",
}

// appendNames replaces names of ledger.OpNames for appends.
var appendNames = map[string]string{
	"in":     "drive in",  // receives units that another shard has sent, for an absent owner
	"ack":    "drive out", // ends a transfer that was received
	"settle": "expire",    // ends holds
	"claim":  "drain",     // appends the grabs of a stream
}

// unitsLogs is the suffix of the logs of payloads.
const unitsLogs = "/units"

// name describes a call. An append is named after its op, so that tests can kill a command at
// each kind of append.
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

// appendName is the name of a commit's first op. The planner appends commits of several kinds
// of ops only to complete transfers and holds.
func appendName(c *pb.Commit, slot uint64) string {
	name := ledger.OpNames(c)[0]
	switch settings := c.GetOps()[0].GetGeneration().GetSettings(); {
	case name == "generation" && slot == 0:
		return "create shard"
	case settings.GetPhase() == pb.Phase_CLOSED:
		return "close" // final
	}
	return cmp.Or(appendNames[name], name)
}
