// Package machine runs the jobs of the planner as step machines: a Job requests calls and
// continues with their replies, and its owner makes the calls and passes the time. Core runs
// the tasks of a Job, Log drives one log in them.
//
// The package guarantees:
//   - A Job sees one event at a time and never blocks. The same events cause the same calls.
//   - A failed call is repeated until it succeeds or the patience of the Job has passed; a call
//     that is not permitted fails at once.
//   - Run returns only after every call has ended.
//
// A Machine is new, then runs, then is done; Stop and Drop lead to done from either.
package machine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// Machine runs a Job without clock or I/O. Its owner makes the calls that it returns and passes
// it the time. Backends.Run does so with goroutines; a simulation does so on virtual time, and
// loses, delays and repeats calls. A Machine may be dropped at any point, which equals a killed
// process.
type Machine struct {
	core *Core
	job  Job

	begun bool
	done  bool
	err   error
}

// Job is the work of a Machine.
type Job interface {
	// Run does the work, as a task of the Core.
	Run()
	// Stop ends the job early, for a cause.
	Stop(cause error)
	// Outcome converts the error with which the job has ended for the caller.
	Outcome(err error) error
	// String describes the progress of the job for people.
	String() string
}

// New returns a Machine that runs a job, whose steps are those of a Core.
func New(core *Core, job Job) *Machine { return &Machine{core: core, job: job} }

// Next returns the calls to make now and the monotonic time of the next Tick; 0: none. It must
// be called after every input. When done is true, err is the outcome of the job.
func (m *Machine) Next(now clock.Now) (made []calls.Call, wake time.Duration, done bool, err error) {
	if !m.begun && !m.core.Over {
		m.begun = true
		m.core.Step(now, func() { m.core.Start(m.job.Run) })
	}
	if m.core.Over && !m.done {
		m.done, m.err = true, m.job.Outcome(m.core.Err)
	}
	made, m.core.Calls = m.core.Calls, nil
	return made, m.core.Wake(), m.done, m.err
}

// String describes the progress of the job for people.
func (m *Machine) String() string { return m.job.String() }

// Tick processes the timers that are due.
func (m *Machine) Tick(now clock.Now) { m.core.Tick(now) }

// Stop ends the job, like the end of Run's context. cause is that of the context: at a timeout
// it is or wraps context.DeadlineExceeded. The error states the progress of the job.
func (m *Machine) Stop(now clock.Now, cause error) {
	cause = fmt.Errorf("%w (%v)", cause, m)
	m.core.Step(now, func() { m.job.Stop(cause) })
}

// Drop frees a Machine that is not run to its end.
func (m *Machine) Drop() {
	m.core.Over = true
	m.core.drop()
}

// Run makes a Machine's calls, each in a goroutine, and passes it the time until it is done.
// When ctx ends, it stops the Machine, cancels pending calls and waits for them. sale is named
// in the log.
func (b Backends) Run(ctx context.Context, sale string, m *Machine) error {
	making := calls.NewMaking(context.WithoutCancel(ctx), b.Clock, func(ctx context.Context, k calls.Call) any { return b.Do(ctx, sale, k) })
	defer making.End()
	for {
		made, wake, done, err := m.Next(b.Clock())
		if done {
			return err
		}
		making.Make(made)
		switch due, err := making.Await(ctx, wake); {
		case err != nil:
			m.Stop(b.Clock(), err)
		case due:
			m.Tick(b.Clock())
		}
	}
}

// Do makes one call of a Machine and returns the Reply.
func (b Backends) Do(ctx context.Context, sale string, k calls.Call) any {
	made := k.Do(ctx, calls.Ends{Logs: b.Logs, Nodes: b.Nodes, Lists: b.Lists})
	if err := made.(Reply).Err; err != nil {
		cmp.Or(b.Logger, discard).DebugContext(ctx, "a call failed", "sale", sale, "call", k.What, "error", err)
	}
	return made
}

// Backends are the servers of a sale, and what a Machine that works on them needs beside.
type Backends struct {
	Logs  ledger.Logs
	Nodes []quorum.Node
	// Lists are the list nodes of a sale of engine redis, in the order of the sale file; empty
	// for engine ledger.
	Lists []lists.Node
	Clock clock.Clock
	// Rand is the source of the uid of a new sale and of the seed of its red packets. It must
	// be unpredictable.
	Rand io.Reader
	// Logger receives failures that are retried. Nil discards them.
	Logger *slog.Logger
	// Patience is how long all calls to one log, or to a majority of the nodes, may fail
	// before a Machine returns an error; 0 means 10 s.
	Patience time.Duration
	// ReadTimeout bounds the read of a sale's own log and the heads of its shards, which then
	// fails with ErrStore; 0 means 30 s. The lock nodes are read after them and have their own
	// timeouts.
	ReadTimeout time.Duration
}

// Names are the names of Backends, and the parameters that every Machine has.
type Names struct {
	Nodes    []string // names of the lock nodes, by Call.Node
	Lists    []string // names of the list nodes, by Call.Node; as Backends.Lists
	Table    string   // table of the logs; "": they need none
	Rand     io.Reader
	Patience time.Duration // as Backends.Patience
}

// Names returns the names of the backends.
func (b Backends) Names() Names {
	n := Names{Nodes: quorum.Names(b.Nodes), Lists: quorum.Names(b.Lists), Rand: b.Rand, Patience: b.Patience}
	if t, ok := b.Logs.(ledger.Table); ok {
		n.Table = t.Table()
	}
	return n
}

var discard = slog.New(slog.DiscardHandler)
