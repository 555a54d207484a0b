package machine

import (
	"cmp"
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
	"salectl/planner"
)

// Core is the base of the step machines of apply and destroy. Its events are start, the reply to
// a call, tick and stop, each with the time; it collects the calls to make. A continuation is a
// function that is called at a reply or at a time. The machine never blocks and has no
// goroutine, clock or I/O. The same events give the same calls.
type Core struct {
	Now    clock.Now
	Calls  []calls.Call // to make
	timers []timer      // by time, then by order of registration
	task   int          // number of calls of Leave

	Over    bool
	Err     error // why the machine failed, if it did
	Changed bool  // the job has changed something

	Patience time.Duration
	Worry    error // error of the last call that failed
}

type timer struct {
	at   time.Duration
	then func()
}

// FirstPause and LastPause bound the wait before a failed call is repeated; window is the
// number of shards processed at a time.
const (
	FirstPause = 20 * time.Millisecond
	LastPause  = time.Second
	window     = 64
)

// defaultPatience is the default of Backends.Patience.
const defaultPatience = 10 * time.Second

// NewCore returns a Core with a patience; 0 is the default.
func NewCore(patience time.Duration) *Core {
	return &Core{Patience: cmp.Or(max(patience, 0), defaultPatience)}
}

// Step runs an event.
func (c *Core) Step(now clock.Now, event func()) {
	if c.Over {
		return
	}
	c.Now = now
	event()
	if c.Over {
		c.Calls, c.timers = nil, nil
	}
}

// Wake returns the monotonic time at which to call Tick; 0: none.
func (c *Core) Wake() time.Duration {
	if len(c.timers) == 0 {
		return 0
	}
	return c.timers[0].at
}

// Leave drops all pending continuations, so that another task can begin. Pending calls are
// still made, and their replies are ignored.
func (c *Core) Leave() {
	c.task++
	c.timers = nil
}

// Tick runs the continuations that are due.
func (c *Core) Tick(now clock.Now) {
	c.Step(now, func() {
		for len(c.timers) > 0 && c.timers[0].at <= now.Mono && !c.Over {
			first := c.timers[0]
			c.timers = c.timers[1:]
			first.then()
		}
	})
}

// Timeouts of calls. The outcome of an append that times out is unknown, and read back. An
// export reads all logs and has no timeout.
const (
	CallTimeout = 5 * time.Second
	nodeTimeout = 2 * time.Second
)

// Reply is the result of a call.
type Reply struct {
	Value any
	Err   error
}

// OnStore makes a call of the store of logs and continues with its result.
func OnStore[R any](c *Core, what string, timeout time.Duration, do func(context.Context, ledger.Logs) (R, error), then func(R, error)) {
	send(c, then, calls.Call{Node: calls.Store, What: what, Timeout: timeout, Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any {
		value, err := do(ctx, logs)
		return Reply{value, err}
	}})
}

// OnNode is OnStore for a lock node.
func OnNode[R any](c *Core, node int, what string, do func(context.Context, quorum.Node) (R, error), then func(R, error)) {
	send(c, then, calls.Call{Node: node, What: what, Timeout: nodeTimeout, Make: func(ctx context.Context, _ ledger.Logs, node quorum.Node, _ lists.Node) any {
		value, err := do(ctx, node)
		return Reply{value, err}
	}})
}

// OnList is OnStore for a node with lists.
func OnList[R any](c *Core, node int, what string, do func(context.Context, lists.Node) (R, error), then func(R, error)) {
	send(c, then, calls.Call{Node: node, List: true, What: what, Timeout: nodeTimeout, Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any {
		value, err := do(ctx, list)
		return Reply{value, err}
	}})
}

func send[R any](c *Core, then func(R, error), k calls.Call) {
	task := c.task
	k.Took = func(now clock.Now, made any, err error) {
		r := Reply{Err: err}
		if err == nil {
			r = made.(Reply)
		}
		c.Step(now, func() {
			if task != c.task {
				return // see Leave
			}
			if r.Err != nil {
				c.Worry = r.Err
			}
			value, _ := r.Value.(R)
			then(value, r.Err)
		})
	}
	c.Calls = append(c.Calls, k)
}

// NoValue adapts a call that returns only an error.
func NoValue[N any](do func(context.Context, N) error) func(context.Context, N) (any, error) {
	return func(ctx context.Context, to N) (any, error) { return nil, do(ctx, to) }
}

// At continues at a monotonic time.
func (c *Core) At(mono time.Duration, then func()) {
	i, _ := slices.BinarySearchFunc(c.timers, mono, func(t timer, mono time.Duration) int {
		if t.at <= mono {
			return -1
		}
		return 1
	})
	c.timers = slices.Insert(c.timers, i, timer{mono, then})
}

// After continues after d.
func (c *Core) After(d time.Duration, then func()) { c.At(c.Now.Mono+d, then) }

// retry makes an idempotent call to the ledger's store until it succeeds or patience runs out.
// subject names its object for errors.
func retry[R any](c *Core, subject, what string, do func(context.Context, ledger.Logs) (R, error), then func(R)) {
	began, pause := c.Now.Mono, FirstPause
	var again func()
	again = func() {
		OnStore(c, what, CallTimeout, do, func(r R, err error) {
			switch {
			case err == nil:
				then(r)
			case errors.Is(err, fs.ErrPermission):
				c.End(fmt.Errorf("%w: %s: %w", planner.ErrStore, subject, err))
			case c.Now.Mono-began > c.Patience:
				c.End(fmt.Errorf("%w, tried for %v: %s: %w", planner.ErrStore, c.Patience, subject, err))
			default:
				c.After(pause, again)
				pause = min(2*pause, LastPause)
			}
		})
	}
	again()
}

// Steps runs steps one after the other. Each calls its argument once it is done, and does not if
// the job ends or continues elsewhere.
func (c *Core) Steps(steps ...func(then func())) {
	if len(steps) > 0 {
		steps[0](func() { c.Steps(steps[1:]...) })
	}
}

// All runs do for each i below n at once, and continues when all are done.
func (c *Core) All(n int, do func(i int, done func()), then func()) {
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

// Each runs do for every number of list, at most window at a time, and continues when all are
// done.
func (c *Core) Each(list []int, do func(i int, done func()), then func()) {
	next, busy, pumping := 0, 0, false
	var pump func()
	pump = func() {
		if pumping {
			return // do was done at once; the loop below goes on
		}
		pumping = true
		for next < len(list) && busy < window && !c.Over {
			i := list[next]
			next, busy = next+1, busy+1
			do(i, func() { busy--; pump() })
		}
		pumping = false
		if busy == 0 && !c.Over {
			then()
		}
	}
	pump()
}

// End ends the machine.
func (c *Core) End(err error) {
	if !c.Over {
		c.Over, c.Err = true, err
	}
}
