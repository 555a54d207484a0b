package apply

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
	"salectl/units"
)

// world is one store and three lock nodes, and a time that only moves when
// nothing else can happen.
type world struct {
	testing.TB
	store *memory.Store
	nodes []*memory.Node
	// keepers are the nodes that keep lists; none where the engine is ledger.
	keepers []*memory.Lists
	now     clock.Now
	drawn   uint64 // numbers drawn: uids and writers are counted, not random

	faults memory.Faults     // of every planner's handle
	late   []func()          // calls that a killed planner had sent
	table  *fakeTable        // of the logs; nil: they need none
	unfit  map[string]string // what nodes say of themselves, by name
	folder string            // of exports

	units *Payloads // payloads of new units, for the next process
	key   *units.Key

	drawKey *units.Key
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, store: memory.NewStore(), now: clock.Now{Wall: epoch}, folder: t.TempDir()}
	for i := range 3 {
		w.nodes = append(w.nodes, memory.NewNode(fmt.Sprintf("node-%d", i), epoch))
	}
	return w
}

func (w *world) Read(b []byte) (int, error) {
	for i := 0; i < len(b); i += 8 {
		w.drawn++
		copy(b[i:], binary.BigEndian.AppendUint64(nil, w.drawn))
	}
	return len(b), nil
}

func (w *world) config() Config {
	writer := make([]byte, 8)
	w.Read(writer)
	cfg := Config{
		Backends: machine.Backends{Logs: w.logs(w.faults), Clock: func() clock.Now { return w.now }, Rand: w},
		Options:  Options{Writer: writer, Who: "tester@host", Units: w.units, Key: w.key, DrawKey: w.drawKey},
	}
	w.Cleanup(w.units.Close)
	for _, n := range w.nodes {
		cfg.Nodes = append(cfg.Nodes, unfitNode{n, w})
	}
	for _, n := range w.keepers {
		cfg.Lists = append(cfg.Lists, n)
	}
	return cfg
}

// running is a config for what waits by itself.
func (w *world) running() Config {
	cfg := w.config()
	cfg.Clock = clockOf(w)
	return cfg
}

func (w *world) logs(faults memory.Faults) ledger.Logs {
	if w.table != nil {
		return tabled{w.store.Handle(faults), w.table}
	}
	return w.store.Handle(faults)
}

// unfitNode is a node that may be badly set up.
type unfitNode struct {
	*memory.Node
	w *world
}

func (n unfitNode) Info(ctx context.Context) (quorum.Info, error) {
	info, err := n.Node.Info(ctx)
	if err == nil {
		info.Unfit = n.w.unfit[n.Name()]
	}
	return info, err
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
	for _, n := range w.nodes {
		n.Advance(d)
	}
}

// land lets in what killed planners had sent.
func (w *world) land() {
	for _, call := range w.late {
		call()
	}
	w.late = nil
	w.store.Land()
	for _, n := range w.nodes {
		n.Land()
	}
	for _, n := range w.keepers {
		n.Land()
	}
}

// actual reads the sale. Where that waits, the world's time goes on.
func (w *world) actual() *planner.Actual {
	w.Helper()
	cfg := w.config()
	cfg.Logs = w.logs(nil)
	r, actual := current.NewReading(current.ReadTerms{Names: cfg.Names(), Tries: ledger.ReadTries}, "tickets")
	for {
		calls, wake, done, err := r.Next(w.now)
		switch {
		case err != nil:
			w.Fatalf("reading the sale: %v", err)
		case done:
			return actual
		case len(calls) == 0:
			w.pass(max(0, wake-w.now.Mono))
			r.Tick(w.now)
		}
		for len(calls) > 0 {
			k := calls[0]
			k.Took(w.now, cfg.Do(context.Background(), "tickets", k), nil)
			more, _, _, _ := r.Next(w.now)
			calls = append(calls[1:], more...)
		}
	}
}

// reading begins a reading that may not be run to its end.
func (w *world) reading(t current.ReadTerms, sale string) (*machine.Machine, *planner.Actual) {
	m, actual := current.NewReading(t, sale)
	w.Cleanup(m.Drop)
	return m, actual
}

