package machine

import (
	"cmp"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// appendNames replaces names of ledger.OpNames for appends.
var appendNames = map[string]string{
	"in":     "drive in",  // receives units that another shard has sent, for an absent owner
	"ack":    "drive out", // ends a transfer that was received
	"settle": "expire",    // ends holds
	"claim":  "drain",     // appends the grabs of a stream
}

// unitsLogs is the suffix of the logs of payloads.
const unitsLogs = "/units"

// name describes a call of the driver. An append is named after its op, so that tests can kill
// a command at each kind of append.
func (t *Log) name(r *ledger.Request) string {
	switch {
	case r.Kind == ledger.AppendRequest:
		return appendName(t.sent.Commit, r.Slot)
	case strings.HasPrefix(r.Log, spec.SaleLog("")):
		return "read sale"
	case strings.HasSuffix(r.Log, unitsLogs):
		return "read payloads"
	}
	return "read shard"
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
