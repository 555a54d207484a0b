package shard

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
)

// TestRights lets nothing be appended without.
func TestRights(t *testing.T) {
	for name, lose := range map[string]func(w *world, h *host){
		"withdrawn": func(w *world, h *host) { h.leased = false; h.permit() },
		"lease over": func(w *world, h *host) {
			h.leased = false
			w.move(3 * time.Second)
			for _, a := range h.actors {
				a.step(func(q *sequencer) { q.rights.ReadAt = w.now })
			}
		},
		"sale's log not read": func(w *world, h *host) {
			h.leased = false
			w.move(3 * time.Second)
			for _, a := range h.actors {
				a.step(func(q *sequencer) { q.rights.Lease = saletest.Lease(w.t, w.now) })
			}
		},
		"suspended": func(w *world, h *host) { // the monotonic clock stood still
			h.leased = false
			w.now.Wall = w.now.Wall.Add(time.Minute)
		},
		"clock set back": func(w *world, h *host) { // by more than is believed
			h.leased = false
			w.now.Wall = w.now.Wall.Add(-quorum.DefaultTTL - time.Microsecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 9, 0)
			h := w.serving("first")
			lose(w, h)
			slots := w.slots(0) + w.slots(1)
			x, y := h.ask(w.buyer(0, 0), "1", 1), h.ask(w.buyer(1, 0), "1", 1)
			saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
			h.plans()
			w.settle()
			x.want(t, "no_quorum")
			y.want(t, "no_quorum")
			if got := w.slots(0) + w.slots(1); got != slots {
				t.Errorf("%d slots were appended", got-slots)
			}
			h.leased = true
			h.permit()
			z := h.ask(w.buyer(0, 0), "1", 1)
			w.settle()
			z.want(t, "sold")
		})
	}
	t.Run("clock set back by a ttl", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.serving("first")
		h.leased = false
		w.now.Wall = w.now.Wall.Add(-quorum.DefaultTTL)
		x := h.ask("ann", "1", 1)
		w.settle()
		x.want(t, "sold")
	})
	t.Run("withdrawn, and so is a request", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9)
		h := w.serving("first")
		w.mail = func(Message) int { return 0 }
		x := h.ask(w.buyer(0, 0), "1", 1)
		w.settle()
		x.withdraw() // who is short is not asked for again: nobody may answer it
		h.leased = false
		h.permit()
		w.settle()
		x.want(t, "")
	})
	t.Run("while the log is read", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.host("first", nil)
		h.leased = false
		h.permit()
		x := h.ask("ann", "1", 1)
		h.actors[0].step(nil)
		if h.actors[0].q.mode != loading {
			t.Fatal("the log is read")
		}
		x.want(t, "no_quorum")
	})
	t.Run("never had", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.host("first", nil)
		h.leased = false
		h.permit()
		x := h.ask("ann", "1", 1)
		w.settle()
		x.want(t, "no_quorum")
		if n := w.slots(0); n != 1 {
			t.Errorf("%d slots: it made itself owner", n)
		}
	})
}