func (w *world) mustPlan(desired spec.Sale) *planner.Plan {
	w.Helper()
	p, err := planner.Make(desired, w.actual())
	if err != nil {
		w.Fatalf("planning: %v", err)
	}
	return p
}

// process is a planner that carries out a plan, one effect at a time.
type process struct {
	*machine.Machine
	world *world
	cfg   Config
	x     *execution
	queue []calls.Call
	asked int // number of calls so far
	wake  time.Duration
	done  bool
	err   error
	log   []Progress
}

// begin starts a process.
func (w *world) begin(p *planner.Plan) *process {
	w.Helper()
	return w.beginAs(p, false)
}

func (w *world) beginAs(p *planner.Plan, rehearsal bool) *process {
	w.Helper()
	cfg := w.config()
	proc := &process{world: w, cfg: cfg}
	terms := cfg.terms()
	terms.Progress = func(p Progress) { proc.log = append(proc.log, p) }
	x, err := newExecution(terms, p, fileExporter(filepath.Join(w.folder, "export.ndjson"), nil), rehearsal)
	if err != nil {
		w.Fatal(err)
	}
	proc.Machine, proc.x = machine.New(x.core, x), x
	w.Cleanup(proc.Drop)
	proc.take()
	return proc
}

func (p *process) take() {
	var made []calls.Call
	made, p.wake, p.done, _ = p.Next(p.world.now)
	p.err = p.x.wrap(p.x.core.Err) // what an apply has left undone is no error here
	p.queue, p.asked = append(p.queue, made...), p.asked+len(made)
}

func (p *process) perform(k calls.Call) machine.Reply {
	return p.cfg.Do(context.Background(), "tickets", k).(machine.Reply)
}

// reply gives the process a reply.
func (p *process) reply(k calls.Call, r machine.Reply) {
	k.Took(p.world.now, r, nil)
	p.take()
}

// next takes the i-th of the calls to be made.
func (p *process) next(i int) calls.Call {
	k := p.queue[i]
	p.queue = append(p.queue[:i:i], p.queue[i+1:]...)
	return k
}

// isNext reports whether the next call is of a name.
func (p *process) isNext(what string) bool { return len(p.queue) > 0 && p.queue[0].What == what }

// request is what the next call asks a log for, if it does.
func (p *process) request() ledger.Request {
	if len(p.queue) == 0 {
		return ledger.Request{}
	}
	return requestOf(p.queue[0])
}

// job is what the next call exports.
func (p *process) job() (job export.Sale) {
	exporter := p.x.exporter
	defer func() { p.x.exporter = exporter }()
	p.x.exporter = func(_ context.Context, sale export.Sale) (string, []byte, error) {
		job = sale
		return "", nil, nil
	}
	p.queue[0].Make(context.Background(), p.cfg.Logs, nil, nil)
	return job
}

// step makes one call, or lets time pass to where the process wants to go on.
func (p *process) step(choose func(n int) int) {
	p.world.Helper()
	switch {
	case len(p.queue) > 0:
		k := p.next(choose(len(p.queue)))
		p.reply(k, p.perform(k))
	case p.wake > 0:
		p.world.pass(max(0, p.wake-p.world.now.Mono))
		p.Tick(p.world.now)
		p.take()
	default:
		p.world.Fatal("the machine waits for nothing and has not ended")
	}
}

func inOrder(int) int { return 0 }

// run carries out a plan to its end.
func (w *world) run(plan *planner.Plan) error {
	w.Helper()
	if plan.Empty() && plan.Kind != planner.KindPhase {
		return nil
	}
	p := w.begin(plan)
	for steps := 0; !p.done; steps++ {
		if steps > 100000 {
			w.Fatal("no end")
		}
		p.step(inOrder)
	}
	return p.err
}

// fate is what becomes of the call at which a process is killed.
type fate int

const (
	served  fate = iota // it is made, and nobody hears of it
	dropped             // it is never created
	delayed             // it is made later, on land
)

