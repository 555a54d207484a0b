package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
	"salectl/executor/saletest"
)

// askAll has n buyers ask the process for one unit each, wherever they are at
// home.
func (h *host) askAll(n int) (all []*asked) {
	for i := range n {
		all = append(all, h.ask(fmt.Sprintf("buyer-%d", i), "key", 1))
	}
	return all
}

// count returns how many requests had an outcome.
func count(all []*asked, o api.Outcome) (n int) {
	for _, x := range all {
		if x.answer.Outcome == o {
			n++
		}
	}
	return n
}

func TestTransfers(t *testing.T) {
	for name, c := range map[string]struct {
		shares []int64
		asks   [][3]int // shard, buyer, quantity; in this order, at once
		want   []string
		later  int // how many may have to ask a second time
	}{
		"to the only buyer":   {[]int64{0, 3}, [][3]int{{0, 0, 1}}, []string{"sold"}, 0},
		"all of them":         {[]int64{0, 3}, [][3]int{{0, 0, 3}}, []string{"sold"}, 0},
		"in many halves":      {[]int64{0, 100}, [][3]int{{0, 0, 100}}, []string{"sold"}, 0},
		"from several shards": {[]int64{1, 2, 3, 4}, [][3]int{{2, 0, 10}}, []string{"sold"}, 0},
		"more than there is":  {[]int64{1, 2, 3, 4}, [][3]int{{2, 0, 11}}, []string{"none_now"}, 0},
		"to several shards":   {[]int64{0, 0, 9, 0}, [][3]int{{0, 0, 3}, {1, 0, 3}, {3, 0, 3}}, []string{"sold", "sold", "sold"}, 2},
		"two short of each other": {
			[]int64{3, 3}, [][3]int{{0, 0, 5}, {1, 0, 5}}, []string{"sold", "none_now"}, 0,
		},
		"three short of each other": {
			[]int64{2, 2, 2}, [][3]int{{0, 0, 4}, {1, 0, 4}, {2, 0, 4}}, []string{"sold", "none_now", "none_now"}, 0,
		},
		"none that is enough for either": {
			[]int64{3, 3}, [][3]int{{0, 0, 7}, {1, 0, 7}}, []string{"none_now", "none_now"}, 0,
		},
		"small ones behind a large one": {
			[]int64{2, 2}, [][3]int{{0, 0, 4}, {0, 1, 1}, {0, 2, 1}}, []string{"none_now", "sold", "sold"}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 100, c.shares...)
			h := w.serving("first")
			var all []*asked
			for _, a := range c.asks {
				all = append(all, h.ask(w.buyer(a[0], a[1]), "key", int64(a[2])))
			}
			if name == "more than there is" {
				w.mail = func(m Message) int { t.Errorf("for a claim that all shards cannot meet: %+v", m); return 1 }
			}
			// No time passes: nobody waits for a message to be repeated.
			w.settle()
			again := 0
			for i, x := range all {
				if x.answer.Outcome == api.NoneNow && c.want[i] != "none_now" {
					again++
					all[i] = h.ask(x.User, "again", x.Quantity)
					w.settle()
				}
				all[i].want(t, c.want[i])
			}
			if again > c.later {
				t.Errorf("%d had to ask again", again)
			}
		})
	}
}

// TestUnequalShares sells every unit, wherever it lies and whoever wants it.
func TestUnequalShares(t *testing.T) {
	for name, shares := range map[string][]int64{
		"all on the first":        {100, 0, 0, 0, 0},
		"all on the last":         {0, 0, 0, 0, 100},
		"short everywhere":        {20, 20, 20, 20, 20},
		"one on each of many":     {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
		"all on the last of many": {0, 0, 0, 0, 0, 0, 0, 0, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			stock := 0
			for _, n := range shares {
				stock += int(n)
			}
			w := newWorld(t, 1, shares...)
			h := w.serving("first")
			all := h.askAll(3 * stock)
			w.settle()
			for _, x := range all {
				// Units may have been between two shards at that moment.
				if x.answer.Outcome == api.NoneNow && !h.totals.soldOut.Load() {
					h.ask(x.User, "again", 1)
					w.settle()
				}
			}
			if n := count(w.asked, api.Sold); n != stock {
				t.Errorf("%d sold of %d", n, stock)
			}
			late := h.ask("late", "1", 1)
			w.settle()
			late.want(t, "sold_out")
		})
	}
}