func TestHalt(t *testing.T) {
	gentle := Halt{Why: errEnd, Refusal: api.Draining, Gentle: true}
	hard := Halt{Why: errEnd, Refusal: api.Closed}
	// One request is being appended, one waits for units that never come, and
	// two are queued.
	begin := func(t *testing.T) (h *host, under, short, queued, another *asked) {
		w := newWorld(t, 9, 3, 1)
		h = w.serving("first")
		w.mail = func(Message) int { return 0 }
		short = h.ask(w.buyer(0, 0), "1", 4)
		w.settle()
		under = h.ask(w.buyer(0, 1), "1", 1)
		h.actors[0].step(nil)
		queued, another = h.ask(w.buyer(0, 2), "1", 1), h.ask(w.buyer(0, 3), "1", 1)
		return h, under, short, queued, another
	}
	t.Run("gently", func(t *testing.T) {
		h, under, short, queued, another := begin(t)
		h.halt(gentle)
		h.w.pass(10 * time.Second)
		under.want(t, "sold")
		queued.want(t, "sold")
		another.want(t, "sold")
		short.want(t, "none_now")
		late := h.ask("late", "1", 1)
		late.actor.step(nil)
		late.want(t, "draining")
		if q := h.actors[0].q; q.mode != stopped || q.why != errEnd {
			t.Errorf("mode %d, %v", q.mode, q.why)
		}
	})
	t.Run("gently, with nobody short", func(t *testing.T) {
		w := newWorld(t, 9, 9)
		h := w.serving("first")
		under := h.ask("ann", "1", 1)
		h.actors[0].step(nil)
		queued := h.ask("bob", "1", 1)
		h.halt(gentle)
		w.settle()
		under.want(t, "sold")
		queued.want(t, "sold")
		if q := h.actors[0].q; q.mode != stopped {
			t.Errorf("mode %d", q.mode)
		}
	})
	t.Run("gently, while units are on their way", func(t *testing.T) {
		w := newWorld(t, 9, 0, 3)
		h := w.serving("first")
		x := h.ask(w.buyer(0, 0), "1", 2)
		h.actors[0].step(nil)
		h.actors[0].step(func(q *sequencer) { gentle.happen(w.now, q) })
		x.want(t, "")
		w.settle()
		x.want(t, "sold")
	})
	t.Run("hard, twice", func(t *testing.T) { // the first counts
		w := newWorld(t, 9, 9)
		h := w.serving("first")
		x := h.ask("ann", "1", 1)
		h.actors[0].step(nil)
		h.halt(hard)
		h.halt(Halt{Why: errEnd, Refusal: api.Draining})
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		saletest.Take(t, w.logs, w.sale, 0)
		w.settle()
		x.want(t, "closed")
		if q := h.actors[0].q; q.mode != stopped || q.why != errEnd {
			t.Errorf("mode %d, %v", q.mode, q.why)
		}
	})
	t.Run("hard, when a request was withdrawn", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9)
		h := w.serving("first")
		w.mail = func(Message) int { return 0 }
		x := h.ask(w.buyer(0, 0), "1", 1)
		w.settle()
		x.withdraw()
		h.halt(hard)
		w.settle()
		x.want(t, "")
	})
	t.Run("hard, with a generation to be taken", func(t *testing.T) {
		w := newWorld(t, 9, 9)
		h := w.serving("first")
		slots := w.slots(0)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		sale := saletest.LoadSale(t, w.logs, w.sale)
		h.actors[0].step(func(q *sequencer) {
			q.generations = []*pb.Generation{sale.ShardGeneration(1, 0), sale.ShardGeneration(2, 0)}
			hard.happen(w.now, q)
		})
		w.settle()
		if w.slots(0) != slots {
			t.Error("who has stopped appends")
		}
	})
	t.Run("hard", func(t *testing.T) {
		h, under, short, queued, another := begin(t)
		h.halt(hard)
		short.want(t, "closed")
		h.w.move(2 * ReplyTimeout) // nobody is to be asked again
		h.w.tick()
		under.want(t, "")
		h.w.settle()
		under.want(t, "sold")
		queued.want(t, "closed")
		another.want(t, "closed")
	})
	t.Run("gently, then hard", func(t *testing.T) {
		h, under, short, queued, _ := begin(t)
		h.halt(gentle)
		h.halt(Halt{Why: errEnd, Refusal: api.Draining})
		h.w.settle()
		under.want(t, "sold")
		short.want(t, "draining")
		queued.want(t, "draining")
	})
	t.Run("gently without rights", func(t *testing.T) {
		h, under, short, queued, _ := begin(t)
		h.halt(gentle)
		h.leased = false
		h.permit()
		h.w.settle()
		under.want(t, "sold")
		short.want(t, "no_quorum")
		queued.want(t, "no_quorum")
	})
	t.Run("before it serves", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.host("first", nil)
		x := h.ask("ann", "1", 1)
		h.halt(gentle)
		w.settle()
		x.want(t, "draining")
	})
}

// broken makes all calls of some methods fail while on is true.
func broken(on *bool, methods ...memory.Op) memory.Faults {
	return func(c memory.Call) memory.Fault {
		for _, op := range methods {
			if *on && c.Op == op {
				return memory.Fault{Kind: memory.ErrorBefore}
			}
		}
		return memory.Fault{}
	}
}

