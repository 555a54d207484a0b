package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// ownerWorld is owners on a store and lock nodes in memory, with a clock that moves by
// hand. Calls take no time unless a test says so, and what peers tell each other takes
// tellTakes. The machines
// of shards are made up: see madeUp.
type ownerWorld struct {
	t     testing.TB
	sale  string
	ttl   time.Duration
	store *memory.Store
	logs  ledger.Logs
	nodes []*memory.Node
	node  *memory.Node // the first
	now   clock.Now
	later []timedInput // in the order of their making

	callTakes time.Duration // of a lock node that answers; what it says was true when it was asked

	epochs []uint64 // of the shards' logs
	all    []*ownerHost
	watch  func()      // called whenever all have acted; nil: nobody looks
	loses  func() bool // whether what a peer tells is lost; nil: nothing is
	*ownerHost
}

// ownerHost is the process of an owner.
type ownerHost struct {
	w     *ownerWorld
	o     *Machine
	token int
	wake  time.Duration
	heard bool // something has come in since next was called last
	dead  bool
	still bool              // it is stopped: it gets no input, while its clocks go on
	kept  []func(clock.Now) // that came meanwhile

	nodeOff, logsOff bool
	hangs, refuses   map[int]bool // lock nodes by number
	ahead            time.Duration

	byHand  bool // machines that are stopped end by end, not by themselves
	running map[int]*madeUp
	links   map[string]*ownerHost // the peers that can be reached, by id
	wanted  map[string]bool       // the peers that links are wanted to
	cutFrom map[*ownerHost]bool
	shut    bool // it can make no link: others can to it

	starts int
	ends   int // of sessions
	opened []Opening
	halts  []Halting
	reads  int // of the sale's log
	events []quorum.Event
	plans  int // times that the generations were told
	err    error
}

// madeUp stands for the machine of a shard. It has read the log warmTakes after it was
// opened, and owns the shard by its log then, or takeTakes after it has the rights to, if
// that is later. It ends haltTakes after it was stopped, or finds another owner in the log.
type madeUp struct {
	follows bool
	warmAt  time.Duration // monotonic
	takeAt  time.Duration // monotonic: it appends Own; 0: not yet
	epoch   uint64        // of the log under it; 0: it does not own the shard
	rights  shard.Rights
	endAt   time.Duration // monotonic; 0: it goes on
}

const (
	tellTakes = time.Millisecond
	warmTakes = 25 * time.Millisecond
	takeTakes = 2 * time.Millisecond
	haltTakes = 3 * time.Millisecond
)

// timedInput is something that is to happen.
type timedInput struct {
	at time.Duration
	do func()
}

func newOwnerWorld(t testing.TB) *ownerWorld { return newOwnerWorldOn(t, 1, quorum.DefaultTTL) }

// newOwnerWorldOn has that many lock nodes, a sale that names a ttl, and one process whose
// machines end by hand.
func newOwnerWorldOn(t testing.TB, nodes int, ttl time.Duration) *ownerWorld {
	w := newOwnerWorldFor(t, nodes, ttl)
	w.ownerHost = w.host("first", nil)
	w.byHand = true
	return w
}

// newOwnerWorldFor has no process.
func newOwnerWorldFor(t testing.TB, nodes int, ttl time.Duration) *ownerWorld {
	w := &ownerWorld{
		t: t, sale: "owned", ttl: ttl, store: memory.NewStore(),
		now: clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}, epochs: make([]uint64, 64),
	}
	w.logs = w.store.Handle(nil)
	for i := range nodes {
		w.nodes = append(w.nodes, memory.NewNode(fmt.Sprint("node", i), w.now.Wall))
		saletest.Mark(t, w.nodes[i])
	}
	w.node = w.nodes[0]
	return w
}

// host starts a process.
func (w *ownerWorld) host(name string, change func(*Config)) *ownerHost {
	h := &ownerHost{
		w: w, hangs: map[int]bool{}, refuses: map[int]bool{}, running: map[int]*madeUp{},
		links: map[string]*ownerHost{}, wanted: map[string]bool{}, cutFrom: map[*ownerHost]bool{}, heard: true,
	}
	var names []string
	for _, n := range w.nodes {
		names = append(names, n.Name())
	}
	cfg := Config{
		Sale: w.sale, Address: name + ":1", Nodes: names, ID: fmt.Sprintf("%x", fmt.Appendf(nil, "%-8.8s", name)),
		Token:  func() string { h.token++; return fmt.Sprint(name, "-", h.token) },
		Jitter: func() float64 { return 0.5 },
	}
	if change != nil {
		change(&cfg)
	}
	h.o = New(cfg)
	w.all = append(w.all, h)
	return h
}

