package process_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/saletest"
	"salectl/sim/stepped"
	"salectl/spec"
)

// steppedWorld is stepped executors on one store and three lock nodes, on time
// that passes by events. Calls take a while each way and some get lost, on the
// way there or back; all of it is drawn from one seed.
type steppedWorld struct {
	t      testing.TB
	random *rand.Rand
	loss   float64 // of a call's request, and of its reply
	off    bool    // the store cannot be reached
	store  *memory.Store
	logs   ledger.Logs
	nodes  []*memory.Node
	names  []string
	shards int
	keys   int
	tune   func(*stepped.Config) // of each process, before it begins; nil: none

	at    time.Duration // since the world began
	next  []timedEvent  // those of one instant in the order of their making
	trace hash.Hash
	tell  func(format string, args ...any)

	processes []*steppedProcess
	landed    map[string]int // calls that were made, by what they are
}

// steppedProcess is one process of the world.
type steppedProcess struct {
	w      *steppedWorld
	name   string
	p      *stepped.Process
	wakeAt time.Duration // on the world's time: the one tick that counts
	asleep bool          // it is suspended: no input
	missed []func()      // what came meanwhile
	gone   bool
	links  map[string]*steppedLink // wanted by the process, by the id of the peer
}

type timedEvent struct {
	at time.Duration
	do func()
}

var steppedBegan = time.Unix(1_800_000_000, 0)

// newSteppedWorld has an applied sale of the shares given, one unit a user.
func newSteppedWorld(t testing.TB, seed uint64, shares ...int64) *steppedWorld {
	t.Helper()
	return newSteppedWorldOf(t, seed, 1, shares...)
}

// newSteppedWorldOf has an applied sale of the shares given, at most perUser a user.
func newSteppedWorldOf(t testing.TB, seed uint64, perUser int64, shares ...int64) *steppedWorld {
	t.Helper()
	w := &steppedWorld{
		t: t, random: rand.New(rand.NewPCG(seed, 5)), store: memory.NewStore(),
		shards: len(shares), trace: sha256.New(), landed: make(map[string]int),
	}
	w.tell = func(format string, args ...any) {
		fmt.Fprintf(w.trace, "%v ", w.at)
		fmt.Fprintf(w.trace, format+"\n", args...)
	}
	w.logs = w.store.Handle(nil)
	stock := int64(0)
	for _, n := range shares {
		stock += n
	}
	saletest.Provision(t, w.logs, saletest.Declared("stepped", stock, len(shares), perUser), shares)
	for i := range 3 {
		w.names = append(w.names, fmt.Sprint("node", i))
		w.nodes = append(w.nodes, memory.NewNode(w.names[i], steppedBegan))
		saletest.Mark(t, w.nodes[i])
	}
	return w
}

// process starts one.
func (w *steppedWorld) process(name string) *steppedProcess {
	mint := func(kind string) func() string {
		return func() string { w.keys++; return fmt.Sprint(name, kind, w.keys) }
	}
	cfg := stepped.Config{
		Config: ownership.Config{Sale: "stepped", Address: name + ":1", Nodes: w.names, Token: mint("token"), Jitter: w.random.Float64},
		Me:     fmt.Appendf(nil, "%-8.8s", name), Key: mint("key"),
	}
	if w.tune != nil {
		w.tune(&cfg)
	}
	s := &steppedProcess{w: w, name: name, p: stepped.New(cfg), links: make(map[string]*steppedLink)}
	w.processes = append(w.processes, s)
	s.step()
	return s
}

// after has something done when time has passed.
func (w *steppedWorld) after(d time.Duration, do func()) {
	e := timedEvent{w.at + d, do}
	i, _ := slices.BinarySearchFunc(w.next, e, func(other, e timedEvent) int {
		if other.at <= e.at {
			return -1
		}
		return 1
	})
	w.next = slices.Insert(w.next, i, e)
}

// runUntil lets time pass until ok.
func (w *steppedWorld) runUntil(what string, ok func() bool) {
	w.t.Helper()
	for !ok() {
		if len(w.next) == 0 || w.at > 10*time.Minute {
			w.t.Fatalf("at %v it has not come to this: %s", w.at, what)
		}
		e := w.next[0]
		w.next = w.next[1:]
		for _, n := range w.nodes {
			n.Advance(e.at - w.at)
		}
		w.at = e.at
		e.do()
	}
}

// pass lets time pass.
func (w *steppedWorld) pass(d time.Duration) {
	w.t.Helper()
	over := false
	w.after(d, func() { over = true })
	w.runUntil("time passes", func() bool { return over })
}

// delay is how long a message takes.
func (w *steppedWorld) delay() time.Duration {
	return time.Millisecond + time.Duration(w.random.Int64N(int64(5*time.Millisecond)))
}

// now is the time on the process's clocks.
func (s *steppedProcess) now() clock.Now {
	return clock.Now{Mono: time.Hour + s.w.at, Wall: steppedBegan.Add(s.w.at)}
}

// input gives the process an input, or keeps it until it is resumed.
func (s *steppedProcess) input(do func()) {
	switch {
	case s.p == nil:
	case s.asleep:
		s.missed = append(s.missed, do)
	default:
		do()
		s.step()
	}
}

// step does what the process wants done.
func (s *steppedProcess) step() {
	if s.p == nil || s.asleep {
		return
	}
	calls, wake, gone := s.p.Next(s.now())
	s.connect()
	if gone && !s.gone {
		s.unlink()
	}
	s.gone = gone
	for _, c := range calls {
		s.call(c)
	}
	if wake == 0 {
		s.wakeAt = 0
		return
	}
	at := max(wake-time.Hour, s.w.at)
	if s.wakeAt == at {
		return
	}
	s.wakeAt = at
	s.w.after(at-s.w.at, func() {
		if s.wakeAt == at {
			s.input(func() { s.wakeAt = 0; s.p.Tick(s.now()) })
		}
	})
}

