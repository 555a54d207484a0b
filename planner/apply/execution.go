package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// execution is one execution of a plan, the common part of apply and destroy.
type execution struct {
	Terms // of the execution

	core     *machine.Core
	plan     *planner.Plan
	intent   *pb.Planned // op to append; nil: none
	nodes    []lockNode
	exporter Exporter // of a destroy
	// rehearsal makes a destroy delete everything, without an export.
	rehearsal bool
	result    Result

	// The sale's log. Only one operation at a time runs on it.
	sale *ledger.Sale
	log  *machine.Log
	lags int // reads that ended before the plan's slot

	stage stage  // for people
	waits string // what the stage waits for; "" for nothing but replies
	goal  uint64 // generation that the shards are brought to; 0: unknown

	tableMade bool // or may have been
	planned   planned
	// seenAt is when the sale's log was first known to have the plan.
	seenAt time.Duration
	// unclocked is set if this host's clock could not be compared with any other.
	unclocked bool

	shards []*machine.Log // by shard; nil: not read
	states []*ledger.State
	losses []int          // by shard: reads that found the log gone
	heads  []*ledger.Head // newest known heads
	// machines are those of lists that this process has begun to rebuild.
	machines []*lists.Machine

	rechecks   []func() // continuations that wait for another read of the sale's log
	rechecking bool
	// overtaken continues if another process has sealed the run. Nil: the plan is stale then.
	overtaken func()

	actions map[string]string // actions of the plan, by address
	done    int
}

// lockNode is a lock node as queried at the start.
type lockNode struct {
	name string
	info quorum.Info
	off  time.Duration // lead of this host's clock
	err  error

	restarted bool  // since the query
	unmarked  error // why the node has no marker of this execution
}

// Exporter writes the ledger of a sale to its final location before its logs are deleted. It
// returns that location and the SHA-256 of the bytes, which are durable if err is nil. It may
// be called again for the same bytes.
type Exporter func(ctx context.Context, logs ledger.Logs, e *Export) (path string, digest []byte, err error)

// NewExecution returns a Machine that carries out a plan; a plan of destroy needs an Exporter.
// The Result is set when the Machine is done. An empty plan of MakePhase is confirmed by a
// note in the sale's log.
func NewExecution(t Terms, plan *planner.Plan, export Exporter) (*machine.Machine, *Result, error) {
	if plan.Kind == planner.KindDestroy && export == nil {
		return nil, nil, fmt.Errorf("%w: a plan of destroy needs somewhere to export to", planner.ErrBadPlan)
	}
	x, err := newExecution(t, plan, export, false)
	if err != nil {
		return nil, nil, err
	}
	return machine.New(x.core, x), &x.result, nil
}

func newExecution(t Terms, plan *planner.Plan, export Exporter, rehearsal bool) (*execution, error) {
	planned, err := plan.Intent()
	if err != nil {
		return nil, err
	}
	if planned != nil {
		planned.PlanDigest, planned.Who = plan.Digest[:], t.Who
	}
	if err := errors.Join(t.Units.Check(planned), keyFits(plan, planned, t.Key)); err != nil {
		return nil, err
	}
	x := &execution{
		Terms: t, core: machine.NewCore(t.Patience), plan: plan, intent: planned, exporter: export, rehearsal: rehearsal,
		result:  Result{Sale: plan.Sale, UID: plan.UID},
		actions: make(map[string]string),
	}
	x.openSale()
	for _, name := range t.Nodes {
		x.nodes = append(x.nodes, lockNode{name: name})
	}
	for _, a := range plan.Actions {
		x.actions[a.Address] = a.Action
	}
	return x, nil
}

// drawSeed generates the seed of the amounts of a new red packet. The seed is in no plan: the
// readers of a saved plan would know the amounts before the buyers.
func drawSeed(planned *pb.Planned, rand io.Reader) error {
	if planned == nil {
		return nil
	}
	sale, err := planner.Declared(planned)
	if err != nil || sale.RedPacket == nil || planned.GetGeneration() != 1 {
		return err
	}
	planned.Seed = make([]byte, 32)
	if _, err := io.ReadFull(rand, planned.Seed); err != nil {
		return fmt.Errorf("drawing the seed of red packets: %w", err)
	}
	return nil
}