func TestInDoubt(t *testing.T) {
	var off bool
	begin := func(t *testing.T, methods ...memory.Op) (*host, *asked) {
		off = false
		w := newWorld(t, 1, 9)
		h := w.host("first", broken(&off, methods...))
		w.settle()
		x := h.ask("ann", "1", 1)
		off = true
		return h, x
	}
	both := []memory.Op{memory.OpAppend, memory.OpRead}
	t.Run("resolved in time", func(t *testing.T) {
		h, x := begin(t, both...)
		h.w.pass(time.Second)
		x.want(t, "")
		if h.actors[0].q.stalled(h.w.now) {
			t.Error("stalled after a second")
		}
		off = false
		h.w.pass(2 * time.Second)
		x.want(t, "sold")
	})
	t.Run("stalled, then resolved", func(t *testing.T) {
		h, x := begin(t, both...)
		h.w.pass(5 * time.Second)
		x.want(t, "")
		if !h.actors[0].q.stalled(h.w.now) {
			t.Error("not stalled after 5 s")
		}
		off = false
		h.w.pass(2 * time.Second)
		x.want(t, "sold")
		if h.actors[0].q.stalled(h.w.now) {
			t.Error("stalled, and nothing is in doubt")
		}
	})
	t.Run("given up", func(t *testing.T) {
		h, x := begin(t, both...)
		h.w.pass(EndAfter + 5*time.Second)
		x.want(t, "unknown")
		if q := h.actors[0].q; q.mode != stopped || !errors.Is(q.why, errStalled) {
			t.Errorf("mode %d, %v", q.mode, q.why)
		}
	})
	t.Run("while stopping", func(t *testing.T) {
		h, x := begin(t, both...)
		h.w.pass(time.Second)
		h.halt(Halt{Why: errEnd, Refusal: api.Draining})
		late := h.ask("bob", "1", 1)
		x.want(t, "")
		h.w.pass(StallAfter + time.Second)
		x.want(t, "unknown")
		late.want(t, "draining")
	})
	t.Run("taken by whom, while stopping", func(t *testing.T) {
		h, x := begin(t, memory.OpRead)
		saletest.Replan(t, h.w.logs, h.w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		saletest.Take(t, h.w.logs, h.w.sale, 0)
		// The slot shows that another has it; what else it has cannot be read.
		off = false
		h.actors[0].step(nil)
		h.actors[0].call()
		stale := h.actors[0].under
		reply := stale.Do(context.Background(), h.w.logs)
		reply.Head = bytes.Replace(reply.Head, []byte(`"slot":2`), []byte(`"slot":3`), 1)
		h.actors[0].under = nil
		h.actors[0].step(func(q *sequencer) { q.storeReplied(h.w.now, reply) })
		off = true
		h.w.pass(3 * time.Second)
		if !h.actors[0].q.stalled(h.w.now) {
			t.Error("not stalled")
		}
		h.halt(Halt{Why: errEnd, Refusal: api.Draining})
		h.w.pass(10 * time.Second)
		x.want(t, "unknown")
	})
	for name, fault := range map[string]memory.Fault{
		"the reply was lost":  {Kind: memory.LostReply},
		"taken by itself":     {Kind: memory.OwnTaken},
		"comes in late":       {Kind: memory.Late, N: 3},
		"comes in far later":  {Kind: memory.Late},
		"is stored twice":     {Kind: memory.Twice, N: 2},
		"failed before":       {Kind: memory.ErrorBefore},
		"was served normally": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 9)
			h := w.host("first", memory.On(memory.OpAppend, memory.Script(memory.Fault{}, fault, fault)))
			w.settle()
			x := h.ask("ann", "1", 1)
			w.pass(time.Second)
			x.want(t, "sold")
			y := h.ask("bob", "1", 1)
			w.pass(time.Second)
			y.want(t, "sold")
		})
	}
}