func (f fate) String() string { return [...]string{"served", "dropped", "delayed"}[f] }

// runKilled carries out a plan up to its kill-th call; false if it ended before.
func (w *world) runKilled(plan *planner.Plan, kill int, how fate) bool {
	w.Helper()
	p := w.begin(plan)
	for calls := 1; !p.done; {
		if len(p.queue) > 0 {
			if calls == kill {
				k := p.next(0)
				switch how {
				case served:
					p.perform(k)
				case delayed:
					w.late = append(w.late, func() { p.perform(k) })
				}
				return true
			}
			calls++
		}
		p.step(inOrder)
	}
	if p.err != nil {
		w.Fatalf("before call %d: %v", kill, p.err)
	}
	return false
}

// runUntil carries out a plan until some shards have it, and no further.
func (w *world) runUntil(plan *planner.Plan, shards int) {
	w.Helper()
	for p := w.begin(plan); ; p.step(inOrder) {
		have := 0
		for _, s := range w.actual().Shards {
			if s.Head != nil && s.Head.Generation == plan.Generation {
				have++
			}
		}
		switch {
		case have == shards:
			return
		case p.done:
			w.Fatalf("%d shards have it, want %d: %v", have, shards, p.err)
		}
	}
}

// mustApply brings the sale to a declaration.
func (w *world) mustApply(desired spec.Sale) {
	w.Helper()
	if err := w.run(w.mustPlan(desired)); err != nil {
		w.Fatalf("apply: %v", err)
	}
	if p := w.mustPlan(desired); !p.Empty() {
		w.Fatalf("after apply there still is to do: %+v", p.Actions)
	}
}

func (w *world) mustPhase(phase pb.Phase) {
	w.Helper()
	p, err := planner.MakePhase(w.actual(), phase)
	if err == nil {
		err = w.run(p)
	}
	if err != nil {
		w.Fatalf("phase %v: %v", phase, err)
	}
}

// audit checks every unit of the sale.
func (w *world) audit() *audit.Report {
	w.Helper()
	a, err := audit.Run(context.Background(), w.store.Handle(nil), "tickets", ledger.NewState, nil)
	if err != nil {
		w.Fatalf("audit: %v", err)
	}
	if !a.OK {
		w.Fatalf("audit: %v", a.Problems)
	}
	return a
}

func (w *world) wantStock(stock int64) {
	w.Helper()
	if a := w.audit(); a.Stock != stock {
		w.Fatalf("the stock is %d, want %d", a.Stock, stock)
	}
}

// owner is a process that sells on a shard, as far as these tests need one.
type owner struct {
	w      *world
	id     []byte
	sale   *ledger.Sale
	log    string
	state  *ledger.State
	writer *ledger.Writer
}

var errLost = errors.New("the slot was taken by somebody else")

func (w *world) owner(shard int) *owner {
	w.Helper()
	o := w.appender(shard)
	if err := o.append(func(d *ledger.Draft) { d.Own("127.0.0.1:1") }); err != nil {
		w.Fatal(err)
	}
	return o
}

// appender is a process that has not made itself the owner.
func (w *world) appender(shard int) *owner {
	w.Helper()
	id := make([]byte, 8)
	w.Read(id)
	o := &owner{w: w, id: id, sale: w.actual().Sale}
	o.log = spec.ShardLog(o.sale.UID(), shard, o.sale.Shards())
	o.state = ledger.NewState(o.log)
	o.catchUp()
	return o
}

// catchUp reads what others have appended.
func (o *owner) catchUp() {
	o.w.Helper()
	var err error
	if o.writer, err = ledger.Load(context.Background(), o.w.store.Handle(nil), o.log, o.state); err != nil {
		o.w.Fatal(err)
	}
}

// entry is a commit that the owner might append now.
func (o *owner) entry(fill func(*ledger.Draft)) *ledger.Entry {
	o.w.Helper()
	d := o.state.Draft(o.id, o.w.now.Wall.UnixMicro())
	fill(d)
	e, err := d.Encode()
	if err != nil {
		o.w.Fatal(err)
	}
	return e
}

