package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"salectl/internal/text"
)

// Votes counts the votes of a sale's lock nodes.
type Votes struct {
	Nodes  int
	Voting int // nodes that answer and do not abstain
}

// Majority returns the number of votes that a lease needs.
func (v Votes) Majority() int { return v.Nodes/2 + 1 }

// String describes what the votes mean for the sale.
func (v Votes) String() string {
	spare := v.Voting - v.Majority()
	switch {
	case v.Nodes == 1 && v.Voting == 1:
		return "the only lock node votes"
	case v.Nodes == 1:
		return "the only lock node does not vote: no process can sell before it does"
	case v.Voting == 0:
		return fmt.Sprintf("none of %d lock nodes votes: no process can sell before %d do", v.Nodes, v.Majority())
	case v.Voting == 1:
		return fmt.Sprintf("only 1 of %d lock nodes votes: no process can sell before %d do", v.Nodes, v.Majority())
	case spare < 0:
		return fmt.Sprintf("only %d of %d lock nodes vote: no process can sell before %d do", v.Voting, v.Nodes, v.Majority())
	}
	may := "no other"
	switch {
	case spare == 1 && v.Voting == v.Nodes:
		may = "one"
	case v.Voting == v.Nodes:
		may = fmt.Sprint(spare)
	case spare > 0:
		may = fmt.Sprintf("%d more", spare)
	}
	return fmt.Sprintf("%d of %d lock nodes vote: %s may fail", v.Voting, v.Nodes, may)
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

// ShortNodeError shortens a node's error for display beside its name: it drops the name and the
// driver's details in brackets. Only then it cuts the text, which ends with the remedy.
func ShortNodeError(name string, err error) string {
	if word, ok := CommonError(err); ok {
		return word
	}
	words, _, _ := strings.Cut(err.Error(), " (")
	return short(strings.TrimPrefix(words, "lock node "+name+": "))
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
