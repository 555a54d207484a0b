package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// core is the base of the step machines of apply and destroy. Its events are start, the reply to
// a call, tick and stop, each with the time; it collects the calls to make. A continuation is a
// function that is called at a reply or at a time. The machine never blocks and has no
// goroutine, clock or I/O. The same events give the same calls.
type core struct {
	now    clock.Now
	calls  []calls.Call // to make
	timers []timer      // by time, then by order of registration
	task   int          // number of calls of leave

	over    bool
	err     error // why the machine failed, if it did
	changed bool  // see Result.Changed

	patience time.Duration
	worry    error // error of the last call that failed
}

type timer struct {
	at   time.Duration
	then func()
}

// firstPause and lastPause bound the wait before a failed call is repeated; window is the
// number of shards processed at a time.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	window     = 64
)

func newCore(patience time.Duration) *core { return &core{patience: patience} }

// step runs an event.
func (c *core) step(now clock.Now, event func()) {
	if c.over {
		return
	}
	c.now = now
	event()
	if c.over {
		c.calls, c.timers = nil, nil
	}
}

// wake returns the monotonic time at which to call tick; 0: none.
func (c *core) wake() time.Duration {
	if len(c.timers) == 0 {
		return 0
	}
	return c.timers[0].at
}

// leave drops all pending continuations, so that another task can begin. Pending calls are
// still made, and their replies are ignored.
func (c *core) leave() {
	c.task++
	c.timers = nil
}

// tick runs the continuations that are due.
func (c *core) tick(now clock.Now) {
	c.step(now, func() {
		for len(c.timers) > 0 && c.timers[0].at <= now.Mono && !c.over {
			first := c.timers[0]
			c.timers = c.timers[1:]
			first.then()
		}
	})
}

// Timeouts of calls. The outcome of an append that times out is unknown, and read back. Making
// a table takes longer. An export reads all logs and has no timeout.
const (
	callTimeout  = 5 * time.Second
	tableTimeout = time.Minute
	nodeTimeout  = 2 * time.Second
)

// Reply is the result of a call.
type Reply struct {
	Value any
	Err   error
}

// onStore makes a call of the store of logs and continues with its result.
func onStore[R any](c *core, what string, timeout time.Duration, do func(context.Context, ledger.Logs) (R, error), then func(R, error)) {
	send(c, then, calls.Call{Node: calls.Store, What: what, Timeout: timeout, Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any {
		value, err := do(ctx, logs)
		return Reply{value, err}
	}})
}

// onNode is onStore for a lock node.
func onNode[R any](c *core, node int, what string, do func(context.Context, quorum.Node) (R, error), then func(R, error)) {
	send(c, then, calls.Call{Node: node, What: what, Timeout: nodeTimeout, Make: func(ctx context.Context, _ ledger.Logs, node quorum.Node, _ lists.Node) any {
		value, err := do(ctx, node)
		return Reply{value, err}
	}})
}

// onList is onStore for a node with lists.
func onList[R any](c *core, node int, what string, do func(context.Context, lists.Node) (R, error), then func(R, error)) {
	send(c, then, calls.Call{Node: node, List: true, What: what, Timeout: nodeTimeout, Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any {
		value, err := do(ctx, list)
		return Reply{value, err}
	}})
}

func send[R any](c *core, then func(R, error), k calls.Call) {
	task := c.task
	k.Took = func(now clock.Now, made any, err error) {
		r := Reply{Err: err}
		if err == nil {
			r = made.(Reply)
		}
		c.step(now, func() {
			if task != c.task {
				return // see leave
			}
			if r.Err != nil {
				c.worry = r.Err
			}
			value, _ := r.Value.(R)
			then(value, r.Err)
		})
	}
	c.calls = append(c.calls, k)
}

// noValue adapts a call that returns only an error.
func noValue[N any](do func(context.Context, N) error) func(context.Context, N) (any, error) {
	return func(ctx context.Context, to N) (any, error) { return nil, do(ctx, to) }
}

// at continues at a monotonic time.
func (c *core) at(mono time.Duration, then func()) {
	i, _ := slices.BinarySearchFunc(c.timers, mono, func(t timer, mono time.Duration) int {
		if t.at <= mono {
			return -1
		}
		return 1
	})
	c.timers = slices.Insert(c.timers, i, timer{mono, then})
}

// after continues after d.
func (c *core) after(d time.Duration, then func()) { c.at(c.now.Mono+d, then) }

// retry makes an idempotent call to the ledger's store until it succeeds or patience runs out.
// subject names its object for errors.
func retry[R any](c *core, subject, what string, do func(context.Context, ledger.Logs) (R, error), then func(R)) {
	began, pause := c.now.Mono, firstPause
	var again func()
	again = func() {
		onStore(c, what, callTimeout, do, func(r R, err error) {
			switch {
			case err == nil:
				then(r)
			case errors.Is(err, fs.ErrPermission):
				c.end(fmt.Errorf("%w: %s: %w", ErrStore, subject, err))
			case c.now.Mono-began > c.patience:
				c.end(fmt.Errorf("%w, tried for %v: %s: %w", ErrStore, c.patience, subject, err))
			default:
				c.after(pause, again)
				pause = min(2*pause, lastPause)
			}
		})
	}
	again()
}

// all runs do for each i below n at once, and continues when all are done.
func (c *core) all(n int, do func(i int, done func()), then func()) {
	left := n
	if n == 0 {
		then()
	}
	for i := range n {
		do(i, func() {
			if left--; left == 0 {
				then()
			}
		})
	}
}

// each runs do for every number of list, at most window at a time, and continues when all are
// done.
func (c *core) each(list []int, do func(i int, done func()), then func()) {
	next, busy, pumping := 0, 0, false
	var pump func()
	pump = func() {
		if pumping {
			return // do was done at once; the loop below goes on
		}
		pumping = true
		for next < len(list) && busy < window && !c.over {
			i := list[next]
			next, busy = next+1, busy+1
			do(i, func() { busy--; pump() })
		}
		pumping = false
		if busy == 0 && !c.over {
			then()
		}
	}
	pump()
}

// end ends the machine.
func (c *core) end(err error) {
	if !c.over {
		c.over, c.err = true, err
	}
}
