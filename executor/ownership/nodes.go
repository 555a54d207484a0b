package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// NodeStatus is the health of a lock node, as seen by this process. Since is the start of the state, or the
// time of the first call.
type NodeStatus struct {
	api.Node
	Failures int               // failed calls in a row
	Ahead    time.Duration     // how far its clock is ahead of the median of the nodes' clocks; 0 if unknown
	Errors   map[string]uint64 // number by kind; replaced, never modified
}

// String describes the fault of the node. It is "" if there is none.
func (n NodeStatus) String() string {
	switch {
	case !n.Up:
		return fmt.Sprintf("%s is down since %s: %s", n.Name, n.Since.UTC().Format(time.RFC3339), n.Error)
	case !n.VotesFrom.IsZero():
		return fmt.Sprintf("%s lost its memory and votes again at %s", n.Name, n.VotesFrom.UTC().Format(time.RFC3339))
	}
	return ""
}

// Nodes is the health of the lock nodes, derived from their replies.
type Nodes []NodeStatus

// NewNodes returns a Nodes of these names, without any reply.
func NewNodes(names []string) Nodes {
	w := make(Nodes, len(names))
	for i, name := range names {
		w[i] = NodeStatus{Node: api.Node{Name: name, Error: "it has not answered yet"}}
	}
	return w
}

// silent reports whether so many nodes fail or abstain that the others are no majority. While too
// few have replied to decide, it returns before.
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

// Called records a call of a node. Only the first has an effect.
func (w Nodes) Called(now clock.Now, node int) {
	if n := &w[node]; n.Since.IsZero() {
		n.Since = now.Wall
	}
}

// Replied records the result of a call.
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
		err := v.Err
		if e, is := errors.AsType[*quorum.NodeError](err); is { // every display shows the name beside the error
			err = errors.New(e.Text())
		}
		n.Error, n.VotesFrom = shard.OneLine(err), time.Time{}
		n.Failures++
		n.Errors = maps.Clone(n.Errors)
		if n.Errors == nil {
			n.Errors = make(map[string]uint64)
		}
		n.Errors[quorum.ErrorKind(v.Err)]++
	}
}

// clock updates the offset of a node's clock.
func (w Nodes) clock(now clock.Now, node int, lease *quorum.Group) {
	median, known := lease.ClockOff(now)
	if off, replied := lease.NodeClockOff(now, node); known && replied {
		w[node].Ahead = median - off
	}
}

// Status returns a copy of the nodes' states.
func (w Nodes) Status() []NodeStatus { return slices.Clone([]NodeStatus(w)) }

// Permitted returns an error if so many lock nodes deny this process the right to write that the
// others are no majority. Such a process could never own a shard of the run. Permitted removes a
// random member from the run's list on each node, which needs that right and changes nothing. A
// node that does not answer may do so later. Permitted returns as soon as the result is certain,
// after shard.CallTimeout at most.
func Permitted(ctx context.Context, nodes []quorum.Node, uid string) error {
	ctx, cancel := context.WithTimeout(ctx, shard.CallTimeout)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	errs, replied := make([]error, len(nodes)), make(chan int, len(nodes))
	for i, n := range nodes {
		running.Go(func() {
			_, errs[i] = n.Announce(ctx, registryOf(uid), quorum.Member{ID: quorum.RandomToken()}, 0)
			replied <- i
		})
	}
	others := 0
	for range nodes {
		if !errors.Is(errs[<-replied], fs.ErrPermission) {
			others++
		}
		if 2*others > len(nodes) {
			return nil
		}
	}
	var all []string
	for i, err := range errs {
		if err != nil {
			all = append(all, fmt.Sprintf("%s: %s", nodes[i].Name(), quorum.ErrorText(err)))
		}
	}
	return fmt.Errorf("too few lock nodes permit this process to take leases: %s", strings.Join(all, "; "))
}
