package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	applying "salectl/planner/apply"
	"salectl/planner/current"
	planmachine "salectl/planner/machine"
	"salectl/sim/check"
	"salectl/spec"
	"salectl/units"
)

// command is what an operator wants done. It is run again until it succeeds or
// its operator has had enough, by a new process each time.
type command struct {
	kind  string
	stock int64 // apply
	runs  int   // that it may have

	phase spec.Phase // that its file has as it begins
}

// The commands.
const (
	apply   = "apply"
	pause   = "pause"
	resume  = "resume"
	closes  = "close"
	destroy = "destroy"
	plan    = "plan" // of an apply, which is not carried out
)

// operators give commands, one of them several times, and some at once.
type operators struct {
	w *world
	random
	number  int64 // of the sale's run, from 1
	started int
	running int    // processes
	idle    func() // goes on when none runs; nil: nobody waits

	commands []*commandMachine // that ever began

	most            int64 // that was ever declared
	closing, ending bool  // a close or destroy has begun
	hours           hours // that the file has
	enders          int   // processes that close or destroy
	raisedAt        time.Duration

	known     time.Duration // from then on no executor answers from the run before
	destroyed string        // uid of the run that was destroyed last; "": none was
	shows     bool          // plans are taken down, to be judged
	// The last thing done is a destroy that came after all else, and found all nodes
	// up.
	swept bool
}

// sale is the file at this moment.
func (o *operators) sale(stock int64) spec.Sale {
	s := &o.w.scenario
	declared := spec.Sale{
		Name: saleName, Run: o.number, Stock: stock, LockCount: s.shards, PerUserLimit: s.perUser,
		LockTTL: spec.Duration(s.ttl),
		Homes: &spec.Homes{
			Ledger: spec.Home{Kind: "simulated", Place: "the simulated store"},
			Locks:  spec.Home{Kind: "simulated", Place: "the simulated nodes", Nodes: o.w.nodeNames},
		},
	}
	o.hours.declare(&declared)
	declared.Payment = s.payment
	s.ruled.declare(&declared)
	s.partial.declare(&declared)
	s.choice.declare(&declared)
	s.files.declare(&declared)
	s.drawn.declare(&declared)
	if s.lists != nil {
		s.lists.declare(&declared, o.w.listNames)
	}
	return declared
}

const saleName = "tickets"

// plans returns how a command makes its plan.
func (o *operators) plans(c command, made func(spec.Sale)) func(*planner.Actual) (*planner.Plan, error) {
	phase := func(p pb.Phase) func(*planner.Actual) (*planner.Plan, error) {
		return func(a *planner.Actual) (*planner.Plan, error) { return planner.MakePhase(a, p) }
	}
	switch c.kind {
	case apply, plan:
		o.most = max(o.most, c.stock)
		return func(a *planner.Actual) (*planner.Plan, error) {
			o.keepClose(a)
			desired := o.sale(c.stock)
			if desired.Phase = c.phase; o.number > 1 && c.phase == spec.PhaseClosed {
				desired.Phase = "" // it was declared for the run before
			}
			made(desired)
			source, err := units.ForSale(desired, o.w.scenario.files.env)
			if err != nil {
				return nil, err
			}
			a.Units = current.ReadUnits(context.Background(), o.w.store.memory.Handle(nil), desired.Units, source, a)
			return planner.Make(desired, a)
		}
	case pause:
		return phase(pb.Phase_PAUSED)
	case resume:
		return phase(pb.Phase_OPEN)
	case closeDraw:
		return planner.MakeCloseDraw
	case reveal:
		return o.reveals()
	case closes:
		o.closing = true
		return phase(pb.Phase_CLOSED)
	}
	o.closing, o.ending = true, true
	return planner.MakeDestroy
}

// exported takes an export in, which is safe from then on.
func (o *operators) exported(b []byte) {
	o.w.note("operators", "export", fmt.Sprint(len(b), " bytes"), b)
	o.w.hit("export written")
	o.w.history.Exported(o.w.now, b)
}