// TestShortGivesDownOnly has a shard that is itself short give to none with a
// higher number.
func TestShortGivesDownOnly(t *testing.T) {
	for name, c := range map[string]struct {
		giver, taker int
		kind         MessageKind
	}{
		"to a higher number": {0, 1, none},
		"to a lower number":  {1, 0, Sent},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9, 4, 4)
			h := w.serving("first")
			var said []Message
			w.mail = func(m Message) int { said = append(said, m); return 0 }
			h.ask(w.buyer(c.giver, 0), "1", 6)
			w.settle()
			giver := h.actors[c.giver]
			said = nil
			giver.step(func(q *sequencer) { q.transfers.handle(Message{Kind: Want, From: c.taker, To: c.giver}) })
			w.settle()
			if len(said) != 1 || said[0].Kind != c.kind || said[0].To != c.taker {
				t.Errorf("it said %+v", said)
			}
			w.mail = nil
		})
	}
}

func TestClosedGivesNothing(t *testing.T) {
	w := newWorld(t, 9, 0, 9)
	h := w.serving("first")
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	saletest.Take(t, w.logs, w.sale, 1) // shard 0 does not know yet
	h.actors[1].step(func(q *sequencer) { q.transfers.handle(Message{Kind: Want, From: 0, To: 1}) })
	x := h.ask(w.buyer(0, 0), "1", 1)
	w.settle()
	// Shard 1 finds out with its first append, and gives nothing from then on.
	y := h.ask(w.buyer(0, 1), "1", 1)
	w.pass(5 * time.Second)
	x.want(t, "none_now")
	y.want(t, "none_now")
	if s := saletest.LoadShard(t, w.logs, 1, 2); s.InFlight != 0 || s.Available != 9 {
		t.Errorf("the closed shard is at %+v", s.Totals)
	}
}

// TestMessages loses, doubles and reorders what shards tell each other.
func TestMessages(t *testing.T) {
	begin := func(t *testing.T) (*world, *host, *asked) {
		w := newWorld(t, 9, 0, 4, 3)
		return w, w.serving("first"), nil
	}
	finish := func(t *testing.T, w *world, h *host, within time.Duration) {
		t.Helper()
		x := h.ask(w.buyer(0, 0), "1", 7)
		for until := w.now.Mono + within; ; x = h.ask(x.User, "1", 7) {
			w.pass(100 * time.Millisecond)
			if x.answer.Accepted() {
				w.pass(2 * ReplyTimeout)
				h.wantRest()
				return
			}
			if w.now.Mono > until {
				t.Fatalf("after %v it is %+v", within, x.answer)
			}
			if !x.answered {
				w.pass(ReplyTimeout)
			}
		}
	}
	messages := 0
	t.Run("none lost", func(t *testing.T) {
		w, h, _ := begin(t)
		w.mail = func(Message) int { messages++; return 1 }
		finish(t, w, h, 0)
		if messages != 6 { // asked, sent and received by two shards each
			t.Errorf("%d messages", messages)
		}
	})
	for i := range messages {
		t.Run(fmt.Sprint("lost/", i), func(t *testing.T) {
			w, h, _ := begin(t)
			n := -1
			w.mail = func(Message) int {
				if n++; n == i {
					return 0
				}
				return 1
			}
			finish(t, w, h, 5*time.Second)
		})
	}
	t.Run("all doubled", func(t *testing.T) {
		w, h, _ := begin(t)
		w.mail = func(Message) int { return 2 }
		finish(t, w, h, 0)
	})
	t.Run("told again while it is being received", func(t *testing.T) {
		w, h, _ := begin(t)
		var units Message
		w.mail = func(m Message) int {
			if m.Kind == Sent && m.From == 1 {
				units = m
			}
			return 1
		}
		to := h.actors[0]
		x := h.ask(w.buyer(0, 0), "1", 4)
		for to.q.state.Received(1) == 0 {
			if len(to.inbox) == 0 && to.under != nil && to.under.Kind == ledger.AppendRequest && units.Transfer != 0 {
				to.step(func(q *sequencer) { q.transfers.handle(units) })
			}
			for _, a := range h.actors {
				a.turn()
			}
		}
		w.settle()
		x.want(t, "sold")
		h.wantRest()
	})
	t.Run("old ones again", func(t *testing.T) {
		w, h, _ := begin(t)
		var old []Message
		w.mail = func(m Message) int { old = append(old, m); return 1 }
		finish(t, w, h, 0)
		for i := len(old) - 1; i >= 0; i-- {
			h.actors[old[i].To].step(func(q *sequencer) { q.transfers.handle(old[i]) })
			w.settle()
		}
	})
}

