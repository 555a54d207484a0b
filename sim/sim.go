// Package sim runs whole sales in one goroutine on virtual time: planners,
// executors, lock nodes, the store of the logs and the clients, with everything
// that may go wrong between them. All that is random comes from one seed, so a
// world that went wrong can be run again, to the same last byte.
//
// The code that runs is the code that ships: executor.Stepped and
// planner.Stepped are other shells around the same step machines. The world
// takes down what clients and operators saw and what the store holds, and
// package check, which shares no code with them, judges it.
package sim

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"time"

	"salectl/sim/check"
)

// Options say which world to run. The seed alone makes it; the others make it
// smaller, to see what a failure needs. Zero is the default.
type Options struct {
	Seed    uint64
	Clients int           // that ask at a time
	Ops     int           // that clients make, at least
	Faults  int           // that befall the world, at most; below 0: none
	Until   time.Duration // virtual time at which the faults stop
	Trace   io.Writer     // gets every event as a line of text; nil: nobody reads
}

// What a world has if nothing else is said.
const (
	DefaultClients = 16
	DefaultOps     = 320
	DefaultFaults  = 200
	DefaultUntil   = 25 * time.Second
)

func (o Options) orDefault() Options {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&o.Clients, DefaultClients)
	set(&o.Ops, DefaultOps)
	set(&o.Faults, DefaultFaults)
	if o.Until == 0 {
		o.Until = DefaultUntil
	}
	return o
}

// Result is what came of a world.
type Result struct {
	Options   Options
	TraceHash [32]byte // of every event: the same for the same seed
	Events    int
	Ops       int // that clients made
	Faults    int // that befell it
	// Hits counts how often each failpoint was met: "<call>:<how far it came>",
	// "crash at <point>", "fault: <kind>", and other things that happened.
	Hits    map[string]int
	History *check.History
	Err     error // what is wrong, one problem a line; nil: nothing
	// Broken names the checkers that found something.
	Broken []string
}

// world is one sale and all that is around it.
type world struct {
	loop
	Options
	scenario  scenario
	trace     *tracer
	history   *check.History
	store     *store
	nodes     []*node
	nodeNames []string
	net       *network
	executors []*server
	commands  []*process
	operators *operators
	clients   []*client
	random    struct{ network, store, schedule, faults, crashes random }

	calm     bool          // the faults have stopped
	settled  bool          // and the operators have done what they had begun
	over     bool          // all that was wanted is done: the processes go down
	resting  int           // clients that were refused for good
	demanded bool          // all were
	asked    int           // operations of clients
	befallen int           // faults
	thinking time.Duration // of a client between two things
	latest   time.Duration // when the last of the operators' messages lands
	waiting  []func()      // until settled
	vanished map[int]bool  // operations of which nobody waits for the end
	crashed  map[crashPoint]int
	called   map[string]*[ways]int
	hits     map[string]int
}

// Run runs a world to its end and judges it.
func Run(o Options) *Result {
	w := newWorld(o.orDefault())
	if err := w.survive(); err != nil {
		r := w.result()
		r.Err, r.Broken = err, []string{"panic"}
		return r
	}
	r := w.result()
	for _, p := range check.Check(w.history) {
		r.Err = errors.Join(r.Err, errors.New(p.String()))
		if !slices.Contains(r.Broken, p.Checker) {
			r.Broken = append(r.Broken, p.Checker)
		}
	}
	return r
}

// survive lives; a panic is a failure of its seed like any other.
func (w *world) survive() (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v\n%s", what, debug.Stack())
		}
	}()
	w.live()
	return nil
}

func newWorld(o Options) *world {
	w := &world{
		Options: o, trace: newTracer(o.Trace), scenario: draw(o.random(forScenario, 0)),
		history:  &check.History{Sale: saleName},
		vanished: make(map[int]bool), crashed: make(map[crashPoint]int),
		called: make(map[string]*[ways]int), hits: make(map[string]int),
	}
	w.random.network, w.random.store = o.random(forNetwork, 0), o.random(forStore, 0)
	w.random.schedule, w.random.faults = o.random(forSchedule, 0), o.random(forFaults, 0)
	w.random.crashes = o.random(forCrashes, 0)
	w.thinking = 2 * o.Until * time.Duration(o.Clients) / time.Duration(max(1, o.Ops))
	w.store = newStore(w)
	nodeClocks := o.random(forScenario, 1)
	for i := range w.scenario.nodes {
		w.nodes = append(w.nodes, newNode(w, i, w.scenario.clock(nodeClocks, 0)))
		w.nodeNames = append(w.nodeNames, w.nodes[i].Name())
	}
	w.net = newNetwork(w, int(firstNode)+w.scenario.nodes+w.scenario.servers)
	for i := range w.scenario.servers {
		w.executors = append(w.executors, w.newServer(i))
	}
	w.operators = &operators{w: w, random: o.random(forOperators, 0)}
	for i := range o.Clients {
		w.clients = append(w.clients, w.newClient(i))
	}
	return w
}

