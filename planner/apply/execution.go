package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
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

	stage string // current step of the plan, for people
	waits string // what the stage waits for; "" for nothing but replies
	goal  uint64 // generation that the shards are brought to; 0: unknown
	// unmarked are the nodes that Applied names.
	unmarked []string

	tableMade bool // or may have been
	planned   planned
	// seenAt is when the sale's log was first known to have the plan.
	seenAt time.Duration
	// unclocked is set if this host's clock could not be compared with any other.
	unclocked bool

	shards []shard // of the sale

	rechecks   []func() // wake the tasks that wait for another read of the sale's log
	rechecking bool
	// overtaken is the job that continues if the run is sealed. Nil: the plan is stale then.
	overtaken func()

	actions map[string]string // actions of the plan, by address
	done    int
}

// lockNode is a lock node as queried at the start.
type lockNode struct {
	quorum.NodeInfo
	restarted bool  // since the query
	unmarked  error // why the node has no marker of this execution
}

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
				return planner.Stale("was destroyed meanwhile, and a new run was started")
			}
			return nil
		},
	}
	return sale
}

// readSale reads the sale's log to its end.
func (x *execution) readSale() {
	if x.log.Read() == ledger.Gone {
		x.reopenSale()
	}
}

// reopenSale reads the sale's log from its first slot, because a read found it gone. Reads may
// lag that far, so the log counts as gone only after repeated reads. Until then the previous
// state of the sale stays, since work on the shards relies on it.
func (x *execution) reopenSale() {
	for {
		if x.lags++; x.lags > lagTries {
			x.stale("is gone, with its log")
		}
		sale := x.openLog()
		x.core.Sleep(lagPause)
		if e := x.log.Read(); e != ledger.Gone && sale.Next() >= x.sale.Next() {
			x.sale = sale
			return
		}
	}
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

func (x *execution) stale(format string, args ...any) { x.core.Fail(planner.Stale(format, args...)) }

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
		newest = append(newest, x.sale.Planned(g))
	}
	var ttl time.Duration
	for _, p := range newest {
		s, _ := spec.FromJSON(p.GetSpec()) // an unreadable declaration has no ttl
		ttl = max(ttl, time.Duration(s.LockTTL))
	}
	if ttl == 0 {
		return quorum.DefaultTTL
	}
	return ttl
}

// lagTries bounds the reads of a log that ends before the plan's slot; lagPause separates
// them.
const (
	lagTries = 20
	lagPause = 100 * time.Millisecond
)

// note appends an op to the sale's log, unless have reports that it is no longer needed. have
// fails if the op is no longer possible. It is called again after each slot that another
// writer took.
func (x *execution) note(op *pb.Op, have func() bool) {
	for !have() {
		entry, err := x.sale.Entry(x.Writer, x.timeUs(), op)
		x.core.Check(err)
		switch x.log.Append(entry) {
		case ledger.Committed:
			return
		case ledger.Taken:
		default:
			x.reopenSale()
		}
	}
}

// recheck reads the sale's log again and returns if the plan's run is still live. Calls during
// a read share the next one.
func (x *execution) recheck() {
	x.core.Wait(func(wake func()) {
		x.rechecks = append(x.rechecks, wake)
		if !x.rechecking {
			x.core.Go(x.recheckAll)
		}
	})
}

func (x *execution) recheckAll() {
	waiting := x.rechecks
	x.rechecks, x.rechecking = nil, true
	x.readSale()
	x.rechecking = false
	switch ours := x.sale.UID() == x.plan.UID; {
	case ours && x.sale.Live():
	case ours && x.overtaken != nil:
		x.core.Become(x.overtaken)
	default:
		x.stale("was destroyed meanwhile")
	}
	if len(x.rechecks) > 0 {
		x.core.Go(x.recheckAll)
	}
	for _, wake := range waiting {
		wake()
	}
}

// checkLists refuses to bring shards to a generation whose lists are on nodes unknown to
// this process: grabs of those lists would be missed.
func (x *execution) checkLists(p *pb.Planned) error {
	old, err := planner.Declared(p)
	if err != nil || old.Engine != spec.EngineRedis {
		return err
	}
	return planner.CheckLists(x.plan.Sale, old, x.Lists, x.sale.Applied() > 0)
}

// otherNodes reports whether the newest generation names other nodes than the given one: only
// a process that uses those nodes may fill its lists.
func (x *execution) otherNodes(generation uint64) bool {
	old, err := planner.Declared(x.sale.Planned(generation))
	newest, err2 := planner.Declared(x.sale.Newest())
	from, to, err3 := planner.HomesOf(old, newest)
	return errors.Join(err, err2, err3) == nil && (!planner.SameNodes(from.Locks, to.Locks) || !slices.Equal(old.ListNodes(), newest.ListNodes()))
}

// Exporter writes the ledger of a sale to its final location before its logs are deleted. It
// returns that location and the SHA-256 of the bytes, which are durable if err is nil. It may
// be called again for the same bytes.
type Exporter func(ctx context.Context, sale export.Sale) (path string, digest []byte, err error)

// NewExecution returns a Machine that carries out a plan; a plan of destroy needs an Exporter.
// The Result is set when the Machine is done. An empty plan of MakePhase is confirmed by a
// note in the sale's log.
func NewExecution(t Terms, plan *planner.Plan, exporter Exporter) (*machine.Machine, *Result, error) {
	if plan.Kind == planner.KindDestroy && exporter == nil {
		return nil, nil, fmt.Errorf("%w: a plan of destroy needs somewhere to export to", planner.ErrBadPlan)
	}
	x, err := newExecution(t, plan, exporter, false)
	if err != nil {
		return nil, nil, err
	}
	return machine.New(x.core, x), &x.result, nil
}