// applied is newOwnerWorld with an applied sale of that many shards, all of which are
// owned.
func applied(t testing.TB, shards int) *ownerWorld {
	t.Helper()
	w := newOwnerWorld(t)
	w.apply(shards)
	w.settle()
	w.wantShares(slices.Repeat([]shareStage{owned}, shards)...)
	return w
}

// apply applies a sale.
func (w *ownerWorld) apply(shards int) {
	w.t.Helper()
	sale := saletest.Declared(w.sale, 10, shards, 1)
	sale.LockTTL = spec.Duration(w.ttl)
	saletest.Provision(w.t, w.logs, sale, spec.Shares(10, shards))
	w.run()
}

// settle lets those who are alone own what they can.
func (w *ownerWorld) settle() {
	w.t.Helper()
	w.pass(20 * time.Millisecond)
}

// here is the time on the process's clocks.
func (h *ownerHost) here() clock.Now {
	return clock.Now{Mono: h.w.now.Mono, Wall: h.w.now.Wall.Add(h.ahead)}
}

// input has something come in.
func (h *ownerHost) input(do func(now clock.Now)) {
	switch {
	case h.dead || h.err != nil:
	case h.still:
		h.kept = append(h.kept, do)
	default:
		do(h.here())
		h.heard = true
	}
}

// acts reports whether the process does anything.
func (h *ownerHost) acts() bool { return !h.dead && !h.still && h.err == nil }

// run has all do what they want done until time must pass.
func (w *ownerWorld) run() {
	w.t.Helper()
	for _, h := range w.all {
		h.heard = true
	}
	w.act()
}

// act has those act to whom something came in.
func (w *ownerWorld) act() {
	w.t.Helper()
	for range 1000 {
		quiet := true
		for _, h := range w.all {
			if h.heard && h.acts() {
				h.heard, quiet = false, false
				h.act()
			}
		}
		if quiet {
			return
		}
	}
	w.t.Fatal("they go on for ever")
}

func (h *ownerHost) act() {
	w := h.w
	w.t.Helper()
	for _, i := range h.shardsThat(func(s *madeUp) bool { return s.endAt != 0 && s.endAt <= w.now.Mono }) {
		h.end(i)
	}
	h.o.handover.caughtUp = func(i int) bool {
		s := h.running[i]
		return s != nil && s.follows && s.warmAt <= w.now.Mono
	}
	out, err := h.o.Advance(h.here())
	if err != nil {
		h.err = err
		return
	}
	h.wake = out.Wake
	if out.Wake != 0 && out.Wake <= w.now.Mono {
		w.t.Fatalf("%s wants to be woken at %v, now is %v", h.o.cfg.Address, out.Wake, w.now.Mono)
	}
	h.take(out)
	if out.Read != nil {
		h.reads++
		reply := ledger.Reply{Err: errors.New("the store is off")}
		if !h.logsOff {
			reply = out.Read.Do(context.Background(), w.logs)
		}
		h.input(func(now clock.Now) { h.o.SaleRead(now, reply) })
	}
	for _, c := range out.Calls {
		h.call(c, h.o.LeaseReply)
	}
	for _, c := range out.Roster {
		h.call(c, h.o.RosterReply)
	}
	for _, x := range out.Halts {
		h.halts = append(h.halts, x)
		if s := h.running[x.Shard]; s != nil && !h.byHand {
			s.endAt = w.now.Mono + haltTakes
		}
	}
	for _, x := range out.Updates {
		h.tell(x.To, x.Update)
	}
	if out.Ended != nil {
		h.ends++
		if len(h.running) > 0 {
			w.t.Errorf("the session of %s has ended, and %d machines run", h.o.cfg.Address, len(h.running))
		}
	}
}