// TestTrafficPutsNothingOff loses the question for units while buyers keep
// coming: the first of them must not wait until they stop.
func TestTrafficPutsNothingOff(t *testing.T) {
	w := newWorld(t, 1, 0, 5)
	h := w.serving("first")
	lost := false
	w.mail = func(m Message) int {
		if m.Kind == Want && !lost {
			lost = true
			return 0
		}
		return 1
	}
	first := h.ask(w.buyer(0, 0), "1", 1)
	for i := range 10 {
		w.pass(ReplyTimeout / 5)
		h.ask(w.buyer(0, 1+i), "1", 1)
	}
	if !first.answered {
		t.Errorf("no answer after %v", 10*ReplyTimeout/5)
	}
}

// crashes runs a transfer that needs all units of two shards, and has the process
// die at its n-th call of the store after it has begun to serve: with the call
// not made, or made and not heard of. It returns whether the transfer was
// complete by then.
func crashes(t *testing.T, n int, made bool) (complete bool) {
	w := newWorld(t, 9, 0, 4, 3)
	h := w.serving("first")
	x := h.ask(w.buyer(0, 0), "1", 7)
	calls := 0
	for progress := true; progress && !h.dead; {
		progress = false
		for _, a := range h.actors {
			if a.under != nil {
				if calls++; calls > n {
					if made {
						a.call() // whatever it says then, nobody hears it
						x.answered, x.answer = false, request.Answer{}
					}
					h.die()
					break
				}
			}
			progress = a.turn() || progress
		}
	}
	if !h.dead {
		x.want(t, "sold")
		return true
	}
	second := w.serving("second")
	w.pass(time.Second)
	again := second.ask(w.buyer(0, 0), "1", 7)
	w.settle()
	if !again.answer.Accepted() {
		t.Errorf("dying at call %d: asked again, the buyer is told %+v", n, again.answer)
	}
	late := second.ask(w.buyer(1, 0), "1", 1)
	w.settle()
	late.want(t, "sold_out")
	return false
}

// TestCrashInTransfer kills the owner at every point of some transfers. The next
// owner drives them to their end and sells the last unit.
func TestCrashInTransfer(t *testing.T) {
	for name, made := range map[string]bool{"before the call": false, "after the call": true} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for !crashes(t, n, made) {
				n++
			}
			if n < 4 {
				t.Errorf("only %d points to die at: nothing was transferred", n)
			}
		})
	}
}

// wantRest fails the test unless all transfers are over and nobody has anything more
// to do.
func (h *host) wantRest() {
	h.w.t.Helper()
	for i, a := range h.actors {
		s := saletest.LoadShard(h.w.t, h.w.logs, i, h.w.shards)
		if s.InFlight != 0 || len(s.Open()) != 0 {
			h.w.t.Errorf("shard %d has transfers on their way: %+v", i, s.Open())
		}
		if n := len(a.q.transfers.arrived) + len(a.q.transfers.acks) + len(a.q.transfers.wants) + len(a.q.transfers.drafted); n != 0 || a.wake != 0 {
			h.w.t.Errorf("shard %d keeps %d messages, and wants to be woken at %v", i, n, a.wake)
		}
		if h.totals.shards[i].short || h.totals.shards[i].requested != 0 {
			h.w.t.Errorf("by the board claims wait on shard %d: %v, and it owes others %d units", i, h.totals.shards[i].short, h.totals.shards[i].requested)
		}
	}
}