func newExecution(t Terms, plan *planner.Plan, exporter Exporter, rehearsal bool) (*execution, error) {
	planned, err := plan.Intent()
	if err != nil {
		return nil, err
	}
	if planned != nil {
		planned.PlanDigest, planned.Who = plan.Digest[:], t.Who
	}
	if err := errors.Join(t.Units.check(planned), keyFits(plan, planned, t.Key)); err != nil {
		return nil, err
	}
	x := &execution{
		Terms: t, core: machine.NewCore(t.Patience), plan: plan, intent: planned, exporter: exporter, rehearsal: rehearsal, stage: "not begun",
		result:  Result{Sale: plan.Sale, UID: plan.UID},
		actions: make(map[string]string),
	}
	x.sale = x.openLog()
	for _, name := range t.Nodes {
		x.nodes = append(x.nodes, lockNode{NodeInfo: quorum.NodeInfo{Name: name}})
	}
	for _, a := range plan.Actions {
		x.actions[a.Address] = a.Action
	}
	return x, nil
}

// Run carries out the plan.
func (x *execution) Run() {
	if first := x.first(); first != nil {
		first()
	}
}

// first returns the steps of the plan, or nil if the plan is already carried out. An
// empty plan is, with two exceptions: that of a destroyed sale sweeps the lock nodes, and that
// of a sale already in its phase confirms the phase.
func (x *execution) first() func() {
	switch p := x.plan; {
	case p.Kind == planner.KindReveal && p.Empty():
		x.result.Generation = p.Generation
		return nil
	case p.Kind == planner.KindReveal:
		return (&revealing{x: x}).run
	case p.Kind == planner.KindApply && p.Empty():
		x.result.Generation = p.Generation
		return nil
	case p.Kind != planner.KindDestroy:
		return x.apply
	case p.Empty() && !x.rehearsal && p.Phase != ledger.PhaseDestroyed:
		return nil
	}
	return (&teardown{x: x}).run
}

// Stop ends the execution at a timeout or an interruption.
func (x *execution) Stop(cause error) {
	kind := planner.ErrPartly
	if !x.tableMade && x.planned == unsent {
		kind = errInterrupted
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = planner.ErrTimeout
		}
	}
	if x.core.Worry != nil {
		cause = fmt.Errorf("%w; the last error was: %v", cause, x.core.Worry)
	}
	x.core.Fail(fmt.Errorf("%w: %w", kind, cause))
}

var errInterrupted = errors.New("nothing was changed")

// wrap converts the final error for the caller: any failure after the table was made or the
// plan was stored in the sale's log is ErrPartly.
func (x *execution) wrap(err error) error {
	if err == nil {
		return nil
	}
	decided := false
	for _, own := range []error{planner.ErrStale, planner.ErrRefused, planner.ErrPartly, planner.ErrTimeout, errInterrupted, ledger.ErrCorrupt} {
		decided = decided || errors.Is(err, own)
	}
	if (x.tableMade || x.planned.isKnown()) && !decided {
		err = fmt.Errorf("%w: %w", planner.ErrPartly, err)
	}
	return fmt.Errorf("sale %s: %w", x.plan.Sale, err)
}

// Outcome completes the result and returns the error for the caller: that of the machine, or
// ErrPartly if something is left undone.
func (x *execution) Outcome(err error) error {
	x.result.Changed = x.core.Changed
	if err != nil {
		return x.wrap(err)
	}
	if left := x.left(); left != "" {
		return fmt.Errorf("sale %s: %w: %s", x.plan.Sale, planner.ErrPartly, left)
	}
	return nil
}

// left describes what a completed apply has left undone.
func (x *execution) left() string {
	var all []string
	if n := x.result.Shortfall; n > 0 {
		all = append(all, fmt.Sprintf("%s could not be withdrawn, because they were claimed meanwhile; make a new plan", spec.Count(n, "unit")))
	}
	for _, n := range x.nodes {
		if n.unmarked != nil {
			all = append(all, fmt.Sprintf("lock node %s could not be marked: %s", n.Name, planner.ShortNodeError(n.unmarked)))
		}
	}
	return strings.Join(all, "; ")
}

// planned is the knowledge about the plan in the sale's log.
type planned int

const (
	unsent     planned = iota // never sent by this execution
	sent                      // the log may have it
	found                     // the log has it, stored by any process
	stored                    // this execution has stored it
	carriedOut                // it was carried out before: completed actions are no progress
)

// isKnown reports whether the log has the plan.
func (p planned) isKnown() bool { return p >= found }

// begin enters a stage. A stage that a plan does not need is skipped.
func (x *execution) begin(stage string) { x.stage, x.waits = stage, "" }

// String describes the progress for people: "apply: appending Planned, slot 7, 3 of 5 shards
// done".
func (x *execution) String() string {
	text := fmt.Sprintf("%s: %v", x.plan.Kind, x.stage)
	if x.waits != "" {
		text += ", waiting " + x.waits
	}
	if x.planned != unsent || x.sale.Next() > 0 {
		text += fmt.Sprintf(", slot %d", x.sale.Next())
	}
	if x.goal == 0 || len(x.shards) == 0 {
		return text
	}
	done := 0
	for _, s := range x.shards {
		if s.head != nil && s.head.Generation >= x.goal {
			done++
		}
	}
	return fmt.Sprintf("%s, %d of %d shards done", text, done, len(x.shards))
}