// call carries a call there and its reply back, unless one of them gets lost.
func (s *steppedProcess) call(c calls.Call) {
	w := s.w
	w.tell("%s asks %d: %s", s.name, c.Node, c.What)
	taken := false
	took := func(reply any, err error) {
		if !taken {
			taken = true
			s.input(func() { c.Took(s.now(), reply, err) })
		}
	}
	w.after(c.Timeout, func() { took(nil, context.DeadlineExceeded) })
	if w.random.Float64() < w.loss || w.off && c.Node == calls.Store {
		return
	}
	w.after(w.delay(), func() {
		var node quorum.Node
		if c.Node != calls.Store {
			node = w.nodes[c.Node]
		}
		reply := c.Make(context.Background(), w.logs, node, nil)
		w.landed[c.What]++
		if w.random.Float64() < w.loss {
			return
		}
		w.after(w.delay(), func() {
			w.tell("%s hears from %d: %s %+v", s.name, c.Node, c.What, reply)
			took(reply, nil)
		})
	})
}

// die is kill -9.
func (s *steppedProcess) die() {
	s.p = nil
	s.unlink()
}

// resume ends a suspension: all that came meanwhile comes at once.
func (s *steppedProcess) resume() {
	s.asleep = false
	missed := s.missed
	s.missed = nil
	for _, do := range missed {
		s.input(do)
	}
	s.step()
}

// ready returns a process that can answer for every shard, nil if none can.
func (w *steppedWorld) ready() *steppedProcess {
	for _, s := range w.processes {
		if s.isReady() {
			return s
		}
	}
	return nil
}

func (s *steppedProcess) isReady() bool {
	return s.p != nil && !s.asleep && s.p.Ready(s.now()) == nil
}

// serving waits until one of the processes can answer for every shard, and returns it.
func (w *steppedWorld) serving() *steppedProcess {
	w.t.Helper()
	w.runUntil("somebody serves", func() bool { return w.ready() != nil })
	return w.ready()
}

// shared waits until each of the processes that live owns as many shards as it should, and
// can answer for all.
func (w *steppedWorld) shared() {
	w.t.Helper()
	w.runUntil("the shards are shared", func() bool {
		for _, s := range w.processes {
			if s.p == nil || s.gone {
				continue
			}
			if !s.isReady() {
				return false
			}
			for _, m := range s.p.Status().Processes {
				if m.Shards == nil || *m.Shards != m.Assigned {
					return false
				}
			}
		}
		return true
	})
}

// steppedBuyer wants one unit, asks one process after the other until one gives
// it a final answer, and gives each of them two seconds.
type steppedBuyer struct {
	w      *steppedWorld
	user   string
	tries  int
	answer *Answer // final
}

func (b *steppedBuyer) ask() {
	w := b.w
	s := w.processes[b.tries%len(w.processes)]
	b.tries++
	heard := false
	receiver := func(a Answer) {
		if heard {
			return
		}
		heard = true
		w.tell("%s hears from %s: %+v", b.user, s.name, a)
		switch a.Outcome {
		case api.Sold, api.SoldOut:
			b.answer = &a
		default:
			w.after(100*time.Millisecond, b.ask)
		}
	}
	var withdraw func()
	s.input(func() {
		withdraw = s.p.Begin(s.now(), Request{User: b.user, Key: "only", Quantity: 1}, receiver)
	})
	w.after(2*time.Second, func() {
		if withdraw != nil && s.p != nil {
			s.input(withdraw)
		}
		receiver(Answer{Outcome: api.Unknown}) // the process does not answer at all
	})
}

// buyers have that many users ask, one every few milliseconds.
func (w *steppedWorld) buyers(n int) (all []*steppedBuyer) {
	for i := range n {
		b := &steppedBuyer{w: w, user: fmt.Sprintf("user-%d", i), tries: i}
		all = append(all, b)
		w.after(time.Duration(i)*5*time.Millisecond, b.ask)
	}
	return all
}

func answered(all []*steppedBuyer, what api.Outcome) (n int) {
	for _, b := range all {
		if b.answer != nil && (what == "" || b.answer.Outcome == what) {
			n++
		}
	}
	return n
}

// checked holds what buyers were told against the ledger.
func (w *steppedWorld) checked(all []*steppedBuyer, stock int) {
	w.t.Helper()
	if a := saletest.Audited(w.t, w.logs, "stepped"); a.Sold != int64(stock) || a.Users != int64(stock) {
		w.t.Errorf("%d units are sold to %d users, want %d to as many", a.Sold, a.Users, stock)
	}
	if n := answered(all, api.Sold); n != stock {
		w.t.Errorf("%d users were told that they have a unit, want %d", n, stock)
	}
	var states []*ledger.State
	for shard := range w.shards {
		states = append(states, saletest.LoadShard(w.t, w.logs, shard, w.shards))
	}
	for _, b := range all {
		if b.answer.Outcome != api.Sold {
			continue
		}
		shard := spec.HomeShard(b.user, w.shards)
		claims, _ := states[shard].Newest(b.user, 9)
		if len(claims) != 1 || claims[0].ID(shard) != b.answer.Claim.ID.String() || claims[0].Units[0] != b.answer.Claim.Units[0] {
			w.t.Errorf("%s was told of %v, the ledger has %v", b.user, b.answer.Claim, claims)
		}
	}
}
