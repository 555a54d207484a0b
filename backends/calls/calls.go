// Package calls describes the calls that step machines request. A machine makes none itself:
// the code that runs it does, in goroutines or on virtual time.
package calls

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// Call is a call of the store or of a node, requested by a step machine.
type Call struct {
	Node int    // index of the lock node, or Store
	List bool   // Node is an index into the nodes with lists instead
	What string // the step, as in "append planned", for traces and failpoints
	// Timeout is how long to wait for the reply; 0: for ever. After it, Took must be called
	// with context.DeadlineExceeded; the call may nevertheless be executed.
	Timeout time.Duration
	// Make makes the call and returns the reply. It uses only the one of logs, node and list
	// that the call is for, and no state of the machine. It may be called late, several times
	// or not at all; a call with List is sent at most once.
	Make func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any
	// Took passes the machine the reply, or the error if there is none. It must be called once.
	Took func(now clock.Now, reply any, err error)
}

// Store is the Node of a call of the store of logs.
const Store = -1

// Ends are the destinations of calls.
type Ends struct {
	Logs  ledger.Logs
	Nodes []quorum.Node
	Lists []lists.Node
}

// Do makes the call within its timeout, and returns the reply.
func (c Call) Do(ctx context.Context, to Ends) any {
	if c.Timeout > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, &timeoutError{c.What, c.Timeout})
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

// timeoutError reports a call that was not answered within its timeout.
type timeoutError struct {
	what  string
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("no answer to %q within %v", e.what, e.after)
}
func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }

// OfLogs returns the call of the store that makes a request, within timeout. If no reply
// arrives, took gets a ledger.Reply with the error.
func OfLogs(what string, timeout time.Duration, r *ledger.Request, took func(clock.Now, ledger.Reply)) Call {
	return Call{
		Node: Store, What: what, Timeout: timeout,
		Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any { return r.Do(ctx, logs) },
		Took: taking(took, func(err error) ledger.Reply { return ledger.Reply{Err: err} }),
	}
}

// OfNode returns a lease machine's call of a lock node, named after its kind: a ballot that may
// acquire a lease is a vote, one that only extends leases a renewal; a roster's call is an
// announcement.
func OfNode(c quorum.Call, took func(clock.Now, quorum.Reply)) Call {
	return Call{
		Node: c.Node, What: ballotOf(c), Timeout: c.Timeout,
		Make: func(ctx context.Context, _ ledger.Logs, node quorum.Node, _ lists.Node) any { return c.Do(ctx, node) },
		Took: taking(took, func(err error) quorum.Reply { return quorum.Reply{Node: c.Node, Seq: c.Seq, Err: err} }),
	}
}

func ballotOf(c quorum.Call) string {
	switch {
	case c.Announce != nil:
		return "announce"
	case c.Vote == nil:
		return "release"
	case slices.ContainsFunc(c.Vote.Requests, func(a quorum.LeaseRequest) bool { return !a.Renew }):
		return "vote"
	}
	return "renew"
}

// OfList returns a call of a node with lists, within timeout.
func OfList[R any](node int, what string, timeout time.Duration, do func(context.Context, lists.Node) R, took func(clock.Now, R), failed func(error) R) Call {
	return Call{
		Node: node, List: true, What: what, Timeout: timeout,
		Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any { return do(ctx, list) },
		Took: taking(took, failed),
	}
}

// taking returns a Took function for replies of one type. failed returns the reply that
// reports an error.
func taking[R any](took func(clock.Now, R), failed func(error) R) func(clock.Now, any, error) {
	return func(now clock.Now, reply any, err error) {
		if err != nil {
			took(now, failed(err))
			return
		}
		took(now, reply.(R))
	}
}

// Making makes the calls of one step machine, each in a goroutine, and passes the replies to
// the goroutine that runs the machine, one by one.
type Making struct {
	clock   clock.Clock
	do      func(context.Context, Call) any
	ctx     context.Context // of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	replies chan func()
	timer   *time.Timer
}

// NewMaking returns a Making whose calls are made by do, within ctx. Its End must be called.
func NewMaking(ctx context.Context, clock clock.Clock, do func(context.Context, Call) any) *Making {
	m := &Making{clock: clock, do: do, replies: make(chan func()), timer: time.NewTimer(time.Hour)}
	m.ctx, m.cancel = context.WithCancel(ctx)
	return m
}

// Make starts calls.
func (m *Making) Make(made []Call) {
	for _, c := range made {
		m.running.Go(func() {
			reply := m.do(m.ctx, c)
			select {
			case m.replies <- func() { c.Took(m.clock(), reply, nil) }:
			case <-m.ctx.Done():
			}
		})
	}
}

// Await passes the next reply to the machine. If the monotonic time wake comes first, it
// returns due as true; 0 means never. An error is the cause of the end of ctx.
func (m *Making) Await(ctx context.Context, wake time.Duration) (due bool, err error) {
	var ticks <-chan time.Time
	if wake > 0 {
		m.timer.Reset(max(0, wake-m.clock().Mono))
		ticks = m.timer.C
	}
	select {
	case took := <-m.replies:
		took()
		return false, nil
	case <-ticks:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// End cancels the calls under way and waits for them. Their replies are dropped.
func (m *Making) End() {
	m.timer.Stop()
	m.cancel()
	m.running.Wait()
}
