package planner

import (
	"fmt"
	"strings"
	"time"

	"salectl/backends/quorum"
)

// CheckNodes refuses a change while nodes are unfit, with each node's own description. A list
// node also needs a right clock, since the units of its shards are on no other node. Of nodes
// that only vote an execution compares the median.
func CheckNodes(nodes []quorum.NodeInfo, keepLists bool) error {
	var unfit []string
	for _, f := range quorum.Judge(nodes) {
		if keepLists || !f.Clock {
			unfit = append(unfit, f.Node+": "+f.Why)
		}
	}
	if unfit == nil {
		return nil
	}
	return &Refusal{Reason: "lock nodes are not set up as they must be", Remedy: strings.Join(unfit, "\n")}
}

// asked returns what the nodes reported about themselves.
func (a *Actual) asked() (nodes []quorum.NodeInfo) {
	for _, n := range a.Nodes {
		nodes = append(nodes, quorum.NodeInfo{Name: n.Name, Info: n.Info, Err: n.Err, Off: n.Off})
	}
	return nodes
}

// Faults returns the faults of the lock nodes.
func (a *Actual) Faults() []quorum.Fault { return quorum.Judge(a.asked()) }

// ClockWasSet says that a node without a clock of its own does not believe this host's clock.
func ClockWasSet(by time.Duration) string {
	way := "forward"
	if by < 0 {
		way = "back"
	}
	return fmt.Sprintf("this host's clock was set %s by %v, and no time server keeps it right", way, by.Abs().Round(time.Second))
}

// TrustRemedy is the remedy in warnings and refusals about a host's clock that was set.
const TrustRemedy = "Set it right; if it is right now and was wrong before, run 'salectl apply --trust-clock'."
