package sim

import (
	"fmt"
	"slices"
)

// steps are the calls that executors and planners make, by the names that they
// give them.
var steps = []string{
	"append own", "append claims", "append out", "append in", "append ack", "append generation", "append mixed",
	"read sale", "read shard", "read back", "vote", "renew", "release",
	// A planner's.
	"read heads", "info", "read marker", "read leases", "planned", "create shard", "mark", "mend marker",
	"applied", "find owner", "generation", "close", "seal", "export", "sealed", "delete",
	"drive in", "drive out", "sweep list", "sweep leases", "sweep marker", "destroyed",
	// Where lists on nodes give the units; an owner's, then a planner's.
	"append rebuild", "grab", "list run id", "list stop", "list read", "list put", "list start", "list take", "list add", "list inspect",
	"read settings", "inspect list", "rebuild", "drain", "read list's run", "stop list", "read stream", "fill list", "start list",
	"forget list",
	// A feed's.
	"feed read", "feed heads",
	// A payment checker's.
	checkPayment,
	// An auditor's.
	"look into a log", "look at heads",
}

// happenings are the other events that a soak should contain.
var happenings = []string{
	"append stored", "append refused", "log deleted", "export written", "client vanished",
	"node came back empty", "node came back with old memory", "node came back with its memory",
	"fault: lost", "fault: late", "fault: late behind a partition", "fault: twice", "fault: crash",
	"fault: stale read", "fault: own append told taken", "fault: held up", "fault: repeated", "fault: all executors killed",
	"peer told in parts", "link full", "folder changed", "served by a reload", "isolated",
	"paid at the service", "payment failed at the service", "fault: webhook never sent", "fault: webhook late", "fault: webhook forged",
	"fault: connection lost", "fault: executor killed amid payments",
	"webhook answered: sold", "webhook answered: cancelled", "webhook answered: expired", "webhook answered: refunded", "webhook answered: not_held",
	"webhook answered: ignored", "webhook answered: rejected",
	"feed acted on", "feed ended", "feed gone", "fault: consumer killed", "fault: consumer paused",
	"audited", "exported while it goes on", "fault: auditor paused",
	"second run begun", "raised when sold out", "hours changed", "rules changed", "partial changed", "claim given a part", "claim given chosen units", "claim given adjacent units", "fault: users cannot be read",
	"claim sold", "claim sold_out", "claim limit_reached", "claim key_reused", "claim none_now", "claim units_taken", "claim not_adjacent", "claim paused",
	"claim closed", "claim standby", "claim no_quorum", "claim unknown", "claim overloaded", "claim draining",
	"claim not_open", "claim no_such_sale", "claim not_eligible", "claim not_checked", "claim without answer",
}

// Failpoints returns the names of all events that a soak should contain, so that a table
// shows what it never did.
func Failpoints() []string {
	names := append([]string(nil), happenings...)
	names = append(names, "fault: "+nodeHourOff, "fault: "+hostsAhead, "fault: "+drained)
	for _, f := range peerFaults {
		names = append(names, "fault: "+f.what)
	}
	for _, d := range slices.Concat(disasters, listDisasters) {
		names = append(names, "fault: "+d.what)
	}
	for _, a := range slices.Concat(ambushes, listAmbushes, doubts, unreadDoubts) {
		names = append(names, "fault: "+a.what)
	}
	for _, name := range wrongNames {
		names = append(names, "fault: "+name)
	}
	for _, step := range steps {
		for how := range ways {
			names = append(names, fmt.Sprintf("%s:%v", step, how))
		}
		for _, where := range crashPlaces {
			names = append(names, "crash "+where+" "+step)
		}
	}
	for _, kind := range []string{apply, pause, resume, closes, destroy} {
		names = append(names, "done: "+kind, "killed: "+kind)
	}
	return names
}