// say tells a shard what another says.
func (h *host) say(all ...Message) {
	for _, m := range all {
		h.actors[m.To].step(func(q *sequencer) { q.transfers.handle(m) })
	}
}

// says keeps all messages back from now on, and notes them.
func (w *world) says() *[]Message {
	said := new([]Message)
	w.mail = func(m Message) int { *said = append(*said, m); return 0 }
	return said
}

// wantSaid fails the test unless these messages were said, whatever units are in them.
func wantSaid(t *testing.T, said *[]Message, want ...Message) {
	t.Helper()
	if !slices.EqualFunc(*said, want, func(a, b Message) bool {
		return a.Kind == b.Kind && a.From == b.From && a.To == b.To && a.Lacks == b.Lacks && a.Transfer == b.Transfer
	}) {
		t.Errorf("said %+v, want %+v", *said, want)
	}
	*said = nil
}

// TestShare gives what is lacked, or half of what there is.
func TestShare(t *testing.T) {
	for _, c := range []struct{ spare, lacked, want int64 }{
		{10, 1, 5}, {9, 1, 5}, {1, 1, 1}, {10, 8, 8}, {10, 10, 10}, {10, 100, 10},
	} {
		if got := share(c.spare, c.lacked); got != c.want {
			t.Errorf("of %d, %d for who lacks %d, want %d", c.spare, got, c.lacked, c.want)
		}
	}
}

// TestGives holds what a shard gives that is asked for units, and when.
func TestGives(t *testing.T) {
	ask := func(from int, n int64) Message { return Message{Kind: Want, From: from, To: 0, Lacks: n} }
	t.Run("as many as were asked for last", func(t *testing.T) {
		w := newWorld(t, 9, 10, 0)
		h := w.serving("first")
		h.actors[0].step(func(q *sequencer) { q.transfers.handle(ask(1, 1)); q.transfers.handle(ask(1, 8)) })
		w.settle()
		if s := saletest.LoadShard(t, w.logs, 0, 2); s.Available != 2 {
			t.Errorf("%d are left of 10", s.Available)
		}
	})
	t.Run("to nobody of whom it has not heard that the last came", func(t *testing.T) {
		w := newWorld(t, 9, 10, 0, 0)
		h := w.serving("first")
		said := w.says()
		h.say(ask(1, 4))
		w.settle()
		first := (*said)[0]
		wantSaid(t, said, Message{Kind: Sent, To: 1, Transfer: 1})
		h.actors[0].step(func(q *sequencer) { q.transfers.handle(ask(1, 2)); q.transfers.handle(ask(2, 1)) })
		w.settle()
		wantSaid(t, said, Message{Kind: Sent, To: 2, Transfer: 1})
		h.say(Message{Kind: received, From: 1, To: 0, Transfer: 7}) // of another transfer
		w.settle()
		wantSaid(t, said)
		h.say(first)
		w.settle()
		wantSaid(t, said, Message{Kind: received, From: 1, To: 0, Transfer: 1})
		h.say(Message{Kind: received, From: 1, To: 0, Transfer: 1})
		w.settle()
		wantSaid(t, said, Message{Kind: Sent, To: 1, Transfer: 2})
		w.mail = nil
		w.pass(2 * ReplyTimeout)
		h.wantRest()
	})
	t.Run("none, and each hears it", func(t *testing.T) {
		w := newWorld(t, 9, 0, 2, 2)
		h := w.serving("first")
		said := w.says()
		slots := w.slots(0)
		h.actors[0].step(func(q *sequencer) { q.transfers.handle(ask(1, 1)); q.transfers.handle(ask(2, 1)) })
		w.settle()
		wantSaid(t, said, Message{Kind: none, To: 1}, Message{Kind: none, To: 2})
		if w.slots(0) != slots {
			t.Error("it appends something")
		}
	})
	t.Run("and tells of it again", func(t *testing.T) {
		w := newWorld(t, 9, 10, 0)
		h := w.serving("first")
		said := w.says()
		h.say(ask(1, 4))
		w.settle()
		first := Message{Kind: Sent, To: 1, Transfer: 1}
		wantSaid(t, said, first)
		for range 3 {
			w.move(ReplyTimeout - time.Millisecond)
			h.actors[0].step(func(q *sequencer) { q.tick(w.now) })
			wantSaid(t, said)
			w.pass(time.Millisecond)
			wantSaid(t, said, first)
		}
		h.halt(Halt{Why: errEnd, Refusal: api.Draining})
		w.serving("second") // tells of it at once
		wantSaid(t, said, first)
	})
}

