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

// Machine reads a sale, or carries out a plan, without goroutines, clock or I/O. Its owner
// makes the calls that it returns and passes it the time. Apply, Destroy and ReadActual do so
// with goroutines; a simulation does so on virtual time, and loses, delays and repeats calls.
// A Machine may be dropped at any point, which equals a killed process.
type Machine struct {
	core    *core
	first   func()            // first event; nil: there is nothing to do
	stop    func(error)       // ends it early
	outcome func(error) error // converts the final error for the caller
	export  Exporter
	told    func(Progress)
	state   fmt.Stringer

	begun bool
	calls []calls.Call // not returned by Next yet
	wake  time.Duration
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

// String describes the progress of the machine for people.
func (m *Machine) String() string { return m.state.String() }

// Tick processes the timers that are due.
func (m *Machine) Tick(now clock.Now) {
	if m.begun && !m.done {
		m.take(m.core.tick(now))
	}
}

// Stop ends the machine, like the end of Apply's context. cause is that of the context: at a
// timeout it is or wraps context.DeadlineExceeded. The error states the progress of the
// machine.
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

// unanswered returns the reply to a call whose outcome is unknown.
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
			if r.marker = marker; r.info.Unfit == "" { // else Unfit is why
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

// Timeouts of calls. The outcome of an append that times out is unknown, and read back. Making
// a table takes longer. An export reads all logs and has no timeout.
const (
	callTimeout  = 5 * time.Second
	tableTimeout = time.Minute
	nodeTimeout  = 2 * time.Second
)

// onNode reports whether a call is to a lock node; onList, whether it is to a list node.
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

// NewReading returns a machine that reads a sale: its log, the heads of its shards, then all
// lock nodes at once, then the list nodes. It checks the table of the logs meanwhile. The
// Actual is complete when the machine is done without an error.
func NewReading(t Terms, sale string) (*Machine, *Actual) {
	r := newReading(t, sale)
	return r.machine(), r.actual
}

// NewLook is NewReading for a ledger that cannot be read: it queries the lock nodes only.
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
	return &Machine{
		core: x.core, first: x.first(rehearsal), stop: x.stop, state: x, outcome: x.outcome, told: t.Progress, export: export,
	}, &x.result, nil
}

// Exporter writes the ledger of a sale to its final location before its logs are deleted. It
// returns that location and the SHA-256 of the bytes, which are durable if err is nil. It may
// be called again for the same bytes.
type Exporter func(ctx context.Context, logs ledger.Logs, e *Export) (path string, digest []byte, err error)
