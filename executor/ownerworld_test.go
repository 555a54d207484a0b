package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/backends/backendtest"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// ownerWorld is an owner on a store and lock nodes in memory, with a clock that
// moves by hand. Calls take no time; where all nodes or the store are off, they
// fail. Calls to a node that hangs fail when nobody waits for them any more.
type ownerWorld struct {
	t     testing.TB
	sale  string
	ttl   time.Duration
	store *backendtest.Store
	logs  ledger.Logs
	nodes []*backendtest.Node
	node  *backendtest.Node // the first
	now   clock.Now

	nodeOff, logsOff bool
	hangs, refuses   map[int]bool
	timeouts         []timeout

	o      *owner
	token  int
	wake   time.Duration
	starts int
	stops  []shard.Halt
	reads  int // of the sale's log
	events []quorum.Event
	plans  int           // times that the generations were told
	rights *shard.Rights // told last
	err    error
}

// timeout is a call that will fail.
type timeout struct {
	at    time.Duration
	reply quorum.Reply
}

func newOwnerWorld(t testing.TB) *ownerWorld { return newOwnerWorldOn(t, 1, quorum.DefaultTTL) }

// newOwnerWorldOn has that many lock nodes, and a sale that names a ttl.
func newOwnerWorldOn(t testing.TB, nodes int, ttl time.Duration) *ownerWorld {
	w := &ownerWorld{
		t: t, sale: "owned", ttl: ttl, store: backendtest.NewStore(),
		now:   clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)},
		hangs: map[int]bool{}, refuses: map[int]bool{},
	}
	w.logs = w.store.Handle(nil)
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprint("node", i))
		w.nodes = append(w.nodes, backendtest.NewNode(names[i], w.now.Wall))
		saletest.Mark(t, w.nodes[i])
	}
	w.node = w.nodes[0]
	w.o = newOwner(MachineConfig{
		Sale: w.sale, Address: "first:1", Nodes: names,
		Token:  func() string { w.token++; return fmt.Sprint("first-", w.token) },
		Jitter: func() float64 { return 0.5 },
	})
	return w
}

// applied is newOwnerWorld with an applied sale of that many shards, read.
func applied(t testing.TB, shards int) *ownerWorld {
	w := newOwnerWorld(t)
	w.apply(shards)
	return w
}

func (w *ownerWorld) apply(shards int) {
	w.t.Helper()
	sale := saletest.Declared(w.sale, 10, shards, 1)
	sale.LockTTL = w.ttl
	saletest.Provision(w.t, w.logs, sale, spec.Shares(10, shards))
	w.run()
}

// run does what the owner wants done until time must pass.
func (w *ownerWorld) run() {
	w.t.Helper()
	for range 1000 {
		out, err := w.o.next(w.now)
		if err != nil {
			w.err = err
			return
		}
		w.take(out)
		if out.read == nil && len(out.calls) == 0 {
			if w.wake != 0 && w.wake <= w.now.Mono {
				w.t.Fatalf("it wants to be woken at %v, now is %v", w.wake, w.now.Mono)
			}
			return
		}
		if out.read != nil {
			// While the store has not answered there is nothing to be woken for
			// at once.
			if out.wake != 0 && out.wake <= w.now.Mono {
				w.t.Fatalf("reading, it wants to be woken at %v, now is %v", out.wake, w.now.Mono)
			}
			w.reads++
			reply := ledger.Reply{Err: errors.New("the store is off")}
			if !w.logsOff {
				reply = out.read.Do(context.Background(), w.logs)
			}
			w.o.read(w.now, reply)
		}
		for _, c := range out.calls {
			if w.hangs[c.Node] {
				w.timeouts = append(w.timeouts, timeout{w.now.Mono + c.Timeout, quorum.Reply{Node: c.Node, Seq: c.Seq, Err: context.DeadlineExceeded}})
				continue
			}
			w.o.voted(w.now, w.vote(c))
		}
	}
	w.t.Fatal("it goes on for ever")
}

func (w *ownerWorld) vote(c quorum.Call) quorum.Reply {
	if w.nodeOff || w.refuses[c.Node] {
		return quorum.Reply{Node: c.Node, Seq: c.Seq, Err: errors.New("the node is off")}
	}
	return c.Do(context.Background(), w.nodes[c.Node])
}

func (w *ownerWorld) take(out ownerEffects) {
	w.wake = out.wake
	w.events = append(w.events, out.events...)
	if out.start {
		w.starts++
	}
	if out.stop != nil {
		w.stops = append(w.stops, *out.stop)
	}
	if out.plans {
		w.plans++
	}
	if out.rights != nil {
		w.rights = out.rights
	}
}

// pass lets time pass, and the owner act in it.
func (w *ownerWorld) pass(d time.Duration) {
	w.t.Helper()
	w.run()
	for end := w.now.Mono + d; w.now.Mono < end && w.err == nil; {
		next := end
		if w.wake != 0 {
			next = min(end, w.wake)
		}
		for _, late := range w.timeouts {
			next = min(next, late.at)
		}
		w.move(next - w.now.Mono)
		w.timeOut()
		w.o.tick(w.now)
		w.run()
	}
}

// move moves the clocks.
func (w *ownerWorld) move(d time.Duration) {
	for _, n := range w.nodes {
		n.Advance(d)
	}
	w.now = clock.Now{Mono: w.now.Mono + d, Wall: w.now.Wall.Add(d)}
}

// timeOut fails the calls that nobody waits for any more.
func (w *ownerWorld) timeOut() {
	late := w.timeouts
	w.timeouts = nil
	for _, c := range late {
		if c.at > w.now.Mono {
			w.timeouts = append(w.timeouts, c)
		} else {
			w.o.voted(w.now, c.reply)
		}
	}
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

// valid says whether the process may append.
func (w *ownerWorld) valid() bool { return w.rights != nil && w.rights.Valid(w.now) }

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

// rival is another process that takes the leases of some shards for a ttl.
func (w *ownerWorld) rival(shards ...int) {
	w.t.Helper()
	b := quorum.Ballot{Marker: spec.Marker(saletest.UID), TTL: quorum.DefaultTTL}
	for _, shard := range shards {
		b.Asks = append(b.Asks, quorum.Ask{Key: spec.LeaseKey(saletest.UID, shard), Token: "rival", Note: quorum.Note{Address: "rival:1"}.String()})
	}
	count, err := w.node.Vote(context.Background(), b)
	if err != nil || slices.Contains(count.Yes, false) {
		w.t.Fatalf("the rival got %v, %v", count, err)
	}
}