// TestUnknownAskedAgain gives a shard up while the outcome of a claim is unknown.
// Whoever owns the shard next gives the same request the same answer.
func TestUnknownAskedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		fault memory.Fault
		want  string
	}{
		"it was stored":            {memory.Fault{Kind: memory.LostReply}, "sold again"},
		"it was not":               {memory.Fault{Kind: memory.ErrorBefore}, "sold"},
		"it comes in when refused": {memory.Fault{Kind: memory.Late}, "sold"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 9)
			var off bool
			faults := func(call memory.Call) memory.Fault {
				switch {
				case off && call.Op == memory.OpAppend:
					return c.fault
				case off && call.Op == memory.OpRead:
					return memory.Fault{Kind: memory.ErrorBefore}
				}
				return memory.Fault{}
			}
			first := w.host("first", faults)
			w.settle()
			off = true
			x := first.ask("ann", "1", 1)
			w.pass(EndAfter + 5*time.Second)
			x.want(t, "unknown")
			if x.answer.RetryAfter == 0 {
				t.Error("the buyer is not told when to ask again")
			}
			second := w.serving("second")
			w.store.Land()
			y := second.ask("ann", "1", 1)
			w.settle()
			y.want(t, c.want)
			z := second.ask("ann", "1", 1)
			w.settle()
			z.want(t, "sold again")
			if y.answer.Claim.ID != z.answer.Claim.ID {
				t.Errorf("%v, then %v", y.answer.Claim, z.answer.Claim)
			}
		})
	}
}

// TestStoppedAndContinued stops a process with an append on its way, for longer
// than its lease. It goes on behind another's back and accepts nothing more.
func TestStoppedAndContinued(t *testing.T) {
	w := newWorld(t, 1, 9)
	first := w.serving("first")
	a := first.actors[0]
	x := first.ask("ann", "1", 1)
	a.step(nil) // sent, and not made
	stuck := a.under
	a.under = nil
	first.leased = false
	w.move(time.Minute)
	second := w.host("second", nil)
	w.settle()
	y := second.ask("bob", "1", 1)
	w.settle()
	y.want(t, "sold")

	late := first.ask("carl", "1", 1)
	reply := stuck.Do(context.Background(), a.logs)
	a.step(func(q *sequencer) { q.storeReplied(w.now, reply) })
	w.settle()
	x.want(t, "standby")
	late.want(t, "standby")
	if a.q.mode != stopped || a.q.why != ErrOtherOwner {
		t.Errorf("mode %d, %v", a.q.mode, a.q.why)
	}
}

// TestTally counts what becomes of appends.
func TestTally(t *testing.T) {
	for name, c := range map[string]struct {
		fault memory.Fault
		want  Tally
	}{
		"at once":            {memory.Fault{}, Tally{Committed: 1}},
		"the reply was lost": {memory.Fault{Kind: memory.LostReply}, Tally{Committed: 1, Unknown: 1}},
		"failed before":      {memory.Fault{Kind: memory.ErrorBefore}, Tally{Committed: 1, Unknown: 1, Resent: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 9)
			h := w.host("first", memory.On(memory.OpAppend, memory.Script(memory.Fault{}, c.fault)))
			w.settle()
			q := h.actors[0].q
			q.tally = Tally{}
			h.ask("ann", "1", 1)
			w.pass(time.Second)
			if q.tally != c.want {
				t.Errorf("%+v, want %+v", q.tally, c.want)
			}
		})
	}
	t.Run("a read that fails", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.host("first", func(c memory.Call) memory.Fault { return memory.Fault{} })
		w.settle()
		a := h.actors[0]
		a.q.tally = Tally{}
		x := h.ask("ann", "1", 1)
		a.step(nil)
		a.under = nil
		a.step(func(q *sequencer) { q.storeReplied(w.now, ledger.Reply{Err: errors.New("the reply is lost")}) })
		w.pass(time.Second)
		x.want(t, "sold")
		if want := (Tally{Committed: 1, Unknown: 1, Resent: 1}); a.q.tally != want {
			t.Errorf("%+v, want %+v", a.q.tally, want)
		}
	})
	t.Run("too large", func(t *testing.T) { // which is surely not stored
		w := newWorld(t, 1, 9)
		h := w.serving("first")
		q := h.actors[0].q
		q.tally = Tally{}
		w.store.SetMaxEntry(60)
		h.ask("ann", "1", 1)
		w.settle()
		if q.tally != (Tally{}) {
			t.Errorf("%+v", q.tally)
		}
	})
	t.Run("taken", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.serving("first")
		q := h.actors[0].q
		q.tally = Tally{}
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		saletest.Take(t, w.logs, w.sale, 0)
		h.ask("ann", "1", 1)
		w.settle()
		if want := (Tally{Committed: 1, Taken: 1, Unknown: 1}); q.tally != want {
			t.Errorf("%+v, want %+v", q.tally, want)
		}
	})
}