// append appends, and reads on where somebody else was faster.
func (o *owner) append(fill func(*ledger.Draft)) error {
	o.w.Helper()
	e := o.entry(fill)
	logs := o.w.store.Handle(nil)
	for do := o.writer.Append(e); ; {
		switch {
		case do.Event == ledger.Committed:
			return o.state.Apply(e.Commit, e.Hash, len(e.Bytes))
		case do.Event == ledger.Taken || do.Event == ledger.Gone:
			return errLost
		case do.Send == nil:
			o.w.Fatalf("the owner's append: %+v", do)
		}
		do = o.writer.Done(o.w.now, do.Send.Do(context.Background(), logs))
	}
}

// claim sells units to a new user, as many as one may have at once or fewer.
func (o *owner) claim(units int64) {
	o.w.Helper()
	for units > 0 {
		n := min(units, o.state.Settings().GetPerUserLimit())
		if err := o.claimOnce(n); err != nil {
			o.w.Fatal(err)
		}
		units -= n
	}
}

// claimHeld holds units for a new user up to a time, in microseconds since 1970: a
// generation that has claims held for so long comes first.
func (o *owner) claimHeld(units, untilUs int64) error {
	o.w.Helper()
	o.w.holdFor(untilUs - o.w.now.Wall.UnixMicro())
	o.catchUp()
	return o.claimOnce(units)
}

// holdFor brings every shard to a generation whose claims are held for so many
// microseconds.
func (w *world) holdFor(us int64) {
	w.Helper()
	planned := next(w.actual().Sale, pb.Phase_OPEN)
	planned.Settings.Payment = &pb.Payment{HoldForUs: us, Late: pb.Payment_REFUSE}
	w.note(&pb.Op{Op: &pb.Op_Planned{Planned: planned}})
	for shard := range planned.GetShards() {
		o := w.appender(shard)
		err := o.append(func(d *ledger.Draft) { d.Generation(o.sale.ShardGeneration(planned.GetGeneration(), shard)) })
		if err != nil {
			w.Fatal(err)
		}
	}
	w.note(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: planned.GetGeneration()}}})
}

func (o *owner) claimOnce(units int64) error {
	o.w.Helper()
	return o.append(func(d *ledger.Draft) {
		if v := d.Claim(o.newUser(), "key", units); v.Kind != ledger.Granted {
			o.w.Fatalf("a claim of %d units: verdict %d, %s", units, v.Kind, v.Refusal)
		}
	})
}

// newUser names a user of the owner's shard.
func (o *owner) newUser() string {
	for i := o.state.Claims(); ; i++ {
		user := fmt.Sprint("user-", i)
		shard := spec.HomeShard(user, o.sale.Shards())
		log := spec.ShardLog(o.sale.UID(), shard, o.sale.Shards())
		if log == o.log && o.state.UserUnits(user) == 0 {
			return user
		}
	}
}

// serve makes the nodes hold the lease of shard 0.
func (w *world) serve() {
	w.Helper()
	uid := w.actual().Sale.UID()
	for _, n := range w.nodes {
		c, err := n.Vote(context.Background(), quorum.Ballot{
			Marker: spec.Marker(uid), TTL: quorum.MaxTTL,
			Requests: []quorum.LeaseRequest{{Key: spec.LeaseKey(uid, 0), Token: "owner", Note: quorum.Note{Address: "127.0.0.1:1", Beats: 7}.String()}},
		})
		if err != nil || !c.Yes[0] {
			w.Fatalf("no lease: %+v, %v", c, err)
		}
	}
}

// seeded returns a choice of what happens next.
func seeded(seed uint64) func(n int) int {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(n int) int { return r.IntN(n) }
}

// clockOf is a clock that runs, with the wall time of the world's nodes.
func clockOf(w *world) clock.Clock {
	system, from := clock.System(), w.now
	return func() clock.Now {
		now := system()
		return clock.Now{Mono: from.Mono + now.Mono, Wall: from.Wall.Add(now.Mono)}
	}
}
