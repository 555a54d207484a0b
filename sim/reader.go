package sim

import (
	"context"
	"errors"
	"iter"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// readMachine runs code that reads the ledger and waits, such as an audit, as a process: a
// coroutine that goes on when the world has made its call, or when its time has come. The code
// is the one that ships; ledger.Paced is how it reads.
type readMachine struct {
	resume  func() (readStep, bool)
	stop    func()
	yield   func(readStep) bool
	stopped bool

	now  clock.Now
	step *readStep // that the code waits for; nil: a call is under way
	err  error     // of the call or wait that has ended
	done bool
}

var _ ledger.Paced = (*readMachine)(nil)

// readStep is what the code waits for: a call of the store, or a time.
type readStep struct {
	what string
	make func(context.Context, ledger.Logs) any // nil: none
	took func(reply any)
	wake time.Duration
}

// readTimeout is how long a reply is waited for.
const readTimeout = 5 * time.Second

var errKilled = errors.New("the process was killed")

// newReadMachine returns a machine that runs a function. end has to be called.
func newReadMachine(run func(ctx context.Context, logs ledger.Logs)) *readMachine {
	m := new(readMachine)
	m.resume, m.stop = iter.Pull(func(yield func(readStep) bool) {
		m.yield = yield
		run(context.Background(), m)
	})
	return m
}

// end lets the code return, if it has not.
func (m *readMachine) end() {
	m.stopped = true
	m.stop()
}

// await has the world do a step, from the code.
func (m *readMachine) await(s readStep) error {
	if m.stopped || !m.yield(s) {
		m.stopped = true
		return errKilled
	}
	return m.err
}

func (m *readMachine) tick(now clock.Now) {
	m.now = now
	if m.step != nil && m.step.make == nil && now.Mono >= m.step.wake {
		m.goOn(nil)
	}
}

// goOn lets the code run to its next step.
func (m *readMachine) goOn(err error) {
	m.err, m.step = err, nil
	s, more := m.resume()
	if m.done = !more; more {
		m.step = &s
	}
}

func (m *readMachine) next(now clock.Now) (made []calls.Call, wake time.Duration, gone bool) {
	if m.now = now; m.resume != nil && !m.begun() {
		m.goOn(nil)
	}
	switch s := m.step; {
	case m.done:
		return nil, 0, true
	case s == nil:
		return nil, 0, false
	case s.make == nil:
		return nil, s.wake, false
	default:
		m.step = nil
		return []calls.Call{{
			Node: calls.Store, What: s.what, Timeout: readTimeout,
			Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any { return s.make(ctx, logs) },
			Took: func(now clock.Now, reply any, err error) {
				m.now = now
				if err == nil {
					s.took(reply)
				}
				m.goOn(err)
			},
		}}, 0, false
	}
}

// begun reports whether the code runs.
func (m *readMachine) begun() bool { return m.yield != nil }

// Now is ledger.Paced's.
func (m *readMachine) Now() clock.Now { return m.now }

// Wait is ledger.Paced's.
func (m *readMachine) Wait(_ context.Context, d time.Duration) error {
	return m.await(readStep{wake: m.now.Mono + max(d, 1)})
}

// Read is ledger.Logs's.
func (m *readMachine) Read(_ context.Context, log string, from uint64, most int) ([]byte, [][]byte, error) {
	type reply struct {
		head    []byte
		entries [][]byte
		err     error
	}
	var got reply
	err := m.await(readStep{
		what: "look into a log",
		make: func(ctx context.Context, logs ledger.Logs) any {
			head, entries, err := logs.Read(ctx, log, from, most)
			return reply{head, entries, err}
		},
		took: func(r any) { got = r.(reply) },
	})
	return got.head, got.entries, errors.Join(got.err, err)
}

// Heads is ledger.Logs's.
func (m *readMachine) Heads(_ context.Context, names []string) ([][]byte, error) {
	type reply struct {
		heads [][]byte
		err   error
	}
	var got reply
	err := m.await(readStep{
		what: "look at heads",
		make: func(ctx context.Context, logs ledger.Logs) any {
			heads, err := logs.Heads(ctx, names)
			return reply{heads, err}
		},
		took: func(r any) { got = r.(reply) },
	})
	return got.heads, errors.Join(got.err, err)
}

// Append is ledger.Logs's. A reader does not write.
func (m *readMachine) Append(context.Context, string, uint64, []byte, []byte, []byte) error {
	panic("a reader appends")
}

// Delete is ledger.Logs's.
func (m *readMachine) Delete(context.Context, string, uint64) error { panic("a reader deletes") }
