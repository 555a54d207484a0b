package planner

import (
	"context"
	"errors"
	"fmt"
	"salectl/internal/text"
	"strings"
	"syscall"
)

// Votes is what a sale's lock nodes come to.
type Votes struct {
	Nodes  int
	Voting int // of them, those that answer and do not abstain
}

// Majority is how many votes a lease takes.
func (v Votes) Majority() int { return v.Nodes/2 + 1 }

// String says what the votes mean for the sale.
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

// Votes counts the nodes that vote on the sale's leases now. A node without a
// marker begins to abstain as soon as it is asked for one.
func (a *Actual) Votes() Votes {
	v := Votes{Nodes: len(a.Nodes)}
	for _, n := range a.Nodes {
		if n.marker() == markerGood {
			v.Voting++
		}
	}
	return v
}

// How a node's marker stands.
const (
	markerGood       = "good"
	markerMissing    = "missing"
	markerAbstaining = "abstaining" // it is good, and does not let the node vote yet
	markerUnknown    = "unknown"    // the node could not be asked
)

func (n NodeActual) marker() string {
	switch {
	case n.Err != nil:
		return markerUnknown
	case !n.Marker.Good:
		return markerMissing
	case n.Marker.VotesFrom.After(n.Info.Time):
		return markerAbstaining
	}
	return markerGood
}

// nodeShort is what a node answered instead, beside its name: without the name,
// and without what a driver adds in brackets for those who look deeper. Only then
// is it cut: a driver's words end with the remedy.
func nodeShort(name string, err error) string {
	if word, ok := inAWord(err); ok {
		return word
	}
	words, _, _ := strings.Cut(err.Error(), " (")
	return short(strings.TrimPrefix(words, "lock node "+name+": "))
}

// inShort is an error in one short line.
func inShort(err error) string {
	if word, ok := inAWord(err); ok {
		return word
	}
	return short(err.Error())
}

// inAWord is an error that needs no other words.
func inAWord(err error) (string, bool) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time", true
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused", true
	}
	return "", false
}

// shortLine is how many bytes of an error stand in a list or table.
const shortLine = 160

func short(s string) string { return text.Short(s, shortLine) }
