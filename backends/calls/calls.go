// Package calls is the calls that step machines want made. A machine never makes one
// itself: whoever runs it makes them, in goroutines or on virtual time.
package calls

import (
	"context"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// Call is one call of the store or of a node that a step machine wants made.
type Call struct {
	Node int    // index into the lock nodes, or Store
	List bool   // Node is an index into the nodes that keep lists
	What string // the step that it is, as in "append planned", for traces and failpoints
	// Timeout is how long to wait for the reply; 0: for ever. When it has passed, Took
	// is due with context.DeadlineExceeded, and the call may come in all the same.
	Timeout time.Duration
	// Make makes the call where Node is, and returns the reply. It uses only the one
	// of logs, node and list that it is for, and touches nothing of the machine. It may
	// be called late, several times or not at all; a call with List is sent once at most.
	Make func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any
	// Took takes the reply in, or, if there is none, why. It is due once.
	Took func(now clock.Now, reply any, err error)
}

// Store is the Node of a call that goes to where the logs are.
const Store = -1

// Ends are where calls go.
type Ends struct {
	Logs  ledger.Logs
	Nodes []quorum.Node
	Lists []lists.Node
}

// Do makes the call within its timeout, and returns the reply.
func (c Call) Do(ctx context.Context, to Ends) any {
	if c.Timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, c.Timeout)
		defer cancel()
		ctx = bounded
	}
	switch {
	case c.Node == Store:
		return c.Make(ctx, to.Logs, nil, nil)
	case c.List:
		return c.Make(ctx, nil, nil, to.Lists[c.Node])
	}
	return c.Make(ctx, to.Logs, to.Nodes[c.Node], nil)
}