// patience is how long after the faults a world may take to come to rest.
const patience = 4 * time.Minute

// live runs the world until nothing is left to happen.
func (w *world) live() {
	for _, e := range w.executors {
		e.begin()
	}
	w.operators.schedule()
	w.schedule()
	for _, c := range w.clients {
		w.at(c.between(0, 2*time.Second), c.live)
	}
	w.at(w.Until, w.calmDown)
	for w.step(w.Until + patience) {
	}
}

// calmDown ends the faults: all hosts can be reached, all processes go on, and
// all clocks show about the same.
func (w *world) calmDown() {
	w.note("world", "calm", "", nil)
	w.calm = true
	w.net.heal()
	w.net.loss = 0
	w.store.down, w.store.frozen = false, false
	for i, n := range w.nodes {
		n.serve()
		n.clock = w.scenario.clock(w.Options.random(forScenario, 10+i), w.now)
	}
	for _, e := range w.executors {
		if e.alive {
			e.shift(epoch.Add(w.now).Sub(e.now().Wall), 1)
		}
	}
	w.operators.whenIdle(w.settle)
}

// settle has the operators do what they had begun, and then lets the clients go
// on.
func (w *world) settle() {
	w.operators.settle(func() {
		w.settled = true
		waiting := w.waiting
		w.waiting = nil
		for _, goOn := range waiting {
			goOn()
		}
		w.after(resettle, w.unsettle)
	})
}

// resettle is how often it is looked whether a command of one who was killed has
// come in late, such as a pause.
const resettle = 15 * time.Second

func (w *world) unsettle() {
	if !w.over && w.resting < len(w.clients) {
		w.settle()
	}
}

// onceSettled goes on when the faults have stopped and the operators have done
// what they had begun.
func (w *world) onceSettled(then func()) {
	if w.settled {
		then()
		return
	}
	w.waiting = append(w.waiting, then)
}

// rest says that a client was refused for good. With the last of them the world
// goes down: in some the sale is destroyed first. If a command of one who was
// killed may still come in, it comes in after that, or all is done once more
// after it.
func (w *world) rest() {
	w.resting++
	if w.resting < len(w.clients) {
		return
	}
	w.demanded = w.now > w.latest
	switch {
	case w.scenario.destroyed && !w.operators.ending:
		w.operators.insist(command{kind: destroy}, w.goDown)
	case w.demanded:
		w.goDown()
	default:
		w.at(w.latest+time.Millisecond, w.onceMore)
	}
}

func (w *world) onceMore() {
	w.resting, w.settled = 0, false
	for _, c := range w.clients {
		c.finish()
	}
	w.operators.whenIdle(w.settle)
}

// goDown drains all executors. What is under way then has until the end of the
// world to land.
func (w *world) goDown() {
	w.note("world", "goes down", "", nil)
	w.over = true
	for _, e := range w.executors {
		e.drain()
	}
}

func (w *world) result() *Result {
	w.history.Final = check.Final{Rested: w.over && len(w.queue) == 0, Demanded: w.demanded, Vanished: w.vanished}
	r := &Result{
		Options: w.Options, TraceHash: w.trace.sum(), Events: w.trace.events, Ops: w.asked, Faults: w.befallen,
		Hits: w.hits, History: w.history,
	}
	for what, counts := range w.called {
		for how, n := range counts {
			r.Hits[fmt.Sprintf("%s:%v", what, reached(how))] += n
		}
	}
	for at, n := range w.crashed {
		r.Hits["crash "+at.where+" "+at.what] += n
	}
	switch {
	case !w.over:
		r.Broken = []string{"rest"}
		r.Err = fmt.Errorf("no rest %v after the faults: %s", patience, w.whoWaits())
	case len(w.queue) > 0:
		r.Broken = []string{"rest"}
		r.Err = fmt.Errorf("all is done, and %v after the faults something goes on", patience)
	}
	return r
}

// whoWaits says why a world does not come to rest.
func (w *world) whoWaits() string {
	if !w.settled {
		return "the operators have not done what they had begun"
	}
	return fmt.Sprintf("%d of %d clients were not refused for good yet", len(w.clients)-w.resting, len(w.clients))
}
