package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// newPartialWorld has a sale whose claims may get a part.
func newPartialWorld(t testing.TB, perUser int64, shares ...int64) *world {
	return newWorldAs(t, &pb.Settings{PerUserLimit: perUser, Phase: pb.Phase_OPEN, Partial: true}, shares...)
}

// given is what a request was given, such as "sold 2 of 3".
func (x *asked) given() string {
	n := len(x.answer.Claim.Units)
	switch {
	case n == 0:
		return string(x.answer.Outcome)
	case x.answer.Claim.Requested != 0:
		return fmt.Sprintf("%s %d of %d", x.answer.Outcome, n, x.answer.Claim.Requested)
	}
	return fmt.Sprintf("%s %d", x.answer.Outcome, n)
}

// A claim gets a part where neither its shard nor another has more, and no sooner.
func TestPartial(t *testing.T) {
	for name, c := range map[string]struct {
		perUser int64
		shares  []int64
		asks    [][3]int // shard, buyer, quantity; in this order, at once
		want    []string
	}{
		"all that is asked for":      {100, []int64{3}, [][3]int{{0, 0, 3}}, []string{"sold 3"}},
		"what there is":              {100, []int64{2}, [][3]int{{0, 0, 3}}, []string{"sold 2 of 3"}},
		"what the limit leaves":      {2, []int64{9}, [][3]int{{0, 0, 5}}, []string{"sold 2 of 5"}},
		"less than the limit leaves": {4, []int64{3}, [][3]int{{0, 0, 5}}, []string{"sold 3 of 5"}},
		"what is elsewhere":          {100, []int64{0, 3}, [][3]int{{0, 0, 3}}, []string{"sold 3"}},
		"what there is elsewhere":    {100, []int64{0, 2}, [][3]int{{0, 0, 3}}, []string{"sold 2 of 3"}},
		"all there is anywhere":      {100, []int64{1, 2, 3, 4}, [][3]int{{2, 0, 11}}, []string{"sold 10 of 11"}},
		"the limit of all there is":  {5, []int64{1, 2, 3, 4}, [][3]int{{2, 0, 11}}, []string{"sold 5 of 11"}},
		"the first of two":           {100, []int64{4}, [][3]int{{0, 0, 3}, {0, 1, 3}}, []string{"sold 3", "sold 1 of 3"}},
		"nothing is left":            {100, []int64{2}, [][3]int{{0, 0, 3}, {0, 1, 1}}, []string{"sold 2 of 3", "sold_out"}},
		"two short of each other":    {100, []int64{3, 3}, [][3]int{{0, 0, 7}, {1, 0, 7}}, []string{"sold 6 of 7", "none_now"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPartialWorld(t, c.perUser, c.shares...)
			h := w.serving("first")
			var all []*asked
			for _, a := range c.asks {
				all = append(all, h.ask(w.buyer(a[0], a[1]), "key", int64(a[2])))
			}
			w.settle() // no time passes
			for i, x := range all {
				if got := x.given(); got != c.want[i] {
					t.Errorf("request %d for %d: %s, want %s", i, x.Quantity, got, c.want[i])
				}
			}
		})
	}
}

// The same request gets the same part again, and its key is one for the quantity that it
// asked for.
func TestPartialAgain(t *testing.T) {
	w := newPartialWorld(t, 5, 2)
	h := w.serving("first")
	user := w.buyer(0, 0)
	first, twice := h.ask(user, "key", 3), h.ask(user, "key", 3)
	w.settle()
	again, other := h.ask(user, "key", 3), h.ask(user, "key", 2)
	w.settle()
	for i, x := range []*asked{first, twice, again} {
		if x.given() != "sold 2 of 3" || x.answer.Replayed != (i > 0) || x.answer.Claim.ID != first.answer.Claim.ID {
			t.Errorf("request %d: %s, replayed: %v, %+v", i, x.given(), x.answer.Replayed, x.answer.Claim)
		}
	}
	other.want(t, string(api.KeyReused))
}

