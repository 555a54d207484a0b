package executor

import (
	"fmt"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
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
func count(all []*asked, o Outcome) (n int) {
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
			// No time passes: nobody waits for a message to be repeated.
			w.settle()
			again := 0
			for i, x := range all {
				if x.answer.Outcome == NoneNow && c.want[i] != "none_now" {
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
				if x.answer.Outcome == NoneNow && !h.board.soldOut.Load() {
					h.ask(x.User, "again", 1)
					w.settle()
				}
			}
			if n := count(w.asked, Sold); n != stock {
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
		kind         messageKind
	}{
		"to a higher number": {0, 1, none},
		"to a lower number":  {1, 0, sent},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 9, 4, 4)
			h := w.serving("first")
			var said []message
			w.mail = func(m message) int { said = append(said, m); return 0 }
			h.ask(w.buyer(c.giver, 0), "1", 6)
			w.settle()
			giver := h.actors[c.giver]
			said = nil
			giver.step(func(q *sequencer) { q.hear(message{kind: want, from: c.taker, to: c.giver}) })
			w.settle()
			if len(said) != 1 || said[0].kind != c.kind || said[0].to != c.taker {
				t.Errorf("it said %+v", said)
			}
			w.mail = nil
		})
	}
}

func TestClosedGivesNothing(t *testing.T) {
	w := newWorld(t, 9, 0, 9)
	h := w.serving("first")
	replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	take(t, w.logs, w.sale, 1) // shard 0 does not know yet
	h.actors[1].step(func(q *sequencer) { q.hear(message{kind: want, from: 0, to: 1}) })
	x := h.ask(w.buyer(0, 0), "1", 1)
	w.settle()
	// Shard 1 finds out with its first append, and gives nothing from then on.
	y := h.ask(w.buyer(0, 1), "1", 1)
	w.pass(5 * time.Second)
	x.want(t, "none_now")
	y.want(t, "none_now")
	if s := loadShard(t, w.logs, 1, 2); s.InFlight != 0 || s.Available != 9 {
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
				return
			}
			if w.now.Mono > until {
				t.Fatalf("after %v it is %+v", within, x.answer)
			}
			if !x.answered {
				w.pass(repeatAfter)
			}
		}
	}
	messages := 0
	t.Run("none lost", func(t *testing.T) {
		w, h, _ := begin(t)
		w.mail = func(message) int { messages++; return 1 }
		finish(t, w, h, 0)
	})
	for i := range messages {
		t.Run(fmt.Sprint("lost/", i), func(t *testing.T) {
			w, h, _ := begin(t)
			n := -1
			w.mail = func(message) int {
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
		w.mail = func(message) int { return 2 }
		finish(t, w, h, 0)
	})
	t.Run("old ones again", func(t *testing.T) {
		w, h, _ := begin(t)
		var old []message
		w.mail = func(m message) int { old = append(old, m); return 1 }
		finish(t, w, h, 0)
		for i := len(old) - 1; i >= 0; i-- {
			h.actors[old[i].to].step(func(q *sequencer) { q.hear(old[i]) })
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
	w.mail = func(m message) int {
		if m.kind == want && !lost {
			lost = true
			return 0
		}
		return 1
	}
	first := h.ask(w.buyer(0, 0), "1", 1)
	for i := range 10 {
		w.pass(repeatAfter / 5)
		h.ask(w.buyer(0, 1+i), "1", 1)
	}
	if !first.answered {
		t.Errorf("no answer after %v", 10*repeatAfter/5)
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
						x.answered, x.answer = false, Answer{}
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
