// Package sim runs whole sales in one goroutine on virtual time: planners,
// executors, lock nodes, the store of the logs and the clients, with everything
// that may go wrong between them. All that is random comes from one seed, so a
// world that went wrong can be run again, to the same last byte.
//
// The code that runs is the code that ships: planner.Machine with its calls made
// on virtual time, and stepped.Process, a shell around the step machines of package
// executor/process. The world takes down what clients and operators saw and what the store holds, and
// package check, which shares no code with them, judges it.
package sim

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"salectl/backends/ledger/export"
	"salectl/sim/check"
	"salectl/units"
)

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
	listNames []string // of the nodes that keep lists: all, or none
	net       *network
	executors []*server
	fleet     fleet
	work      *work // nil: there is none, or it is done
	peering   peering
	commands  []*process
	lurking   map[string][]*ambush // ambushes by the steps that they wait for
	doubtful  map[string][]*ambush // and doubts
	operators *operators
	clients   []*client
	consumers []*consumer
	service   *service
	folder    *folder  // nil: processes know at once which sale they serve
	auditor   *auditor // nil: there is none
	random    struct{ network, store, schedule, faults, crashes, doubts, nags, lookups, parts, choice, draws, peers, beset, work random }

	ahead      time.Duration       // that the clocks of new processes are
	calm       bool                // the faults have stopped
	settled    bool                // and the operators have done what they had begun
	voided     int                 // grows when what settles then is to let no client go on any more
	over       bool                // all that was wanted is done: the processes go down
	down       uint64              // when that was, by the history's count
	resting    int                 // clients that were refused for good
	demanded   bool                // all were
	planned    bool                // the plan of planOnce is made, or under way
	operations int                 // operations of clients
	befallen   int                 // faults
	rushed     int                 // names of users who came in a rush, tried
	thinking   time.Duration       // of a client between two things
	latest     time.Duration       // when the last of the operators' messages lands
	latestPay  time.Duration       // when the last settlement is requested, waited for, or arrives, at most
	heldUp     time.Duration       // of the message that is about to be sent
	latestList time.Duration       // and of those about lists, by whomever
	waiting    []func()            // until settled
	vanished   map[int]bool        // operations of which nobody waits for the end
	unanswered map[int]func() bool // claims that a process took in, and whether that has not been killed
	crashed    map[crashPoint]int
	called     map[string]*[ways]int
	hits       map[string]int
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
	if err := w.auditExports(); err != nil {
		r.Err, r.Broken = errors.Join(r.Err, err), append(r.Broken, "audit")
	}
	return r
}

// auditExports has the audit that auditors run find nothing wrong with what was exported, but that
// a draw was closed before all its winners were awarded, which operators may do. Whether it is what
// the ledger had is another matter, which is for package check.
func (w *world) auditExports() (all error) {
	key := w.scenario.files.key()
	for i, x := range w.history.Exports {
		if err := auditExport(x.Bytes, key); err != nil {
			all = errors.Join(all, fmt.Errorf("audit: of export %d: %w", i, err))
		}
	}
	for i, x := range w.history.LiveExports {
		if x.How != check.Done {
			continue
		}
		if err := auditExport(x.Bytes, key); err != nil {
			all = errors.Join(all, fmt.Errorf("audit: of live export %d, written at %v: %w", i, x.At, err))
		}
	}
	return all
}

func auditExport(content []byte, key *units.Key) error {
	if !bytes.Contains(content, []byte(`"unitsLog"`)) {
		key = nil // a file that was written before the sale had units needs none
	}
	a, _, err := export.Audit(bytes.NewReader(content), key)
	if err != nil {
		return err
	}
	wrong := slices.DeleteFunc(a.Problems, func(what string) bool { return strings.HasSuffix(what, check.ClosedBefore) })
	if len(wrong) > 0 {
		return fmt.Errorf("%q", wrong)
	}
	return nil
}

// survive lives; a panic is a failure of its seed like any other.
func (w *world) survive() (err error) {
	defer func() {
		for _, command := range w.operators.commands {
			command.Drop()
		}
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v\n%s", what, debug.Stack())
		}
	}()
	w.live()
	return nil
}