// run carries a command out, and goes on when it has succeeded or was given up.
func (o *operators) run(c command, then func()) {
	o.started++
	n := o.started
	if o.w.scenario.dealt() {
		c.stock = o.w.scenario.stock
	}
	if c.kind == apply && o.w.calm && o.w.scenario.files != nil {
		c.stock = o.plannedStock(c.stock)
	}
	writer := fmt.Appendf(nil, "op%06d", n)
	c.phase = ""
	if p := o.w.scenario.phased; p != nil && (c.kind == apply || c.kind == plan) {
		c.phase = p.now
	}
	op := o.w.recordInvocation(check.Event{Kind: check.CommandInvoked, Command: c.kind, Stock: c.stock, Phase: string(c.phase), Writer: string(writer)})
	p := &process{w: o.w, name: fmt.Sprintf("%s-%d", c.kind, n), host: atOperators}
	o.w.commands = append(o.w.commands, p)
	calm := o.w.calm
	again := func(pause time.Duration) {
		if c.runs--; c.runs <= 0 || o.w.over {
			then()
			return
		}
		o.w.after(pause, func() {
			if calm == o.w.calm { // else what was begun is settled otherwise
				o.run(c, then)
			}
		})
	}
	last := o.w.calm && o.running == 0 && o.w.now > max(o.w.latest, o.w.latestList) && !slices.ContainsFunc(o.w.nodes, func(n *node) bool { return n.down })
	o.swept = false
	o.began(c, 1)
	p.died = func(back time.Duration) {
		defer o.stopped(c)
		o.w.vanished[op] = true
		o.w.hit("killed: " + c.kind)
		again(back)
	}
	r := o.random
	if c.kind == plan {
		r = o.w.Options.random(forPlans, n)
	}
	var m *commandMachine
	m = newCommandMachine(o, o.plans(c, func(s spec.Sale) { m.file = fileOf(s) }), applying.Terms{
		Names:   planmachine.Names{Nodes: o.w.nodeNames, Lists: o.w.listNames, Rand: r},
		Options: applying.Options{Writer: writer, Who: "operator@world", DrawKey: drawKey, Key: o.w.scenario.files.key()},
		Sizes:   o.w.scenario.sizes,
	})
	m.op, m.only = op, c.kind == plan
	o.commands = append(o.commands, m)
	p.ended = func() {
		defer o.stopped(c)
		o.returned(p.name, op, m.err)
		switch {
		case m.err == nil:
			o.w.hit("done: " + c.kind)
			if c.kind == destroy {
				o.destroyed, o.swept = m.plan.UID, last
			}
			then()
		case errors.Is(m.err, planner.ErrRefused): // to run it again is of no use
			then()
		default:
			again(o.spread(100*time.Millisecond, 4*time.Second))
		}
	}
	p.start(m, o.w.clock(r))
}

// began counts the processes that run.
func (o *operators) began(c command, n int) {
	o.running += n
	if c.kind == closes || c.kind == destroy {
		o.enders += n
	}
}

// stopped counts them down.
func (o *operators) stopped(c command) {
	if o.began(c, -1); o.running == 0 && o.idle != nil {
		idle := o.idle
		o.idle = nil
		idle()
	}
}

// whenIdle goes on when no command runs.
func (o *operators) whenIdle(then func()) {
	if o.running == 0 {
		then()
		return
	}
	o.idle = then
}

// returned takes down what a command came to.
func (o *operators) returned(name string, op int, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	o.w.note(name, "returns", text, nil)
	o.w.history.Record(o.w.now, check.Event{Kind: check.CommandReturned, Op: op, Err: text})
}

// insist runs a command until it succeeds.
func (o *operators) insist(c command, then func()) {
	c.runs = 1000
	o.run(c, then)
}