// take takes in what the owner wants done but for what it wants sent.
func (h *ownerHost) take(out Effects) {
	w := h.w
	h.events = append(h.events, out.Events...)
	if out.Start != nil {
		h.starts++
		h.o.updates.collection.totals = shard.NewSaleTotals(h.o.log.sale.Shards())
		h.heard = true
	}
	if out.Plans {
		h.plans++
	}
	for _, x := range out.Open {
		if h.running[x.Shard] != nil {
			w.t.Errorf("%s has shard %d run twice", h.o.cfg.Address, x.Shard)
		}
		h.opened = append(h.opened, x)
		h.running[x.Shard] = &madeUp{follows: x.Follows, warmAt: w.now.Mono + warmTakes}
	}
	for _, x := range out.Rights {
		s := h.running[x.Shard]
		if s == nil {
			continue
		}
		if s.rights = x.Rights; s.takeAt == 0 && h.may(s) {
			s.takeAt = max(s.warmAt, w.now.Mono+takeTakes)
		}
	}
	for _, id := range out.Hang {
		delete(h.wanted, id)
		h.unlink(id)
	}
	for _, m := range out.Dial {
		h.wanted[m.ID] = true
		h.dial(m.ID)
	}
}

func (h *ownerHost) may(s *madeUp) bool { return s.rights.Valid(h.here()) }

// call makes a call of a lock node.
func (h *ownerHost) call(c quorum.Call, took func(clock.Now, quorum.Reply)) {
	fail := func(err error) {
		h.input(func(now clock.Now) { took(now, quorum.Reply{Node: c.Node, Seq: c.Seq, Err: err}) })
	}
	switch {
	case h.hangs[c.Node]:
		h.w.after(c.Timeout, func() { fail(context.DeadlineExceeded) })
	case h.nodeOff || h.refuses[c.Node]:
		fail(errors.New("the node is off"))
	default:
		reply := c.Do(context.Background(), h.w.nodes[c.Node])
		if h.w.callTakes == 0 {
			h.input(func(now clock.Now) { took(now, reply) })
			return
		}
		h.w.after(h.w.callTakes, func() { h.input(func(now clock.Now) { took(now, reply) }) })
	}
}

// shardsThat returns those machines, in order.
func (h *ownerHost) shardsThat(are func(*madeUp) bool) (all []int) {
	for i, s := range h.running {
		if are(s) {
			all = append(all, i)
		}
	}
	slices.Sort(all)
	return all
}

// end has the machines of some shards end; all, if none is named.
func (h *ownerHost) end(shards ...int) {
	if len(shards) == 0 {
		shards = h.shardsThat(func(*madeUp) bool { return true })
	}
	for _, i := range shards {
		h.input(func(now clock.Now) {
			h.o.updates.collection.totals.Leave(i)
			delete(h.running, i)
			h.o.ShardEnded(now, i)
		})
	}
}

// live lets the machines that are due do something.
func (h *ownerHost) live() {
	w := h.w
	for _, i := range h.shardsThat(func(*madeUp) bool { return true }) {
		s := h.running[i]
		switch {
		case s.endAt != 0 && s.endAt <= w.now.Mono:
			h.heard = true // and ends
		case s.epoch != 0 && s.epoch < w.epochs[i]: // by its log another owns it
			h.end(i)
		case s.takeAt != 0 && s.takeAt <= w.now.Mono && s.epoch == 0 && s.endAt == 0 && h.may(s):
			w.epochs[i]++
			s.epoch = w.epochs[i]
			h.o.updates.collection.totals.Set(i, s.epoch, ledger.Totals{Epoch: s.epoch, Limit: 1}, time.Time{}, true)
			h.heard = true
		}
	}
}

// due is when the process is to be given time again.
func (h *ownerHost) due() (at time.Duration) {
	at = h.wake
	for _, s := range h.running {
		if s.epoch == 0 && s.takeAt > h.w.now.Mono {
			at = clock.Soonest(at, s.takeAt)
		}
		at = clock.Soonest(at, s.endAt)
	}
	if len(h.links) > 0 { // as a runner does
		at = clock.Soonest(at, h.w.now.Mono+UpdateEvery)
	}
	return at
}

// after has something done when time has passed.
func (w *ownerWorld) after(d time.Duration, do func()) {
	w.later = append(w.later, timedInput{w.now.Mono + d, do})
}