// openSale begins to read the sale's log from its first slot, with an empty state.
func (x *execution) openSale() { x.sale = x.openLog() }

// openLog begins to read the sale's log from its first slot, into the returned sale. If the
// log had the plan's run and continues with another, the machine ends at once, before the end
// of the log: work on the shards relies on the state of the sale.
func (x *execution) openLog() *ledger.Sale {
	log := spec.SaleLog(x.plan.Sale)
	sale := ledger.NewSale(log)
	had := false
	x.log = &machine.Log{
		Core: x.core, Writer: ledger.NewWriter(log, sale),
		Apply: func(e *ledger.Entry) error { return sale.Apply(e.Commit, e.Hash) },
		Ends: func() error {
			switch ours := sale.UID() == x.plan.UID; {
			case ours && x.plan.UID != "":
				had = true
			case had:
				return planner.Stale("was destroyed meanwhile, and begun anew")
			}
			return nil
		},
	}
	return sale
}

// readSale reads the sale's log to its end.
func (x *execution) readSale(then func()) {
	x.log.Read(func(e ledger.Event) {
		if e == ledger.Gone {
			x.reopenSale(then)
			return
		}
		then()
	})
}

// reopenSale reads the sale's log from its first slot, because a read found it gone. Reads may
// lag that far, so the log counts as gone only after repeated reads. Until then the previous
// state of the sale stays, since work on the shards relies on it.
func (x *execution) reopenSale(then func()) {
	if x.lags++; x.lags > lagTries {
		x.stale("is gone, with its log")
		return
	}
	sale := x.openLog()
	x.core.After(lagPause, func() {
		x.log.Read(func(e ledger.Event) {
			if e == ledger.Gone || sale.Next() < x.sale.Next() {
				x.reopenSale(then)
				return
			}
			x.sale = sale
			then()
		})
	})
}

// finished reports an address of the plan as done, once.
func (x *execution) finished(address, note string) {
	action, ok := x.actions[address]
	if !ok {
		return
	}
	delete(x.actions, address)
	x.done++
	x.result.Summary.Count(action)
	if x.planned == carriedOut && !x.core.Changed {
		return
	}
	x.report(Progress{Address: address, Action: action, Done: x.done, Total: len(x.plan.Actions), Note: note})
}

// doing reports an intermediate step.
func (x *execution) doing(address, action, note string) {
	if action == "wait" {
		x.waits = note
	}
	x.report(Progress{Address: address, Action: action, Done: x.done, Total: len(x.plan.Actions), Note: note})
}

func (x *execution) report(p Progress) {
	if x.Progress != nil {
		x.Progress(p)
	}
}

func (x *execution) warn(format string, args ...any) {
	x.result.Warnings = append(x.result.Warnings, fmt.Sprintf(format, args...))
}

func (x *execution) stale(format string, args ...any) { x.core.End(planner.Stale(format, args...)) }

// timeUs returns the time of this host's clock in microseconds, or 0 if the clock could not be
// checked: then a log keeps its time.
func (x *execution) timeUs() int64 {
	if x.unclocked {
		return 0
	}
	return x.core.Now.Wall.UnixMicro()
}

// ttl returns the longest ttl that an owner or this plan uses: that of the newest
// declarations.
func (x *execution) ttl() time.Duration {
	newest := []*pb.Planned{x.intent}
	for g := x.sale.Generation(); g > 0 && len(newest) < 3; g-- {
		p, _ := x.sale.Planned(g)
		newest = append(newest, p)
	}
	var ttl time.Duration
	for _, p := range newest {
		s, _ := spec.FromJSON(p.GetSpec()) // an unreadable declaration has no ttl
		ttl = max(ttl, s.LockTTL)
	}
	if ttl == 0 {
		return quorum.DefaultTTL
	}
	return ttl
}