func newWorld(o Options) *world {
	w := &world{
		Options: o, trace: newTracer(o.Trace), scenario: draw(o.random(forScenario, 0), o.Clients),
		history:  &check.History{Sale: saleName, Deal: deal},
		vanished: make(map[int]bool), unanswered: make(map[int]func() bool), crashed: make(map[crashPoint]int),
		called: make(map[string]*[ways]int), hits: make(map[string]int), doubtful: make(map[string][]*ambush),
	}
	w.random.network, w.random.store = o.random(forNetwork, 0), o.random(forStore, 0)
	w.random.schedule, w.random.faults = o.random(forSchedule, 0), o.random(forFaults, 0)
	w.random.crashes = o.random(forCrashes, 0)
	w.scenario.drawLists(o.random(forLists, 0), o.Clients)
	w.scenario.drawSizes(o.random(forSizes, 0))
	w.scenario.drawPage(o.random(forPages, 0))
	w.scenario.drawHours(o.random(forHours, 0), o.Until)
	w.scenario.drawPayment(o.random(forPayments, unpaid))
	w.scenario.drawRules(o.random(forRules, unruled), o.Until)
	w.random.lookups = o.random(forRules, 0)
	w.scenario.drawSources(o.random(forSources, oneSource))
	w.scenario.drawMoves(o.random(forSources, unmoved), o)
	w.scenario.drawPartial(o.random(forParts, whole), o.Until)
	w.random.parts = o.random(forParts, 0)
	w.scenario.drawChoice(o.random(forChoice, unchosen))
	w.random.choice = o.random(forChoice, 0)
	w.scenario.drawDraw(o.random(forDraws, undrawn), o.Until)
	w.random.draws = o.random(forDraws, 0)
	w.scenario.drawPhases(o.random(forPhases, unphased), o.Until)
	w.scenario.drawService(o.random(forService, unserved))
	w.scenario.drawUnitFiles(o.random(forUnits, unfiled))
	w.history.Begin, w.history.Slack = epoch, w.scenario.ttl
	w.drawDoubts(o.random(forDoubts, 0), doubts)
	w.drawDoubts(o.random(forDoubts, readable), unreadDoubts)
	w.random.doubts = o.random(forDoubts, 1)
	w.random.nags = o.random(forNags, 0)
	w.random.peers = o.random(forPeers, 0)
	w.drawPeering(o.random(forPeering, unbeset))
	w.random.beset = o.random(forPeering, unbeset+1)
	w.scenario.nags = w.random.nags.chance(0.4)
	w.thinking = 2 * o.Until * time.Duration(o.Clients) / time.Duration(max(1, o.Ops))
	w.lurking = w.scenario.lurkers()
	w.store = newStore(w)
	nodeClocks := o.random(forScenario, 1)
	for i := range w.scenario.nodes {
		w.nodes = append(w.nodes, newNode(w, i, w.scenario.clock(nodeClocks, 0)))
		w.nodeNames = append(w.nodeNames, w.nodes[i].Name())
	}
	w.skewed()
	if w.scenario.lists != nil {
		w.listNames = w.nodeNames
	}
	w.random.work = o.random(forWork, 1)
	w.fleet = drawFleet(o.random(forWork, 0))
	w.fleet.drawStranger(o.random(forStrangers, unparted))
	if w.fleet.servers != 0 {
		w.scenario.servers = w.fleet.servers
	}
	w.work = w.newWork(o.random(forWork, 2))
	w.net = newNetwork(w, int(firstNode)+w.scenario.nodes+w.scenario.servers)
	for i := range w.scenario.servers {
		w.executors = append(w.executors, w.newServer(i))
	}
	w.operators = &operators{w: w, number: 1, random: o.random(forOperators, 0), shows: o.random(forPlans, 0).chance(0.2)}
	for i := range o.Clients {
		w.clients = append(w.clients, w.newClient(i))
	}
	w.drawConsumers(o.random(forFeeds, unfed))
	w.drawPayloads()
	if f := w.scenario.files; f != nil {
		w.history.UnitFiles = f.UnitFiles
	}
	w.drawFolder(o.random(forFolders, unread))
	w.service = w.newService()
	w.drawAuditor(o.random(forAudits, unaudited))
	return w
}

// patience is how long after the faults a world may take to come to rest. A draw takes longer:
// for each run its entries, its reveal and its substitutes.
func (w *world) patience() time.Duration {
	if w.scenario.drawn != nil {
		return 8 * time.Minute
	}
	if w.service != nil {
		return 6 * time.Minute
	}
	return 4 * time.Minute
}

// live runs the world until nothing is left to happen.
func (w *world) live() {
	for _, e := range w.executors {
		e.begin()
	}
	w.operators.scheduleHours()
	w.operators.scheduleRules()
	w.operators.scheduleSources()
	w.operators.scheduleJoint(w.Options.random(forJoint, notJoint))
	w.operators.schedulePartial()
	w.operators.scheduleReveals()
	w.operators.schedulePhases()
	w.operators.schedule()
	w.schedule()
	w.scheduleClocks()
	w.scheduleConsumers()
	w.scheduleFolder()
	w.service.schedule()
	w.scheduleReports()
	w.auditor.schedule()
	defer w.auditor.end()
	defer func() {
		for _, c := range w.consumers {
			c.adding.end()
		}
		w.scenario.files.remove()
	}()
	w.scheduleDrains()
	for _, c := range w.clients {
		w.at(c.between(0, 2*time.Second), c.live)
	}
	w.at(w.Until, w.calmDown)
	for w.step(w.Until + w.patience()) {
	}
}