// TestPartialSellsAll has crowds ask for more than there is, wherever units lie: no unit
// stays behind, and nobody is refused while there is one.
func TestPartialSellsAll(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		shares, stock := make([]int64, 1+r.IntN(4)), int64(0)
		for i := range shares {
			shares[i] = r.Int64N(8)
			stock += shares[i]
		}
		if stock < int64(len(shares)) {
			continue
		}
		w := newPartialWorld(t, 1+r.Int64N(5), shares...)
		h := w.serving("first")
		for i := range 2 * stock {
			h.ask(fmt.Sprint("buyer-", i), "key", 1+r.Int64N(6))
			if r.IntN(3) == 0 {
				w.settle()
			}
		}
		w.settle()
		for i := 0; !h.totals.soldOut.Load() && i < 20; i++ { // who was too early comes again
			h.ask(fmt.Sprint("late-", i), "key", 6)
			w.settle()
		}
		sold := int64(0)
		for _, x := range w.asked {
			sold += int64(len(x.answer.Claim.Units))
		}
		if sold != stock {
			t.Fatalf("seed %d: %d sold of %d", seed, sold, stock)
		}
		w.finish()
	}
}

// Who is left without a unit when others get their parts asks the other shards again, and
// has not heard before that there are none.
func TestPartialAsksAgain(t *testing.T) {
	w := newPartialWorld(t, 100, 2, 5)
	h := w.serving("first")
	lost := 0
	w.mail = func(m Message) int {
		if m.Kind == Want && lost == 0 {
			lost++
			return 0
		}
		return 1
	}
	first, second := h.ask(w.buyer(0, 0), "key", 3), h.ask(w.buyer(0, 1), "key", 3)
	w.settle()
	if first.answered || second.answered {
		t.Fatal("answered before the other shard has said anything")
	}
	w.pass(ReplyTimeout)
	w.settle()
	if first.given() != "sold 2 of 3" || second.given() != "sold 3" {
		t.Errorf("%s and %s", first.given(), second.given())
	}
}

// A claim that waits for the units of other shards is not overtaken: if there are none, it gets
// what is here.
func TestPartialInOrder(t *testing.T) {
	w := newPartialWorld(t, 100, 2, 5)
	h := w.serving("first")
	w.mail = func(m Message) int {
		if m.Kind == Want {
			return 0
		}
		return 1
	}
	first := h.ask(w.buyer(0, 0), "key", 3)
	w.settle()
	second := h.ask(w.buyer(0, 1), "key", 1)
	w.settle()
	if first.answered || second.answered {
		t.Fatalf("%s and %s before the other shard has said anything", first.given(), second.given())
	}
	w.mail = nil
	w.pass(ReplyTimeout)
	w.settle()
	if first.given() != "sold 2 of 3" || second.given() != "sold 1" {
		t.Errorf("%s and %s, want sold 2 of 3 and sold 1", first.given(), second.given())
	}
}

// A claim that has asked for more than its user may have moves no units that it cannot get.
func TestPartialAsksForWhatItMayHave(t *testing.T) {
	w := newPartialWorld(t, 2, 0, 100)
	h := w.serving("first")
	w.mail = func(m Message) int {
		if m.Kind == Want && m.Lacks != 2 {
			t.Errorf("asks for %d units", m.Lacks)
		}
		return 1
	}
	x := h.ask(w.buyer(0, 0), "key", 80)
	w.settle()
	if x.given() != "sold 2 of 80" {
		t.Error(x.given())
	}
}

// Units are elsewhere if another shard has some, or they are on their way.
func TestElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		shards [2]ledger.Totals
		want   bool
	}{
		"none":                 {[2]ledger.Totals{}, false},
		"here alone":           {[2]ledger.Totals{{Available: 3}}, false},
		"on the other":         {[2]ledger.Totals{{}, {Available: 1}}, true},
		"on the way here":      {[2]ledger.Totals{{Available: 1}, {InFlight: 1}}, true},
		"on the way elsewhere": {[2]ledger.Totals{{InFlight: 1}}, true},
	} {
		b := NewSaleTotals(2)
		for i, totals := range c.shards {
			b.Set(i, 1, totals, time.Time{}, true)
		}
		if got := b.forSale(0) > 0; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