// TestSeeks holds whom a shard asks that is short, and for how many.
func TestSeeks(t *testing.T) {
	asks := func(from, to int, n int64) Message { return Message{Kind: Want, From: from, To: to, Lacks: n} }
	t.Run("for what it lacks", func(t *testing.T) {
		w := newWorld(t, 9, 2, 9, 8)
		h := w.serving("first")
		said := w.says()
		h.ask(w.buyer(0, 0), "1", 5)
		w.settle()
		wantSaid(t, said, asks(0, 1, 3))
		h.ask(w.buyer(0, 1), "1", 3)
		w.settle()
		wantSaid(t, said, asks(0, 2, 3))
	})
	t.Run("somebody else, where one is silent", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9, 8)
		h := w.serving("first")
		said := w.says()
		x := h.ask(w.buyer(0, 0), "1", 5)
		w.settle()
		wantSaid(t, said, asks(0, 1, 5))
		w.pass(ReplyTimeout - time.Millisecond)
		wantSaid(t, said)
		h.actors[0].step(func(q *sequencer) { q.tick(w.now) })
		wantSaid(t, said)
		w.pass(time.Millisecond)
		wantSaid(t, said, asks(0, 2, 5))
		w.pass(ReplyTimeout)
		x.want(t, "none_now")
		h.wantRest()
	})
	t.Run("once more who was silent, for a claim that arrived later", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9)
		h := w.serving("first")
		said := w.says()
		x := h.ask(w.buyer(0, 0), "1", 5)
		w.settle()
		wantSaid(t, said, asks(0, 1, 5))
		w.pass(ReplyTimeout / 2)
		y := h.ask(w.buyer(0, 1), "1", 3)
		w.pass(ReplyTimeout / 2)
		x.want(t, "none_now")
		y.want(t, "")
		wantSaid(t, said, asks(0, 1, 3))
		w.pass(ReplyTimeout)
		y.want(t, "none_now")
		h.wantRest()
	})
	t.Run("who had none, when units have come", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9, 4)
		h := w.serving("first")
		said := w.says()
		h.ask(w.buyer(0, 0), "1", 9)
		w.settle()
		wantSaid(t, said, asks(0, 1, 9))
		h.say(Message{Kind: none, From: 1, To: 0})
		w.settle()
		wantSaid(t, said, asks(0, 2, 4))
		w.mail = func(m Message) int { *said = append(*said, m); return 1 }
		h.say(asks(0, 2, 4))
		w.settle()
		if !slices.ContainsFunc(*said, func(m Message) bool { return m.Kind == Want && m.To == 1 }) {
			t.Errorf("said %+v", *said)
		}
	})
	t.Run("nobody who is short and has a lower number", func(t *testing.T) {
		w := newWorld(t, 9, 3, 3)
		h := w.serving("first")
		said := w.says()
		x := h.ask(w.buyer(0, 0), "1", 5)
		w.settle()
		wantSaid(t, said, asks(0, 1, 2))
		y := h.ask(w.buyer(1, 0), "1", 5)
		w.settle()
		y.want(t, "none_now")
		wantSaid(t, said)
		w.pass(ReplyTimeout)
		x.want(t, "none_now")
		h.wantRest()
	})
	for name, hears := range map[string]func(w *world, h *host){
		"is denied":     func(w *world, h *host) { h.say(Message{Kind: none, From: 1, To: 0}) },
		"has no answer": func(w *world, h *host) { w.pass(ReplyTimeout) },
	} {
		t.Run("nobody for who cannot be served any more and "+name, func(t *testing.T) {
			w := newWorld(t, 9, 0, 4, 4, 1)
			h := w.serving("first")
			said := w.says()
			x := h.ask(w.buyer(0, 0), "1", 7)
			w.settle()
			wantSaid(t, said, asks(0, 1, 4), asks(0, 2, 3))
			h.ask(w.buyer(2, 0), "1", 4)
			w.settle()
			x.want(t, "")
			hears(w, h)
			w.settle()
			x.want(t, "none_now")
			wantSaid(t, said)
		})
	}
	t.Run("nobody for who has gone", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9, 9)
		h := w.serving("first")
		said := w.says()
		x := h.ask(w.buyer(0, 0), "1", 1)
		w.settle()
		wantSaid(t, said, asks(0, 1, 1))
		x.withdraw()
		w.pass(2 * ReplyTimeout)
		wantSaid(t, said)
		h.wantRest()
	})
}