// standing compares the log, read to its end, with the plan.
func (x *execution) standing() planner.Standing { return x.plan.Standing(x.intent, x.sale) }

// enter reads the sale's log, appends the plan unless the log has it, and continues. If the
// run has ended, it continues with ended.
func (x *execution) enter(then, ended func()) {
	x.begin(readingSale)
	x.readSale(func() { x.follow(then, ended) })
}

// againPause is the wait before an unstored create is sent again.
const againPause = 50 * time.Millisecond

// lagTries bounds the reads of a log that ends before the plan's slot; lagPause separates
// them.
const (
	lagTries = 20
	lagPause = 100 * time.Millisecond
)

func (x *execution) follow(then, ended func()) {
	switch x.standing() {
	case planner.IsDue:
		x.storeUnits(func() { x.appendPlanned(then, ended) })
	case planner.IsPlanned:
		if err := x.checkClock(); err != nil {
			x.core.End(err)
			return
		}
		x.planned, x.seenAt = found, x.core.Now.Mono
		if x.intent != nil && x.sale.Applied() >= x.plan.Generation {
			x.planned = carriedOut
		}
		then()
	case planner.IsEnded:
		x.planned = found
		if x.sale.Destroyed() {
			x.planned = carriedOut
		}
		ended()
	case planner.IsBehind:
		if x.lags++; x.lags <= lagTries {
			x.core.After(lagPause, func() { x.enter(then, ended) })
			return
		}
		x.stale("is at slot %d of its log, the plan was made at %d", x.sale.Next(), x.plan.Slot)
	default:
		x.stale("has changed since the plan was made")
	}
}

func (x *execution) appendPlanned(then, ended func()) {
	if err := errors.Join(x.checkClock(), x.checkLists(x.intent)); err != nil {
		x.core.End(err)
		return
	}
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: x.intent}})
	if err != nil {
		x.core.End(err)
		return
	}
	x.begin(appendingPlanned)
	x.planned = sent
	var outcome func(ledger.Event)
	outcome = func(e ledger.Event) {
		switch e {
		case ledger.Committed:
			x.planned, x.seenAt = stored, x.core.Now.Mono
			then()
		case ledger.Taken:
			// Perhaps by another execution of this plan.
			x.follow(then, ended)
		case ledger.Again:
			// A sale's own log is never deleted, so a repeated create restores nothing.
			x.core.After(againPause, func() { x.log.Resend(outcome) })
		default:
			x.reopenSale(func() { x.follow(then, ended) })
		}
	}
	x.log.Append(entry, outcome)
}

// note appends an op to the sale's log, unless have reports that it is no longer needed or no
// longer possible. have is called again after each slot that another writer took.
func (x *execution) note(have func() (bool, error), op *pb.Op, then func()) {
	switch enough, past := have(); {
	case past != nil:
		x.core.End(past)
		return
	case enough:
		then()
		return
	}
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), op)
	if err != nil {
		x.core.End(err)
		return
	}
	x.log.Append(entry, func(e ledger.Event) {
		switch e {
		case ledger.Committed:
			then()
		case ledger.Taken:
			x.note(have, op, then)
		default:
			x.reopenSale(func() { x.note(have, op, then) })
		}
	})
}

// recheck reads the sale's log again and continues if the plan's run is still live. Calls
// during a read share the next one.
func (x *execution) recheck(then func()) {
	x.rechecks = append(x.rechecks, then)
	if !x.rechecking {
		x.recheckNow()
	}
}

func (x *execution) recheckNow() {
	x.rechecking = true
	asked := x.rechecks
	x.rechecks = nil
	x.readSale(func() {
		x.rechecking = false
		switch ours := x.sale.UID() == x.plan.UID; {
		case ours && x.sale.Live():
		case ours && x.overtaken != nil:
			x.rechecks = nil
			x.core.Leave()
			x.overtaken()
			return
		default:
			x.stale("was destroyed meanwhile")
			return
		}
		if len(x.rechecks) > 0 {
			x.recheckNow()
		}
		for _, then := range asked {
			if !x.core.Over {
				then()
			}
		}
	})
}
