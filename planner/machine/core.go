package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/spec"
)

// Core is the base of the step machines of apply and destroy. Its events are start, the reply to
// a call, tick and stop, each with the time; it collects the calls to make. The steps of a job
// are straight code in tasks, which are coroutines. A task that waits for a reply, a time or
// other tasks returns control to the event, and one task runs at a time. The machine never
// blocks and has no clock or I/O. The same events cause the same calls.
type Core struct {
	Now       clock.Now
	Calls     []calls.Call // to make
	timers    []timer      // by time, then by order of registration
	tasks     []*task      // that have not ended
	running   *task
	successor func() // job that replaces the present one

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

// task is a coroutine.
type task struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	waits  int   // number of its waits; what wakes it from an earlier one is ignored
	late   error // with which it fails when it is resumed; see Within
}

// A task ends early by a panic: failure at Fail, unwound where the machine ends or Become
// replaces the job.
type (
	failure struct{ error }
	unwound struct{}
)

// FirstPause and LastPause bound the wait before a failed call is repeated; window is the
// number of tasks of Each.
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
	for c.successor != nil && !c.Over {
		job := c.successor
		c.successor = nil
		c.drop()
		c.Start(job)
	}
	if c.Over {
		c.drop()
		c.Calls = nil
	}
}

// drop ends all tasks.
func (c *Core) drop() {
	for _, t := range c.tasks {
		t.waits++
		t.stop()
	}
	c.tasks, c.timers = nil, nil
}

// Start runs a job as a task. The machine ends when the job returns.
func (c *Core) Start(job func()) {
	c.Go(func() {
		job()
		c.Over = true
	})
}

// Become replaces the job by another. All tasks end, pending calls are still made, and their
// replies are ignored.
func (c *Core) Become(job func()) {
	c.successor = job
	panic(unwound{})
}

// Fail ends the machine with an error, and the running task.
func (c *Core) Fail(err error) {
	if c.running != nil {
		panic(failure{err})
	}
	if !c.Over {
		c.Over, c.Err = true, err
	}
}

// Check fails unless err is nil.
func (c *Core) Check(err error) {
	if err != nil {
		c.Fail(err)
	}
}

// Go runs a task until it waits or ends.
func (c *Core) Go(do func()) {
	t := new(task)
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			switch r := recover().(type) {
			case nil, unwound:
			case failure:
				c.Over, c.Err = true, r.error
			default:
				panic(r)
			}
		}()
		do()
	})
	c.tasks = append(c.tasks, t)
	c.resume(t)
}

// resume continues a task until it waits or ends. A task that has resumed another ends too if
// that has ended the job.
func (c *Core) resume(t *task) {
	by := c.running
	c.running = t
	_, waits := t.resume()
	c.running = by
	if !waits {
		c.tasks = slices.DeleteFunc(c.tasks, func(other *task) bool { return other == t })
	}
	if by != nil && (c.Over || c.successor != nil) {
		panic(unwound{})
	}
}

// Wait suspends the running task until the function that begin receives is called.
func (c *Core) Wait(begin func(wake func())) {
	t := c.running
	t.waits++
	wait := t.waits
	begin(func() {
		if t.waits == wait {
			t.waits++
			c.resume(t)
		}
	})
	if !t.yield(struct{}{}) {
		panic(unwound{})
	}
	if err := t.late; err != nil {
		t.late = nil
		panic(failure{err})
	}
}