// TestTransferThatDoesNotFit ends a sequencer that is sent units which it has.
func TestTransferThatDoesNotFit(t *testing.T) {
	w := newWorld(t, 9, 4, 0)
	h := w.serving("first")
	slots := w.slots(0)
	x := h.ask(w.buyer(0, 0), "1", 1)
	h.actors[0].step(nil)
	h.say(Message{Kind: Sent, From: 1, To: 0, Transfer: 1, Units: ledger.Units{{First: 4, Count: 1}}})
	w.settle()
	x.want(t, "sold")
	if q := h.actors[0].q; q.mode != stopped || q.why == nil || w.slots(0) != slots+1 {
		t.Errorf("mode %d, %v, %d slots more", q.mode, q.why, w.slots(0)-slots)
	}
}

// TestTransferEnds has a process let a shard go that has asked another one for units, and
// gets no answer any more: its other shards may ask for them.
func TestTransferEnds(t *testing.T) {
	b := NewSaleTotals(3)
	b.Set(0, 1, ledger.Totals{Limit: 5, Available: 5}, time.Time{}, false)
	x := newTransfers(1, b, nil, new(requests))
	x.requestUnits(clock.Now{Mono: time.Hour}, 5, nil)
	b.update(1, func(s *shardEntry) { s.short = true })
	other := func() int { return len(b.planRequests(2, 1, func(int) bool { return false })) }
	if len(x.unitRequests) != 1 || other() != 0 {
		t.Fatalf("it has asked %d shards, and the units are there for others", len(x.unitRequests))
	}
	x.stop()
	if other() != 1 || b.shards[1].short {
		t.Errorf("short: %v, and what nobody will hear of is not asked for again", b.shards[1].short)
	}
}

// TestTransfersStop has a shard stop while it asks another for units, as one does that goes to
// another process: what it asked for is not counted as gone when the shard is back.
func TestTransfersStop(t *testing.T) {
	b := NewSaleTotals(2)
	b.Set(1, 1, ledger.Totals{Available: 3}, time.Time{}, true)
	nobody := func(int) bool { return false }
	x := &transfers{totals: b, unitRequests: b.planRequests(0, 3, nobody)}
	if left := b.planRequests(0, 1, nobody); len(x.unitRequests) != 1 || len(left) != 0 {
		t.Fatalf("asked %+v, and %+v of what is gone", x.unitRequests, left)
	}
	x.stop()
	x.stop()
	if again := b.planRequests(0, 3, nobody); len(again) != 1 || again[0].units != 3 {
		t.Errorf("when the shard is back it asks %+v, want for all 3 units", again)
	}
}