// settle brings the sale, when the faults have stopped, to where all that was
// begun is done: destroyed or closed if that was begun, else open.
func (o *operators) settle(then func()) {
	if o.ending && o.running == 0 && !o.everApplied() {
		// It was destroyed before anybody could apply it, such as while a node's clock was
		// wrong: no answer ever reports that such a sale is over.
		o.closing, o.ending = false, false
	}
	switch {
	case o.ending:
		o.insist(command{kind: destroy}, then)
	case o.w.scenario.phased != nil:
		o.settlePhase(then)
	case o.closing:
		o.insist(command{kind: apply, stock: o.most}, func() {
			o.insist(command{kind: closes}, then)
		})
	default:
		o.insist(command{kind: apply, stock: o.most}, func() {
			o.insist(command{kind: resume}, then)
		})
	}
}

// everApplied reports whether the sale was ever applied.
func (o *operators) everApplied() bool {
	_, entries, err := o.w.store.memory.Handle(nil).Read(context.Background(), spec.SaleLog(saleName), 0, 1)
	return err != nil || len(entries) > 0
}

// destroyEarly destroys the sale amid the faults, in some worlds while nobody
// serves it.
func (o *operators) destroyEarly() {
	if o.w.calm || o.ending {
		return
	}
	if o.chance(0.5) && o.w.fault("world", "all executors killed") {
		o.w.killAll(o.random)
	}
	o.destroyNow()
}

// destroyNow destroys the sale unless somebody does. In some worlds another run
// of it follows.
func (o *operators) destroyNow() {
	if !o.ending {
		o.insist(command{kind: destroy}, func() { o.beginAgain(func() {}) })
	}
}

// beginAgain makes the sale's second run if there is to be one, and nobody else
// closes or destroys: that would be the end of it at once.
func (o *operators) beginAgain(then func()) (begun bool) {
	if !o.w.scenario.again || o.number > 1 || o.enders > 1 || o.destroyed == "" {
		return false
	}
	o.number++
	o.known = o.w.now + 10*time.Second
	o.closing, o.ending, o.most = false, false, 0
	if p := o.w.scenario.phased; p != nil && (o.w.calm || p.now == spec.PhaseClosed) {
		p.now = "" // a run does not begin closed, and in the calm nobody opens it
	}
	switch {
	case o.w.scenario.drawn != nil:
		o.hours = hours{closes: o.w.now + 20*time.Second}
	case o.w.calm:
		o.hours = hours{} // those of the run before are over
	}
	o.w.hit("second run begun")
	o.insist(command{kind: apply, stock: o.w.scenario.stock}, then)
	return true
}

// soldOut makes more units, in some worlds, when a buyer has received the answer that there
// are none left.
func (o *operators) soldOut() {
	if !o.w.scenario.raised || o.w.scenario.dealt() || o.w.calm || o.closing || o.w.now < o.raisedAt+2*time.Second {
		return
	}
	o.raisedAt = o.w.now
	o.w.hit("raised when sold out")
	o.run(command{kind: apply, stock: o.most + 1 + o.Int64N(int64(o.w.scenario.shards)), runs: 3}, func() {})
}

// schedule draws the commands of a run. The first makes the sale.
func (o *operators) schedule() {
	s := &o.w.scenario
	o.insist(command{kind: apply, stock: s.stock}, func() {})
	if o.chance(0.2) { // amid the faults
		o.w.at(o.between(o.w.Until/2, o.w.Until), o.destroyEarly)
	}
	for range 2 + o.IntN(5) {
		at := o.between(time.Second, o.w.Until)
		c := command{kind: apply, stock: max(int64(s.shards), s.stock+o.Int64N(s.stock+1)-s.stock/2), runs: 1 + o.IntN(4)}
		switch draw := o.IntN(100); {
		case draw < 20:
			c.kind = pause
		case draw < 50:
			c.kind = resume
		case draw < 55 && at > o.w.Until/2:
			c.kind = closes
		}
		o.w.at(at, func() {
			if !o.w.calm {
				o.run(c, func() {})
			}
		})
	}
}