// Within runs do, which must return within d. It returns the error with which do failed, or
// late. With d 0, do may take any time.
func (c *Core) Within(d time.Duration, late error, do func()) (err error) {
	t, ended := c.running, false
	if d > 0 {
		c.at(c.Now.Mono+d, func() {
			if !ended {
				t.waits++
				t.late = late
				c.resume(t)
			}
		})
	}
	defer func() {
		ended = true
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	do()
	return nil
}

// Each runs do for each i below n, at most window at a time, and returns when all are done.
func (c *Core) Each(n int, do func(i int)) {
	next, left := 0, min(n, window)
	var wake func()
	for range left {
		c.Go(func() {
			for next < n {
				next++
				do(next - 1)
			}
			if left--; left == 0 && wake != nil {
				wake()
			}
		})
	}
	if left > 0 {
		c.Wait(func(all func()) { wake = all })
	}
}

// Wake returns the monotonic time at which to call Tick; 0: none.
func (c *Core) Wake() time.Duration {
	if len(c.timers) == 0 {
		return 0
	}
	return c.timers[0].at
}

// Tick resumes the tasks that are due.
func (c *Core) Tick(now clock.Now) {
	c.Step(now, func() {
		for len(c.timers) > 0 && c.timers[0].at <= now.Mono && !c.Over && c.successor == nil {
			first := c.timers[0]
			c.timers = c.timers[1:]
			first.then()
		}
	})
}

// at calls then at a monotonic time.
func (c *Core) at(mono time.Duration, then func()) {
	i, _ := slices.BinarySearchFunc(c.timers, mono, func(t timer, mono time.Duration) int {
		if t.at <= mono {
			return -1
		}
		return 1
	})
	c.timers = slices.Insert(c.timers, i, timer{mono, then})
}

// SleepUntil waits for a monotonic time.
func (c *Core) SleepUntil(mono time.Duration) { c.Wait(func(wake func()) { c.at(mono, wake) }) }

// Sleep waits for d.
func (c *Core) Sleep(d time.Duration) { c.SleepUntil(c.Now.Mono + d) }

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

// OnStore makes a call of the store of logs and returns its result.
func OnStore[R any](c *Core, what string, timeout time.Duration, do func(context.Context, ledger.Logs) (R, error)) (R, error) {
	return send[R](c, calls.Call{Node: calls.Store, What: what, Timeout: timeout, Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any {
		value, err := do(ctx, logs)
		return Reply{value, err}
	}})
}

// OnNode is OnStore for a lock node.
func OnNode[R any](c *Core, node int, what string, do func(context.Context, quorum.Node) (R, error)) (R, error) {
	return send[R](c, calls.Call{Node: node, What: what, Timeout: nodeTimeout, Make: func(ctx context.Context, _ ledger.Logs, node quorum.Node, _ lists.Node) any {
		value, err := do(ctx, node)
		return Reply{value, err}
	}})
}

// OnList is OnStore for a node with lists.
func OnList[R any](c *Core, node int, what string, do func(context.Context, lists.Node) (R, error)) (R, error) {
	return send[R](c, calls.Call{Node: node, List: true, What: what, Timeout: nodeTimeout, Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any {
		value, err := do(ctx, list)
		return Reply{value, err}
	}})
}

func send[R any](c *Core, k calls.Call) (R, error) {
	var r Reply
	c.Wait(func(wake func()) {
		k.Took = func(now clock.Now, made any, err error) {
			if r.Err = err; err == nil {
				r = made.(Reply)
			}
			c.Step(now, wake)
		}
		c.Calls = append(c.Calls, k)
	})
	if r.Err != nil {
		c.Worry = r.Err
	}
	value, _ := r.Value.(R)
	return value, r.Err
}

// NoValue adapts a call that returns only an error.
func NoValue[N any](do func(context.Context, N) error) func(context.Context, N) (any, error) {
	return func(ctx context.Context, to N) (any, error) { return nil, do(ctx, to) }
}

// retry makes an idempotent call to the ledger's store until it succeeds or patience runs out.
// subject names its object for errors.
func retry[R any](c *Core, subject, what string, do func(context.Context, ledger.Logs) (R, error)) R {
	began, pause := c.Now.Mono, FirstPause
	for {
		r, err := OnStore(c, what, CallTimeout, do)
		switch {
		case err == nil:
			return r
		case errors.Is(err, fs.ErrPermission):
			c.Fail(&planner.StoreError{Err: fmt.Errorf("%s: %w", subject, err)})
		case c.Now.Mono-began > c.Patience:
			c.Fail(&planner.StoreError{Tried: c.Patience, Err: fmt.Errorf("%s: %w", subject, err)})
		}
		c.Sleep(pause)
		pause = min(2*pause, LastPause)
	}
}

// ReadHeads reads the heads of logs until that succeeds or patience runs out.
func (c *Core) ReadHeads(logs []string) [][]byte {
	return retry(c, "the heads of the shards", "read heads", func(ctx context.Context, from ledger.Logs) ([][]byte, error) {
		return from.Heads(ctx, logs)
	})
}

// DeleteLog deletes a log up to a slot, like ReadHeads.
func (c *Core) DeleteLog(log string, upTo uint64) {
	retry(c, "log "+log, "delete", NoValue(func(ctx context.Context, from ledger.Logs) error { return from.Delete(ctx, log, upTo) }))
}

// CheckTable checks the table of the logs.
func (c *Core) CheckTable() error {
	check := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CheckTable(ctx) }
	_, err := OnStore(c, "check table", CallTimeout, NoValue(check))
	return err
}

// Info reads the identity and time of a node.
func (c *Core) Info(node int) (quorum.Info, error) {
	return OnNode(c, node, "info", func(ctx context.Context, node quorum.Node) (quorum.Info, error) { return node.Info(ctx) })
}

// ReadMarker reads the marker of a run on a node.
func (c *Core) ReadMarker(node int, uid string) (quorum.Marker, error) {
	marker := spec.Marker(uid)
	return OnNode(c, node, "read marker", func(ctx context.Context, node quorum.Node) (quorum.Marker, error) {
		return node.ReadMarker(ctx, marker)
	})
}

// Leases reads the leases on a node whose keys begin with a prefix.
func (c *Core) Leases(node int, what, prefix string) ([]quorum.Holding, error) {
	return OnNode(c, node, what, func(ctx context.Context, node quorum.Node) ([]quorum.Holding, error) { return node.List(ctx, prefix) })
}

// Inspect queries the state of a list on a node.
func (c *Core) Inspect(node int, list lists.List) (lists.State, error) {
	return OnList(c, node, "inspect list", func(ctx context.Context, node lists.Node) (lists.State, error) { return node.Inspect(ctx, list) })
}
