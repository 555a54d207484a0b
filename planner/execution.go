package planner

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// execution is one execution of a plan, the common part of apply and destroy.
type execution struct {
	Terms // of the execution

	core     *core
	plan     *Plan
	intent   *pb.Planned // op to append; nil: none
	nodes    []lockNode
	exporter Exporter // of a destroy
	result   Result

	// The sale's log. Only one operation at a time runs on it.
	sale *ledger.Sale
	log  *logDriver
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

	shards []*logDriver // by shard; nil: not read
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

func newExecution(t Terms, plan *Plan) (*execution, error) {
	if plan.unchecked {
		return nil, fmt.Errorf("%w: it was not checked since it was read", ErrBadPlan)
	}
	planned, err := plan.planned()
	if err != nil {
		return nil, err
	}
	if planned != nil {
		planned.PlanDigest, planned.Who = plan.Digest[:], t.Who
	}
	if err := errors.Join(t.Units.of(planned), keyFits(plan, planned, t.Key)); err != nil {
		return nil, err
	}
	x := &execution{
		Terms: t, core: newCore(t.patience()), plan: plan, intent: planned,
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
	sale, err := declared(planned)
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
	x.log = &logDriver{
		core: x.core, w: ledger.NewWriter(log, sale),
		apply: func(e *ledger.Entry) error { return sale.Apply(e.Commit, e.Hash) },
		ends: func() error {
			switch ours := sale.UID() == x.plan.UID; {
			case ours && x.plan.UID != "":
				had = true
			case had:
				return stale("was destroyed meanwhile, and begun anew")
			}
			return nil
		},
	}
	return sale
}

// readSale reads the sale's log to its end.
func (x *execution) readSale(then func()) {
	x.log.read(func(e ledger.Event) {
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
	x.core.after(lagPause, func() {
		x.log.read(func(e ledger.Event) {
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
	x.result.Summary.count(action)
	if x.planned == carriedOut && !x.core.changed {
		return
	}
	x.core.progress(Progress{Address: address, Action: action, Done: x.done, Total: len(x.plan.Actions), Note: note})
}

// doing reports an intermediate step.
func (x *execution) doing(address, action, note string) {
	if action == "wait" {
		x.waits = note
	}
	x.core.progress(Progress{Address: address, Action: action, Done: x.done, Total: len(x.plan.Actions), Note: note})
}

func (x *execution) warn(format string, args ...any) {
	x.result.Warnings = append(x.result.Warnings, fmt.Sprintf(format, args...))
}

func (x *execution) stale(format string, args ...any) { x.core.end(stale(format, args...)) }

// stale returns the error of a plan that the sale has moved past.
func stale(format string, args ...any) error {
	return fmt.Errorf("%w: the sale %s; make a new plan", ErrStale, fmt.Sprintf(format, args...))
}

// timeUs returns the time of this host's clock in microseconds, or 0 if the clock could not be
// checked: then a log keeps its time.
func (x *execution) timeUs() int64 {
	if x.unclocked {
		return 0
	}
	return x.core.now.Wall.UnixMicro()
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
		ttl = max(ttl, time.Duration(s.LockTTL))
	}
	if ttl == 0 {
		return quorum.DefaultTTL
	}
	return ttl
}

// standing is the relation of the sale's log to the plan.
type standing int

const (
	isDue     standing = iota // the plan's slot is the next one
	isPlanned                 // the log has the plan
	isEnded                   // the run is sealed or destroyed
	isBehind                  // the log ends before the plan's slot
	isOther                   // the log has diverged
)

// standing compares the log, read to its end, with the plan.
func (x *execution) standing() standing { return x.plan.standing(x.intent, x.sale) }

func (p *Plan) standing(intent *pb.Planned, s *ledger.Sale) standing {
	switch {
	case s.Next() < p.Slot:
		return isBehind
	case p.UID != "" && s.UID() == p.UID && !s.Live():
		return isEnded
	case intent == nil && s.UID() == p.UID && s.Generation() == p.Generation:
		return isPlanned
	case s.Root() == p.After:
		return isDue
	}
	if p.storedIn(s) {
		return isPlanned
	}
	return isOther
}

// storedIn reports whether the sale's log has the plan.
func (p *Plan) storedIn(s *ledger.Sale) bool {
	for g := uint64(1); g <= s.Generation(); g++ {
		if op, slot := s.Planned(g); slot == p.Slot && string(op.GetPlanDigest()) == string(p.Digest[:]) {
			return true
		}
	}
	return false
}

// CheckState returns ErrStale if a plan could no longer be carried out when the sale's log was read.
// A caller with several plans checks all of them first. A plan that was carried out before,
// fully or in part, fits. Apply and Destroy check again.
func (p *Plan) CheckState(sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil {
		return err
	}
	switch p.standing(intent, sale) {
	case isOther:
		return stale("has changed since the plan was made")
	case isEnded:
		if p.Kind != KindDestroy {
			return stale("was destroyed since the plan was made")
		}
	}
	return nil // the log ends before the plan's slot: the read lags
}

// CheckDeclaration returns ErrStale if a plan of apply does not lead to the declaration in the sale
// file, because the file has changed or the plan was made for another. The sale's log was read
// as for Fits.
func (p *Plan) CheckDeclaration(desired spec.Sale, sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil || p.Kind != KindApply {
		return err
	}
	repeats := intent == nil // of an earlier declaration
	if repeats {
		if intent = sale.Newest(); intent == nil {
			return nil // the read lags
		}
	}
	old, err := declared(intent)
	switch {
	case err != nil && repeats:
		return fmt.Errorf("sale %s: %w", p.Sale, err)
	case err != nil:
		return fmt.Errorf("%w: sale %s: %w", ErrBadPlan, p.Sale, err)
	}
	if repeats && intent.GetSettings().GetPhase() == pb.Phase_CLOSED && desired.Phase != spec.PhaseOpen && desired.Phase != spec.PhasePaused {
		desired.Phase = old.Phase // as in nextPhase
	}
	_, changed, err := differ(desired, old)
	if err != nil || !changed {
		return err
	}
	var names []string
	for _, f := range (Action{Before: saleAttributes(old, old.Stock, "", 0), After: saleAttributes(desired, desired.Stock, "", 0)}).Fields() {
		names = append(names, f.Name)
	}
	return stale("%s", strings.Join(append([]string{"is declared otherwise in its file than in the plan"}, names...), ", "))
}

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
	case isDue:
		x.storeUnits(func() { x.appendPlanned(then, ended) })
	case isPlanned:
		if err := x.checkClock(); err != nil {
			x.core.end(err)
			return
		}
		x.planned, x.seenAt = found, x.core.now.Mono
		if x.intent != nil && x.sale.Applied() >= x.plan.Generation {
			x.planned = carriedOut
		}
		then()
	case isEnded:
		x.planned = found
		if x.sale.Destroyed() {
			x.planned = carriedOut
		}
		ended()
	case isBehind:
		if x.lags++; x.lags <= lagTries {
			x.core.after(lagPause, func() { x.enter(then, ended) })
			return
		}
		x.stale("is at slot %d of its log, the plan was made at %d", x.sale.Next(), x.plan.Slot)
	default:
		x.stale("has changed since the plan was made")
	}
}

func (x *execution) appendPlanned(then, ended func()) {
	if err := errors.Join(x.checkClock(), x.checkLists(x.intent)); err != nil {
		x.core.end(err)
		return
	}
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: x.intent}})
	if err != nil {
		x.core.end(err)
		return
	}
	x.begin(appendingPlanned)
	x.planned = sent
	var outcome func(ledger.Event)
	outcome = func(e ledger.Event) {
		switch e {
		case ledger.Committed:
			x.planned, x.seenAt = stored, x.core.now.Mono
			then()
		case ledger.Taken:
			// Perhaps by another execution of this plan.
			x.follow(then, ended)
		case ledger.Again:
			// A sale's own log is never deleted, so a repeated create restores nothing.
			x.core.after(againPause, func() { x.log.resend(outcome) })
		default:
			x.reopenSale(func() { x.follow(then, ended) })
		}
	}
	x.log.append(entry, outcome)
}

// note appends an op to the sale's log, unless have reports that it is no longer needed or no
// longer possible. have is called again after each slot that another writer took.
func (x *execution) note(have func() (bool, error), op *pb.Op, then func()) {
	switch enough, past := have(); {
	case past != nil:
		x.core.end(past)
		return
	case enough:
		then()
		return
	}
	entry, err := x.sale.Entry(x.Writer, x.timeUs(), op)
	if err != nil {
		x.core.end(err)
		return
	}
	x.log.append(entry, func(e ledger.Event) {
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
