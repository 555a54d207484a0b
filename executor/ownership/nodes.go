package ownership

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// NodeStatus is a lock node as this process, which asks it all the time, sees it.
type NodeStatus struct {
	Name  string
	Up    bool      // it answered when it was last asked
	Since time.Time // when that began, or when this process first asked it
	Error string    // why it is not up, in one line
	// VotesFrom is set while the node abstains, because it lost its memory: when
	// it votes again, by its own clock.
	VotesFrom time.Time

	Failures int               // in a row
	Ahead    time.Duration     // of its clock, from the median of the nodes' clocks; 0 if unknown
	Errors   map[string]uint64 // by kind; replaced, never changed
}

// String says what is wrong with the node, "" if nothing is.
func (n NodeStatus) String() string {
	switch {
	case !n.Up:
		return fmt.Sprintf("%s is down since %s: %s", n.Name, n.Since.UTC().Format(time.RFC3339), n.Error)
	case !n.VotesFrom.IsZero():
		return fmt.Sprintf("%s lost its memory and votes again at %s", n.Name, n.VotesFrom.UTC().Format(time.RFC3339))
	}
	return ""
}

// Nodes is the health of the lock nodes, by their replies.
type Nodes []NodeStatus

// NewNodes returns the nodes of these names, of which nothing is known.
func NewNodes(names []string) Nodes {
	w := make(Nodes, len(names))
	for i, name := range names {
		w[i] = NodeStatus{Name: name, Error: "it has not answered yet"}
	}
	return w
}

// silent reports whether so many nodes fail or abstain that the others are no
// majority. While too few were heard to tell, it is as it was before.
func (w Nodes) silent(before bool) bool {
	silent, voting := 0, 0
	for i := range w {
		switch n := &w[i]; {
		case n.Failures > 0 || !n.VotesFrom.IsZero():
			silent++
		case n.Up:
			voting++
		}
	}
	return 2*silent >= len(w) || before && 2*voting <= len(w)
}

// Called notes a call of a node. Only the first counts.
func (w Nodes) Called(now clock.Now, node int) {
	if n := &w[node]; n.Since.IsZero() {
		n.Since = now.Wall
	}
}

// Replied takes in the result of a call.
func (w Nodes) Replied(now clock.Now, node int, v quorum.NodeView) {
	n := &w[node]
	n.VotesFrom = v.VotesFrom
	switch {
	case v.Err == nil && n.Up:
	case v.Err == nil:
		n.Up, n.Since, n.Error, n.Failures = true, now.Wall, "", 0
	default:
		if n.Up {
			n.Up, n.Since = false, now.Wall
		}
		// The name stands beside it wherever it is shown.
		n.Error, n.VotesFrom = strings.TrimPrefix(shard.OneLine(v.Err), "lock node "+n.Name+": "), time.Time{}
		n.Failures++
		n.Errors = maps.Clone(n.Errors)
		if n.Errors == nil {
			n.Errors = make(map[string]uint64)
		}
		n.Errors[quorum.ErrorKind(v.Err)]++
	}
}

// clock takes in what time a node has told.
func (w Nodes) clock(now clock.Now, node int, lease *quorum.Group) {
	median, known := lease.ClockOff(now)
	if off, told := lease.NodeClockOff(now, node); known && told {
		w[node].Ahead = median - off
	}
}

// Status returns a copy.
func (w Nodes) Status() []NodeStatus { return slices.Clone([]NodeStatus(w)) }
