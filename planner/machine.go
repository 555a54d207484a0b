package planner

import (
	"context"
	"fmt"
	"io"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/units"
)

// Machine reads a sale, or carries out a plan, without goroutines, clock or I/O. Its owner
// makes the calls that it returns and passes it the time. Apply, Destroy and ReadActual do so
// with goroutines; a simulation does so on virtual time, and loses, delays and repeats calls.
// A Machine may be dropped at any point, which equals a killed process.
type Machine struct {
	core    *core
	first   func()            // first event; nil: there is nothing to do
	stop    func(error)       // ends it early
	outcome func(error) error // converts the final error for the caller
	state   fmt.Stringer

	begun bool
	done  bool
	err   error
}

// Terms are the parameters of a Machine.
type Terms struct {
	Nodes  []string // names of the lock nodes, by Call.Node
	Lists  []string // names of the list nodes, by Call.Node; as Config.Lists
	Table  string   // table of the logs; "": they need none
	Writer []byte   // 8 bytes that no other process uses
	Rand   io.Reader
	Who    string
	// CancelHolds is Config.CancelHolds.
	CancelHolds bool
	// Patience is Config.Patience.
	Patience time.Duration
	Progress func(Progress) // may be nil
	Sizes    lists.Sizes    // of the calls on lists; 0: the defaults
	Units    *NewUnits      // payloads of the units that the plan adds; nil: units are numbers
	Key      *units.Key     // decrypts payloads; nil: units are numbers, or public
	DrawKey  *units.Key     // encrypts and decrypts the secret of a draw; nil: no draw
	// ReadTries is the number of consecutive reads of a sale's own log without progress after
	// which it counts as unreadable; 0: as many as fit into Patience.
	ReadTries int
	// ReadTimeout is Config.ReadTimeout, used if ReadTries is not 0.
	ReadTimeout time.Duration
}

func (c Config) terms() Terms {
	t := Terms{
		Writer: c.Writer, Rand: c.Rand, Units: c.Units, Key: c.Key, DrawKey: c.DrawKey, Who: c.Who, CancelHolds: c.CancelHolds, Patience: c.Patience, Progress: c.Progress, ReadTries: ledger.ReadTries, ReadTimeout: c.ReadTimeout,
		Nodes: quorum.Names(c.Nodes), Lists: quorum.Names(c.Lists),
	}
	if named := namedTable(c); named != nil {
		t.Table = named.Name
	}
	return t
}

func (t Terms) patience() time.Duration {
	if t.Patience > 0 {
		return t.Patience
	}
	return defaultPatience
}

// Next returns the calls to make now and the monotonic time of the next Tick; 0: none. It must
// be called after every input. When done is true, err is the result of ReadActual, Apply or
// Destroy.
func (m *Machine) Next(now clock.Now) (made []calls.Call, wake time.Duration, done bool, err error) {
	switch {
	case m.begun || m.core.over:
	case m.first == nil:
		m.done = true
	default:
		m.begun = true
		m.core.step(now, m.first)
	}
	if m.core.over && !m.done {
		m.done, m.err = true, m.outcome(m.core.err)
	}
	made, m.core.calls = m.core.calls, nil
	return made, m.core.wake(), m.done, m.err
}

// String describes the progress of the machine for people.
func (m *Machine) String() string { return m.state.String() }

// Tick processes the timers that are due.
func (m *Machine) Tick(now clock.Now) { m.core.tick(now) }

// Stop ends the machine, like the end of Apply's context. cause is that of the context: at a
// timeout it is or wraps context.DeadlineExceeded. The error states the progress of the
// machine.
func (m *Machine) Stop(now clock.Now, cause error) {
	cause = fmt.Errorf("%w (%v)", cause, m)
	m.core.step(now, func() { m.stop(cause) })
}

// NewReading returns a machine that reads a sale: its log, the heads of its shards, then all
// lock nodes at once, then the list nodes. It checks the table of the logs meanwhile. The
// Actual is complete when the machine is done without an error.
func NewReading(t Terms, sale string) (*Machine, *Actual) {
	r := newReading(t, sale)
	return r.machine(), r.actual
}

// NewLockNodeReading is NewReading for a ledger that cannot be read: it queries the lock nodes only.
func NewLockNodeReading(t Terms, sale string) (*Machine, *Actual) {
	r := newReading(t, sale)
	r.blind = true
	return r.machine(), r.actual
}

func (r *reading) machine() *Machine {
	r.core.told = r.terms.Progress
	return &Machine{core: r.core, first: r.start, stop: r.core.end, state: r, outcome: r.outcome}
}

// NewExecution returns a machine that carries out a plan; a plan of destroy needs an Exporter.
// The Result is set when the machine is done. An empty plan of MakePhase is confirmed by a
// note in the sale's log.
func NewExecution(t Terms, plan *Plan, export Exporter) (*Machine, *Result, error) {
	if plan.Kind == KindDestroy && export == nil {
		return nil, nil, fmt.Errorf("%w: a plan of destroy needs somewhere to export to", ErrBadPlan)
	}
	return newMachine(t, plan, export, false)
}

func newMachine(t Terms, plan *Plan, export Exporter, rehearsal bool) (*Machine, *Result, error) {
	x, err := newExecution(t, plan)
	if err != nil {
		return nil, nil, err
	}
	x.core.told, x.exporter = t.Progress, export
	return &Machine{core: x.core, first: x.first(rehearsal), stop: x.stop, state: x, outcome: x.outcome}, &x.result, nil
}

// Exporter writes the ledger of a sale to its final location before its logs are deleted. It
// returns that location and the SHA-256 of the bytes, which are durable if err is nil. It may
// be called again for the same bytes.
type Exporter func(ctx context.Context, logs ledger.Logs, e *Export) (path string, digest []byte, err error)
