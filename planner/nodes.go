package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/text"
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

// infos returns what the nodes reported about themselves.
func (a *Actual) infos() (nodes []quorum.NodeInfo) {
	for _, n := range a.Nodes {
		nodes = append(nodes, n.NodeInfo)
	}
	return nodes
}

// Faults returns the faults of the lock nodes.
func (a *Actual) Faults() []quorum.Fault { return quorum.Judge(a.infos()) }

// ClockWasSet reports that a node without a clock of its own does not believe this host's clock.
func ClockWasSet(by time.Duration) string {
	way := "forward"
	if by < 0 {
		way = "back"
	}
	return fmt.Sprintf("this host's clock was set %s by %v, and no time server keeps it right", way, by.Abs().Round(time.Second))
}

// Votes counts the votes of a sale's lock nodes.
type Votes struct {
	Nodes  int
	Voting int // nodes that answer and do not abstain
}

// Majority returns the number of votes that a lease needs.
func (v Votes) Majority() int { return v.Nodes/2 + 1 }

// String describes what the votes mean for the sale.
func (v Votes) String() string {
	text := fmt.Sprintf("lock nodes that vote: %d of %d; ", v.Voting, v.Nodes)
	switch spare := v.Voting - v.Majority(); {
	case spare < 0:
		return text + fmt.Sprintf("no process can sell with fewer than %d", v.Majority())
	case spare == 0:
		return text + "none may fail"
	default:
		return text + fmt.Sprintf("%d may fail", spare)
	}
}

// Votes counts the nodes that vote on the sale's leases now. A node without a marker abstains
// from the first request for a lease on.
func (a *Actual) Votes() Votes {
	v := Votes{Nodes: len(a.Nodes)}
	for _, n := range a.Nodes {
		if n.MarkerState() == MarkerGood {
			v.Voting++
		}
	}
	return v
}

// States of a node's marker.
const (
	MarkerGood       = "good"
	MarkerMissing    = "missing"
	MarkerAbstaining = "abstaining" // the marker is good, and the node does not vote yet
	MarkerUnknown    = "unknown"    // the node could not be queried
)

// MarkerState returns the state of the sale's marker on the node.
func (n NodeActual) MarkerState() string {
	switch {
	case n.Err != nil:
		return MarkerUnknown
	case !n.Marker.Good:
		return MarkerMissing
	case n.Marker.VotesFrom.After(n.Info.Time):
		return MarkerAbstaining
	}
	return MarkerGood
}

// ShortNodeError returns a node's error in one short line for display beside its name.
func ShortNodeError(err error) string {
	if word, ok := CommonError(err); ok {
		return word
	}
	return short(quorum.ErrorText(err))
}

// ShortError returns an error in one short line.
func ShortError(err error) string {
	if word, ok := CommonError(err); ok {
		return word
	}
	return short(err.Error())
}

// CommonError returns a fixed text for common errors.
func CommonError(err error) (string, bool) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time", true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", true
	}
	return "", false
}

// shortLine is the maximum length of an error in a list or table, in bytes.
const shortLine = 160

func short(s string) string { return text.Short(s, shortLine) }
