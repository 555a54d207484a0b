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
	"salectl/units"
)

// execution is one run of a plan: what apply and destroy have in common.
type execution struct {
	core   *core
	plan   *Plan
	intent *pb.Planned // to be appended; nil: nothing is
	writer []byte
	rand   io.Reader
	nodes  []lockNode
	lists  []string // the nodes that keep lists, by name
	sizes  lists.Sizes
	units  *NewUnits  // what those are that are added; nil: they are numbers
	key    *units.Key // opens what the units are; nil: they are numbers, or public
	// drawKey seals the secret of a draw, and opens it to be revealed; nil: there is none.
	drawKey *units.Key
	who     string // carries out the plan, as user@host
	// cancelHolds says that a destroy cancels holds, and does not wait for them.
	cancelHolds bool
	table       string // that the logs are kept in, "" if they need none
	result      Result

	// The sale's log. Only one thing at a time is done with it.
	sale *ledger.Sale
	log  *logDriver
	lags int // reads that ended before the slot that the plan was made at

	stage stage  // for people
	waits string // what it waits for in that stage, "" for nothing but answers
	goal  uint64 // generation that the shards are brought to; 0: not known yet

	tableMade bool // or may have been
	planned   planned
	// seenAt is when the plan was first known to be in the sale's log.
	seenAt time.Duration
	// unclocked says that this host's clock could not be held against any other.
	unclocked bool

	shards []*logDriver // those that were read, by shard
	states []*ledger.State
	losses []int          // how often a shard's log was said to be gone
	heads  []*ledger.Head // the newest known
	// machines are those of lists that this process has begun to rebuild.
	machines []*lists.Machine

	rechecks   []func() // that wait for the sale's log to be read again
	rechecking bool
	// overtaken goes on where another has sealed the run meanwhile. Nil: then the
	// plan is stale.
	overtaken func()

	actions map[string]string // of the plan, by address
	done    int
}

// lockNode is a lock node as asked at the start.
type lockNode struct {
	name string
	info quorum.Info
	off  time.Duration // our clock is ahead by
	err  error

	restarted bool  // since it was asked
	unmarked  error // why it has no marker from us
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
		core: newCore(t.patience()), plan: plan, intent: planned, writer: t.Writer, rand: t.Rand, table: t.Table, lists: t.Lists, sizes: t.Sizes, units: t.Units, key: t.Key, drawKey: t.DrawKey, who: t.Who, cancelHolds: t.CancelHolds,
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

// drawSeed draws what the amounts of a new red packet follow from. No plan has it:
// whoever reads a saved one would know the amounts before the buyers do.
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

// openSale begins the sale's log anew, with nothing known of it.
func (x *execution) openSale() { x.sale = x.openLog() }

// openLog begins to read the sale's log anew, into a sale that is returned. Where the log goes
// on with another run than the plan's, which it had, the machine ends at once, before the log is
// read to its end: shards that are being worked on go by what is known of the sale.
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

// reopenSale reads the sale's log from its begin, because a read said that it is
// gone. A read may lag far enough for that, so it is believed only when it says
// so again and again. Until it is read, what was known of the sale stays: shards
// are being worked on by it.
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

// finished tells of an address that the plan names, once.
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

// doing tells of a step on the way.
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

// stale is the end of a plan that the sale has gone past.
func stale(format string, args ...any) error {
	return fmt.Errorf("%w: the sale %s; make a new plan", ErrStale, fmt.Sprintf(format, args...))
}

// timeUs is what this host's clock says, or 0 where nobody can tell whether that is
// right: then a log keeps the time that it has.
func (x *execution) timeUs() int64 {
	if x.unclocked {
		return 0
	}
	return x.core.now.Wall.UnixMicro()
}

// ttl is the longest that an owner, or this plan, goes by: that of the newest
// declarations.
func (x *execution) ttl() time.Duration {
	newest := []*pb.Planned{x.intent}
	for g := x.sale.Generation(); g > 0 && len(newest) < 3; g-- {
		p, _ := x.sale.Planned(g)
		newest = append(newest, p)
	}
	var ttl time.Duration
	for _, p := range newest {
		s, _ := spec.FromJSON(p.GetSpec()) // one that cannot be read has no ttl
		ttl = max(ttl, s.LockTTL)
	}
	if ttl == 0 {
		return quorum.DefaultTTL
	}
	return ttl
}

// standing is how the sale's log stands to the plan.
type standing int

const (
	isDue     standing = iota // the plan's slot is the next one
	isPlanned                 // what is planned is in the log
	isEnded                   // the run is sealed or destroyed
	isBehind                  // the log has not even come to where the plan was made
	isOther                   // it has gone another way
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

// Fits returns ErrStale if a plan could not be carried out any more when the sale's log was
// read: whoever carries out several looks at all of them first. One that was carried out
// before, or in part, fits. Apply and Destroy look again.
func (p *Plan) Fits(sale *ledger.Sale) error {
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
	return nil // a log that is behind the plan is a read that lags
}

// Declares returns ErrStale if a plan to apply does not bring a sale to what its file declares,
// which has changed since, or never was what was planned. The sale's log was read as for Fits.
func (p *Plan) Declares(desired spec.Sale, sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil || p.Kind != KindApply {
		return err
	}
	repeats := intent == nil // what was declared before
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
		desired.Phase = old.Phase // as nextPhase has it
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

// enter reads the sale's log, appends what is planned unless it is there, and
// goes on. A run that has ended goes to ended instead.
func (x *execution) enter(then, ended func()) {
	x.begin(readingSale)
	x.readSale(func() { x.follow(then, ended) })
}

// againPause is how long a create that was not stored waits to be sent again.
const againPause = 50 * time.Millisecond

// The read of a log that lags behind the plan is repeated this often.
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
	entry, err := x.sale.Entry(x.writer, x.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: x.intent}})
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
			// Perhaps by this very plan, carried out by somebody else.
			x.follow(then, ended)
		case ledger.Again:
			// A sale's own log is not deleted, so this can bring nothing back.
			x.core.after(againPause, func() { x.log.resend(outcome) })
		default:
			x.reopenSale(func() { x.follow(then, ended) })
		}
	}
	x.log.append(entry, outcome)
}

// note appends an op to the sale's log, unless have says that it is not needed
// any more, or that it cannot be. It is asked again whenever somebody else was
// faster.
func (x *execution) note(have func() (bool, error), op *pb.Op, then func()) {
	switch enough, past := have(); {
	case past != nil:
		x.core.end(past)
		return
	case enough:
		then()
		return
	}
	entry, err := x.sale.Entry(x.writer, x.timeUs(), op)
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