// pass lets time pass, and all act in it.
func (w *ownerWorld) pass(d time.Duration) {
	w.t.Helper()
	w.run()
	for end := w.now.Mono + d; w.now.Mono < end; {
		next := end
		for _, h := range w.all {
			if at := h.due(); at != 0 && h.acts() {
				next = min(next, max(at, w.now.Mono+1))
			}
		}
		for _, x := range w.later {
			next = min(next, x.at)
		}
		w.move(next - w.now.Mono)
		w.happen()
		for _, h := range w.all {
			if !h.acts() {
				continue
			}
			if h.wake != 0 && h.wake <= w.now.Mono || len(h.links) > 0 {
				h.input(h.o.Tick)
			}
			h.live()
		}
		w.act()
		if w.watch != nil {
			w.watch()
		}
	}
}

// happen has those things happen that are due.
func (w *ownerWorld) happen() {
	later := w.later
	w.later = nil
	for _, x := range later {
		if x.at > w.now.Mono {
			w.later = append(w.later, x)
		} else {
			x.do()
		}
	}
}

// move moves the clocks.
func (w *ownerWorld) move(d time.Duration) {
	for _, n := range w.nodes {
		n.Advance(d)
	}
	w.now = clock.Now{Mono: w.now.Mono + d, Wall: w.now.Wall.Add(d)}
}

// passUntil lets time pass until ok, but not for longer than a span, and returns
// how long that was.
func (w *ownerWorld) passUntil(ok func() bool, atMost time.Duration) (time.Duration, bool) {
	w.t.Helper()
	begin := w.now.Mono
	for w.now.Mono < begin+atMost {
		w.pass(10 * time.Millisecond)
		if ok() {
			return w.now.Mono - begin, true
		}
	}
	return w.now.Mono - begin, false
}

func (w *ownerWorld) wantStage(want stage) {
	w.t.Helper()
	if w.err != nil || w.o.stage != want {
		w.t.Fatalf("it is in stage %d, want %d (%v)", w.o.stage, want, w.err)
	}
}

// stages returns how far the process is with its shards.
func (h *ownerHost) stages() (all []shareStage) {
	for _, s := range h.o.handover.all {
		all = append(all, s.stage)
	}
	return all
}

// wantShares holds how far the process is with its shards.
func (h *ownerHost) wantShares(want ...shareStage) {
	h.w.t.Helper()
	if got := h.stages(); h.err != nil || !slices.Equal(got, want) {
		h.w.t.Fatalf("its shards are %v, want %v (%v)", got, want, h.err)
	}
}

// valid reports whether the process may append to all shards.
func (h *ownerHost) valid() bool {
	return len(h.o.handover.all) > 0 && len(h.mayAppendTo()) == len(h.o.handover.all)
}

// mayAppendTo returns the shards to which the process may append.
func (h *ownerHost) mayAppendTo() []int { return h.shardsThat(h.may) }

// holders returns who has which lease.
func (w *ownerWorld) holders() (all []string) {
	w.t.Helper()
	list, err := w.node.List(context.Background(), spec.LeasePrefix(saletest.UID))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range list {
		note, _ := quorum.ParseNote(h.Note)
		all = append(all, h.Key+" "+note.Address)
	}
	return all
}

// holds counts the leases that a process has by the first node.
func (w *ownerWorld) holds(address string) (n int) {
	for _, h := range w.holders() {
		if strings.HasSuffix(h, " "+address) {
			n++
		}
	}
	return n
}

// there returns who is there by the first node.
func (w *ownerWorld) there() []quorum.Member {
	w.t.Helper()
	const onlooker = "onlooker"
	all, err := w.node.Announce(context.Background(), registryOf(saletest.UID), quorum.Member{ID: onlooker}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(m quorum.Member) bool { return m.ID == onlooker })
}

// rival is another process that takes the leases of some shards for a ttl.
func (w *ownerWorld) rival(shards ...int) {
	w.t.Helper()
	b := quorum.Ballot{Marker: spec.Marker(saletest.UID), TTL: quorum.DefaultTTL}
	for _, shard := range shards {
		b.Requests = append(b.Requests, quorum.LeaseRequest{Key: spec.LeaseKey(saletest.UID, shard), Token: "rival", Note: quorum.Note{Address: "rival:1"}.String()})
	}
	count, err := w.node.Vote(context.Background(), b)
	if err != nil || slices.Contains(count.Yes, false) {
		w.t.Fatalf("the rival got %v, %v", count, err)
	}
}
