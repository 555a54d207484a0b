package planner

import (
	"errors"
	"fmt"
	"io"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// work is one run of a plan: what apply and destroy have in common.
type work struct {
	core
	plan   *Plan
	intent *pb.Planned // to be appended; nil: nothing is
	writer []byte
	nodes  []workNode
	lists  []string // the nodes that keep lists, by name
	sizes  lists.Sizes
	table  string // that the logs are kept in, "" if they need none
	result Result

	// The sale's log. Only one thing at a time is done with it.
	sale *ledger.Sale
	log  *track
	lags int // reads that ended before the slot that the plan was made at

	// touched says that the table may have been made, sent that the sale's log may
	// have what is planned, known that it has.
	touched, sent, known bool
	// ours says that this process has stored what is planned.
	ours bool
	// unclocked says that this host's clock could not be held against any other.
	unclocked bool
	// quiet says that the plan was carried out before: what is found done is no
	// progress.
	quiet bool
	// fresh says that this process appended the plan, after it had read the
	// nodes' run ids, to a sale that was on no shard: so no lease can have been
	// promised before those ids were read. Nothing but an append proves that,
	// since a read may lag.
	fresh bool
	// seenAt is when the plan was first known to be in the sale's log.
	seenAt time.Duration

	shards []*track // those that were read, by shard
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

// workNode is a lock node as asked at the start.
type workNode struct {
	name string
	info quorum.Info
	off  time.Duration // our clock is ahead by
	err  error

	restarted bool  // since it was asked
	unmarked  error // why it has no marker from us
}

func newWork(t Terms, plan *Plan) (*work, error) {
	planned, err := plan.planned()
	if err != nil {
		return nil, err
	}
	if planned != nil {
		planned.PlanDigest, planned.Who = plan.Digest[:], t.Who
		if err := drawSeed(planned, t.Rand); err != nil {
			return nil, err
		}
	}
	w := &work{
		core: newCore(t.patience()), plan: plan, intent: planned, writer: t.Writer, table: t.Table, lists: t.Lists, sizes: t.Sizes,
		result:  Result{Sale: plan.Sale, UID: plan.UID},
		actions: make(map[string]string),
	}
	w.openSale()
	for _, name := range t.Nodes {
		w.nodes = append(w.nodes, workNode{name: name})
	}
	for _, a := range plan.Actions {
		w.actions[a.Address] = a.Action
	}
	return w, nil
}

// drawSeed draws what the amounts of a new red packet follow from. No plan has it:
// whoever reads a saved one would know the amounts before the buyers do.
func drawSeed(planned *pb.Planned, rand io.Reader) error {
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
func (w *work) openSale() { w.sale = w.openLog() }

// openLog begins to read the sale's log anew, into a sale that is returned.
func (w *work) openLog() *ledger.Sale {
	log := spec.SaleLog(w.plan.Sale)
	sale := ledger.NewSale(log)
	w.log = &track{core: &w.core, w: ledger.NewWriter(log, sale), apply: func(e *ledger.Entry) error {
		return sale.Apply(e.Commit, e.Hash)
	}}
	return sale
}

// reopenSale reads the sale's log from its begin, because a read said that it is
// gone. A read may lag far enough for that, so it is believed only when it says
// so again and again. Until it is read, what was known of the sale stays: shards
// are being worked on by it.
func (w *work) reopenSale(then func()) {
	if w.lags++; w.lags > lagTries {
		w.stale("is gone, with its log")
		return
	}
	sale := w.openLog()
	w.after(lagPause, func() {
		w.log.read(func(e ledger.Event) {
			if e == ledger.Gone || sale.Next() < w.sale.Next() {
				w.reopenSale(then)
				return
			}
			w.sale = sale
			then()
		})
	})
}

// finished tells of an address that the plan names, once.
func (w *work) finished(address, note string) {
	action, ok := w.actions[address]
	if !ok {
		return
	}
	delete(w.actions, address)
	w.done++
	w.result.Summary.count(action)
	if w.quiet && !w.changed {
		return
	}
	w.progress(Progress{Address: address, Action: action, Done: w.done, Total: len(w.plan.Actions), Note: note})
}

// doing tells of a step on the way.
func (w *work) doing(address, action, note string) {
	w.progress(Progress{Address: address, Action: action, Done: w.done, Total: len(w.plan.Actions), Note: note})
}

func (w *work) warn(format string, args ...any) {
	w.result.Warnings = append(w.result.Warnings, fmt.Sprintf(format, args...))
}

func (w *work) stale(format string, args ...any) {
	w.end(fmt.Errorf("%w: the sale %s; make a new plan", ErrStale, fmt.Sprintf(format, args...)))
}

// timeUs is what this host's clock says, or 0 where nobody can tell whether that is
// right: then a log keeps the time that it has.
func (w *work) timeUs() int64 {
	if w.unclocked {
		return 0
	}
	return w.now.Wall.UnixMicro()
}

// ttl is the longest that an owner, or this plan, goes by: that of the newest
// declarations.
func (w *work) ttl() time.Duration {
	newest := []*pb.Planned{w.intent}
	for g := w.sale.Generation(); g > 0 && len(newest) < 3; g-- {
		p, _ := w.sale.Planned(g)
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
func (w *work) standing() standing {
	p, s := w.plan, w.sale
	switch {
	case s.Next() < p.Slot:
		return isBehind
	case p.UID != "" && s.UID() == p.UID && !s.Live():
		return isEnded
	case w.intent == nil && s.UID() == p.UID && s.Generation() == p.Generation:
		return isPlanned
	case s.Root() == p.After:
		return isDue
	}
	for g := uint64(1); g <= s.Generation(); g++ {
		if op, slot := s.Planned(g); slot == p.Slot && string(op.GetPlanDigest()) == string(p.Digest[:]) {
			return isPlanned
		}
	}
	return isOther
}

// enter reads the sale's log, appends what is planned unless it is there, and
// goes on. A run that has ended goes to ended instead.
func (w *work) enter(then, ended func()) {
	w.log.read(func(e ledger.Event) {
		if e == ledger.Gone {
			w.reopenSale(func() { w.follow(then, ended) })
			return
		}
		w.follow(then, ended)
	})
}

// againPause is how long a create that was not stored waits to be sent again.
const againPause = 50 * time.Millisecond

// The read of a log that lags behind the plan is repeated this often.
const (
	lagTries = 20
	lagPause = 100 * time.Millisecond
)

func (w *work) follow(then, ended func()) {
	switch w.standing() {
	case isDue:
		w.appendPlanned(then, ended)
	case isPlanned:
		if err := w.checkClock(); err != nil {
			w.end(err)
			return
		}
		w.known, w.seenAt = true, w.now.Mono
		w.quiet = w.intent != nil && w.sale.Applied() >= w.plan.Generation
		then()
	case isEnded:
		w.known, w.quiet = true, w.sale.Destroyed()
		ended()
	case isBehind:
		if w.lags++; w.lags <= lagTries {
			w.after(lagPause, func() { w.enter(then, ended) })
			return
		}
		w.stale("is at slot %d of its log, the plan was made at %d", w.sale.Next(), w.plan.Slot)
	default:
		w.stale("has changed since the plan was made")
	}
}

func (w *work) appendPlanned(then, ended func()) {
	if err := errors.Join(w.checkClock(), w.checkLists(w.intent)); err != nil {
		w.end(err)
		return
	}
	entry, err := w.sale.Entry(w.writer, w.timeUs(), &pb.Op{Op: &pb.Op_Planned{Planned: w.intent}})
	if err != nil {
		w.end(err)
		return
	}
	w.sent = true
	var outcome func(ledger.Event)
	outcome = func(e ledger.Event) {
		switch e {
		case ledger.Committed:
			w.known, w.ours, w.fresh, w.seenAt = true, true, w.sale.Applied() == 0, w.now.Mono
			then()
		case ledger.Taken:
			// Perhaps by this very plan, carried out by somebody else.
			w.follow(then, ended)
		case ledger.Again:
			// A sale's own log is not deleted, so this can bring nothing back.
			w.after(againPause, func() { w.log.resend(outcome) })
		default:
			w.reopenSale(func() { w.follow(then, ended) })
		}
	}
	w.log.append(entry, outcome)
}

// note appends an op to the sale's log, unless have says that it is not needed
// any more. It is asked again whenever somebody else was faster.
func (w *work) note(have func() bool, op *pb.Op, then func()) {
	switch enough := have(); {
	case w.over: // have found something wrong
		return
	case enough:
		then()
		return
	}
	entry, err := w.sale.Entry(w.writer, w.timeUs(), op)
	if err != nil {
		w.end(err)
		return
	}
	w.log.append(entry, func(e ledger.Event) {
		switch e {
		case ledger.Committed:
			then()
		case ledger.Taken:
			w.note(have, op, then)
		default:
			w.reopenSale(func() { w.note(have, op, then) })
		}
	})
}