// TestStallSays holds what is said of an append that is in doubt, and of a log that
// cannot be read, against what the store said last.
func TestStallSays(t *testing.T) {
	lost, away := errors.New("the reply is lost"), errors.New("the store is away")
	// reply answers the call under way, and returns what is said two seconds later.
	reply := func(a *actor, r ledger.Reply) string {
		a.h.w.t.Helper()
		if a.under == nil {
			a.h.w.t.Fatal("no call is under way")
		}
		a.under = nil
		w := a.h.w
		a.step(func(q *sequencer) { q.storeReplied(w.now, r) })
		if a.under == nil { // it pauses
			w.move(a.wake - w.now.Mono)
			a.step(func(q *sequencer) { q.tick(w.now) })
		}
		w.move(StallAfter)
		if s := a.q.stall(w.now); s != nil {
			return s.Error
		}
		return ""
	}
	want := func(t *testing.T, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	begin := func(t *testing.T) (*world, *actor) {
		w := newWorld(t, 1, 9)
		h := w.serving("first")
		h.ask("ann", "1", 1)
		h.actors[0].step(nil)
		return w, h.actors[0]
	}
	unknown := "the outcome of an append is not known"
	t.Run("the last error", func(t *testing.T) {
		w, a := begin(t)
		w.move(StallAfter)
		want(t, a.q.stall(w.now).Error, unknown)
		want(t, reply(a, ledger.Reply{Err: lost}), lost.Error())
		want(t, reply(a, ledger.Reply{Err: away}), away.Error())
		want(t, reply(a, a.under.Do(context.Background(), a.logs)), away.Error()) // not stored; it is sent again
		w.settle()
	})
	t.Run("a slot that somebody took", func(t *testing.T) {
		w, a := begin(t)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		saletest.Take(t, w.logs, w.sale, 0)
		want(t, reply(a, a.under.Do(context.Background(), a.logs)), unknown)
		w.settle()
	})
	t.Run("a log that cannot be read", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.host("first", nil)
		a := h.actors[0]
		w.move(StallAfter)
		if a.q.stall(w.now) != nil {
			t.Error("it stalls before the store has failed")
		}
		want(t, reply(a, ledger.Reply{Err: away}), away.Error())
		a.call()
		w.move(StallAfter)
		want(t, a.q.stall(w.now).Error, unknown) // of Own
		w.settle()
	})
}

// TestGivesUpALogThatCannotBeRead ends a sequencer that has read nothing for a minute,
// and none that reads on.
func TestGivesUpALogThatCannotBeRead(t *testing.T) {
	away := ledger.Reply{Err: errors.New("the store is away")}
	// fail fails all calls until a moment.
	fail := func(a *actor, until time.Duration) {
		w := a.h.w
		for a.q.mode != stopped && w.now.Mono < until {
			if a.under != nil {
				a.under = nil
				a.step(func(q *sequencer) { q.storeReplied(w.now, away) })
			}
			w.move(min(max(a.wake-w.now.Mono, time.Millisecond), until-w.now.Mono))
			a.step(func(q *sequencer) { q.tick(w.now) })
		}
	}
	w := newWorld(t, 1, 9)
	a := w.host("first", nil).actors[0]
	x := a.h.ask("ann", "1", 1)
	began := w.now.Mono
	fail(a, began+EndAfter)
	if a.q.mode != loading {
		t.Fatalf("mode %d, %v", a.q.mode, a.q.why)
	}
	fail(a, began+EndAfter+time.Second)
	if a.q.mode != stopped || !errors.Is(a.q.why, errUnreadable) || !errors.Is(a.q.why, away.Err) {
		t.Errorf("mode %d, %v", a.q.mode, a.q.why)
	}
	x.want(t, "no_quorum")

	// With a part read in between it goes on.
	b := w.host("second", nil).actors[0]
	began = w.now.Mono
	fail(b, began+EndAfter/2)
	if b.under == nil {
		w.move(b.wake - w.now.Mono)
		b.step(func(q *sequencer) { q.tick(w.now) })
	}
	part := b.under.Do(context.Background(), b.logs)
	b.under = nil
	part.Head = bytes.Replace(part.Head, []byte(`"slot":0`), []byte(`"slot":9`), 1)
	b.step(func(q *sequencer) { q.storeReplied(w.now, part) })
	fail(b, began+EndAfter+time.Second)
	if b.q.mode != loading || b.q.state.Next() != 1 {
		t.Errorf("mode %d after slot %d, %v", b.q.mode, b.q.state.Next(), b.q.why)
	}
}

