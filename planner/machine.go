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
	"salectl/spec"
	"salectl/units"
)

// Machine reads a sale, or carries out a plan, without goroutines, clock and I/O.
// Whoever has it makes the calls that it asks for and tells it the time: Apply,
// Destroy and ReadActual do that with goroutines, a simulation on virtual time,
// where calls are lost, late and repeated. A Machine that is dropped was killed.
type Machine struct {
	core    *core
	first   func()            // the event that it begins with; nil: there is nothing to do
	stop    func(error)       // ends it early
	outcome func(error) error // what its end means to the caller
	export  Exporter
	told    func(Progress)
	state   fmt.Stringer

	begun bool
	calls []calls.Call // that nobody has seen yet
	wake  time.Duration
	done  bool
	err   error
}

// Terms are what a Machine goes by.
type Terms struct {
	Nodes  []string // the lock nodes' names, by Call.Node
	Lists  []string // those of the nodes that keep lists, likewise; as Config.Lists
	Table  string   // that the logs are kept in; "": they need none
	Writer []byte   // 8 bytes that no other process has
	Rand   io.Reader
	Who    string
	// CancelHolds is that of Config.
	CancelHolds bool
	// Patience is that of Config.
	Patience time.Duration
	Progress func(Progress) // may be nil
	Sizes    lists.Sizes    // of the calls about lists; 0: the usual ones
	Units    *NewUnits      // what the units are that the plan adds; nil where they are numbers
	Key      *units.Key     // opens what the units are; nil where they are numbers, or public
	DrawKey  *units.Key     // seals the secret of a draw, and opens it to be revealed; nil where none is drawn
	// ReadTries is how many reads of a sale's own log may bring nothing, one after
	// the other, before it counts as not to be read; 0: as many as fit into Patience.
	ReadTries int
	// ReadTimeout is that of Config, where there are ReadTries.
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

// Next returns what is to be done after any input: the calls to make now, and
// when to call Tick by the monotonic clock, 0 for no need. When it is done, err
// is what ReadActual, Apply or Destroy return.
func (m *Machine) Next(now clock.Now) (made []calls.Call, wake time.Duration, done bool, err error) {
	if !m.begun && !m.done {
		m.begun = true
		if m.first == nil {
			m.end(nil)
		} else {
			m.take(m.core.step(now, m.first))
		}
	}
	made, m.calls = m.calls, nil
	return made, m.wake, m.done, m.err
}

// String says where the machine is, for people.
func (m *Machine) String() string { return m.state.String() }

// Tick says that time has come to the last wake.
func (m *Machine) Tick(now clock.Now) {
	if m.begun && !m.done {
		m.take(m.core.tick(now))
	}
}

// Stop ends the machine, as the end of Apply's context does. The cause is that of the
// context: where the time is up, it is context.DeadlineExceeded or wraps it. The error says
// where the machine was.
func (m *Machine) Stop(now clock.Now, cause error) {
	if !m.done {
		cause = fmt.Errorf("%w (%v)", cause, m)
		m.take(m.core.step(now, func() { m.stop(cause) }))
	}
}

func (m *Machine) take(out effects) {
	for _, k := range out.calls {
		m.calls = append(m.calls, m.newCall(k))
	}
	for _, p := range out.progress {
		if m.told != nil {
			m.told(p)
		}
	}
	m.wake = out.wake
	if out.done {
		m.end(m.outcome(out.err))
	}
}

func (m *Machine) end(err error) { m.done, m.err, m.calls, m.wake = true, err, nil, 0 }

func (m *Machine) newCall(k call) calls.Call {
	c := calls.Call{Node: calls.Store, What: k.name(), Timeout: k.kind.timeout()}
	if k.kind.onNode() || k.kind.onList() {
		c.Node, c.List = k.node, k.kind.onList()
	}
	c.Make = func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any {
		return k.perform(ctx, logs, node, list, m.export)
	}
	c.Took = func(now clock.Now, made any, err error) {
		if m.done {
			return
		}
		r := k.unanswered(err)
		if err == nil {
			r = made.(reply)
		}
		m.take(m.core.reply(now, r))
	}
	return c
}

// unanswered is the reply to a call of which nobody knows what came of it.
func (k call) unanswered(err error) reply {
	if k.kind == callLog {
		return reply{id: k.id, log: ledger.Reply{Err: err}}
	}
	return reply{id: k.id, err: err}
}

// perform makes a call.
func (k call) perform(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node, export Exporter) reply {
	r := reply{id: k.id}
	switch k.kind {
	case callLog:
		r.log = k.request.Do(ctx, logs)
	case callHeads:
		r.heads, r.err = logs.Heads(ctx, k.logs)
	case callDelete:
		r.err = logs.Delete(ctx, k.log, k.upTo)
	case callCheckTable:
		r.err = logs.(ledger.Table).CheckTable(ctx)
	case callCreateTable:
		r.err = logs.(ledger.Table).CreateTable(ctx)
	case callInfo:
		if r.info, r.err = node.Info(ctx); r.err == nil && k.sale != "" {
			marker, err := node.ReadMarker(ctx, spec.SaleMarker(k.sale))
			if r.marker = marker; r.info.Unfit == "" { // else that is why
				r.err = err
			}
		}
	case callReadMarker:
		r.marker, r.err = node.ReadMarker(ctx, k.marker)
	case callMark:
		if r.err = node.Mark(ctx, k.marker, k.runID); r.err == nil && k.sale != "" {
			r.err = node.Mark(ctx, spec.SaleMarker(k.sale), "")
		}
	case callReadLeases, callFindOwner, callFindLeases:
		r.holdings, r.err = node.List(ctx, k.prefix)
	case callRelease:
		_, r.err = node.Release(ctx, k.asks)
	case callForget:
		if r.err = node.Forget(ctx, k.marker); r.err == nil {
			r.err = node.Forget(ctx, spec.SaleMarker(k.sale))
		}
	case callStep:
		r.step = k.step.Do(ctx, list)
		r.err = r.step.Err
	case callInspect:
		r.state, r.err = list.Inspect(ctx, k.list)
	case callForgetList:
		r.err = list.Forget(ctx, k.list)
	case callSettings:
		r.settings, r.err = list.Settings(ctx)
	case callExport:
		r.path, r.digest, r.err = export(ctx, logs, k.export)
	case callReadUnits:
		r.payload, r.err = k.units.payload(k.rand, k.log, k.plan, k.added, k.first)
	}
	return r
}

// How long a call may take. Of an append that takes longer the outcome is
// unknown, and asked for. A table takes longer to make, and an export reads all
// logs: it takes what it takes.
const (
	callTimeout  = 5 * time.Second
	tableTimeout = time.Minute
	nodeTimeout  = 2 * time.Second
)

// onNode reports whether a call is one to a lock node, onList whether to a node that
// keeps lists.
func (k callKind) onNode() bool { return k >= callInfo && k <= callForget }
func (k callKind) onList() bool { return k >= callStep && k <= callSettings }

func (k callKind) timeout() time.Duration {
	switch {
	case k.onNode() || k.onList():
		return nodeTimeout
	case k == callCreateTable:
		return tableTimeout
	case k == callExport:
		return 0
	}
	return callTimeout
}

// NewReading returns a machine that reads a sale: its log, the heads of its shards,
// then all lock nodes at once, and those that keep lists. The table of the logs is
// looked at meanwhile. What it has read is in the Actual when it is done without
// an error.
func NewReading(t Terms, sale string) (*Machine, *Actual) {
	r := newReading(t, sale)
	return r.machine(), r.actual
}

// NewLook is NewReading that asks the lock nodes alone, where the ledger cannot be read.
func NewLook(t Terms, sale string) (*Machine, *Actual) {
	r := newReading(t, sale)
	r.blind = true
	return r.machine(), r.actual
}

func (r *reading) machine() *Machine {
	return &Machine{
		core: r.core, first: r.start, stop: r.core.end, state: r, outcome: r.outcome, told: r.terms.Progress,
	}
}

// NewExecution returns a machine that carries out a plan; one of destroy needs an
// Exporter. What it came to is in the Result when it is done. An empty plan of
// MakePhase is made sure of by a note in the sale's log.
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
	return &Machine{
		core: x.core, first: x.first(rehearsal), stop: x.stop, state: x, outcome: x.outcome, told: t.Progress, export: export,
	}, &x.result, nil
}

// Exporter writes the ledger of a sale to where it is kept when its logs are
// deleted, and returns where that is and the SHA-256 of its bytes. When it returns
// nil they are safe. It may be called again for the same bytes.
type Exporter func(ctx context.Context, logs ledger.Logs, e *Export) (path string, digest []byte, err error)