// TestClockSetRight has an owner's clock be set back by an hour that was ahead: it owns
// the shard anew, which sets the log's time back, and says by how much.
func TestClockSetRight(t *testing.T) {
	w := newWorld(t, 1, 9)
	h := w.serving("first")
	q := h.actors[0].q
	x := h.ask("ann", "1", 1)
	w.settle()
	x.want(t, "sold")
	if q.setBack != 0 {
		t.Errorf("set back by %v", q.setBack)
	}
	w.now.Wall = w.now.Wall.Add(-time.Hour)
	h.permit()
	y := h.ask("bob", "1", 1)
	w.settle()
	y.want(t, "sold")
	if s := saletest.LoadShard(t, w.logs, 0, 1); s.Epoch != 2 || q.setBack != time.Hour {
		t.Errorf("set back by %v, the shard is at %+v", q.setBack, s.Totals)
	}
	if at := y.answer.Claim.At; !at.Equal(w.now.Wall) {
		t.Errorf("sold at %v, now is %v", at, w.now.Wall)
	}
}

// TestStallOfASequencer holds when a shard stalls, since when, and why.
func TestStallOfASequencer(t *testing.T) {
	now := clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}
	ago := func(d time.Duration) clock.Now { return clock.Now{Mono: now.Mono - d, Wall: now.Wall.Add(-d)} }
	refused := errors.New("connection refused")
	for name, test := range map[string]struct {
		q     sequencer
		want  string // "": it does not
		since time.Duration
	}{
		"nothing is under way":            {sequencer{mode: serving, appending: appending{lastErr: refused}, reading: reading{progressAt: ago(time.Minute)}}, "", 0},
		"an append is":                    {sequencer{mode: serving, appending: appending{sent: new(ledger.Entry), sentAt: ago(StallAfter - 1)}}, "", 0},
		"an append is for too long":       {sequencer{mode: serving, appending: appending{sent: new(ledger.Entry), sentAt: ago(StallAfter)}}, "the outcome of an append is not known", StallAfter},
		"an append fails for too long":    {sequencer{mode: serving, appending: appending{sent: new(ledger.Entry), sentAt: ago(time.Minute), lastErr: refused}}, "connection refused", time.Minute},
		"the log is being read":           {sequencer{mode: loading, reading: reading{progressAt: ago(time.Minute)}}, "", 0},
		"reading fails":                   {sequencer{mode: loading, appending: appending{lastErr: refused}, reading: reading{progressAt: ago(StallAfter - 1)}}, "", 0},
		"reading fails for too long":      {sequencer{mode: loading, appending: appending{lastErr: refused}, reading: reading{progressAt: ago(StallAfter)}}, "connection refused", StallAfter},
		"reading fails, which just began": {sequencer{mode: loading, appending: appending{lastErr: refused}}, "", 0},
	} {
		q := &test.q
		switch s := q.stall(now); {
		case (s != nil) != (test.want != ""):
			t.Errorf("%s: %+v", name, s)
		case s != nil && (s.Error != test.want || !s.Since.Equal(ago(test.since).Wall) || s.Node):
			t.Errorf("%s: %+v, want %q since %v", name, s, test.want, ago(test.since).Wall)
		}
	}
	if err := (&sequencer{}).lastError(); err == nil || err.Error() != "the store's answers contradict each other" {
		t.Errorf("a store that never failed: %v", err)
	}
	if err := (&sequencer{appending: appending{lastErr: refused}}).lastError(); err != refused {
		t.Errorf("a store that failed: %v", err)
	}
}
