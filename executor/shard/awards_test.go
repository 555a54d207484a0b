package shard

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/executor/request"
	"salectl/executor/saletest"
)

// drawWorld is a world whose sale is drawn ten seconds after it begins.
func drawWorld(t testing.TB, payment *pb.Payment, shares ...int64) *world {
	t.Helper()
	return newWorldAs(t, &pb.Settings{
		PerUserLimit: 1, Phase: pb.Phase_OPEN, Draw: true, Payment: payment, ClosesAtUs: time.Unix(1_800_000_010, 0).UnixMicro(),
	}, shares...)
}

// enter lets new users enter on a shard.
func (h *host) enter(shard, n int) (all []*asked) {
	for i := range n {
		all = append(all, h.ask(h.w.buyer(shard, i), "key", 1))
	}
	return all
}

// rank tells the process the ranks that the sale's log has.
func (h *host) rank(sale *ledger.Sale) {
	all := make([]Ranked, h.w.shards)
	for i, at := range sale.Ranks() {
		all[at.Shard] = append(all[at.Shard], Award{Rank: int64(i) + 1, Slot: at.Slot, Index: at.Index})
	}
	for i, a := range h.actors {
		a.step(func(q *sequencer) { all[i].happen(h.w.now, q) })
	}
}

// wantAwarded fails the test unless those ranks are awarded that may be, and no others. It
// returns how many are, and how many awards have lapsed.
func (w *world) wantAwarded(sale *ledger.Sale) (awarded, lapsed int64) {
	w.t.Helper()
	var totals []ledger.Totals
	var shards []*ledger.State
	for i := range w.shards {
		s := saletest.LoadShard(w.t, w.logs, i, w.shards)
		shards, totals = append(shards, s), append(totals, s.Totals)
		lapsed += s.Lapsed()
	}
	last := ledger.MayBeAwarded(totals, sale.DrawnSince())
	for i, at := range sale.Ranks() {
		c, _ := shards[at.Shard].ClaimAt(at.Slot, at.Index)
		if is := c.State != ledger.StateEntered; is != (int64(i) < last) {
			w.t.Fatalf("rank %d is %v, and %d may be awarded", i+1, c.State, last)
		} else if is {
			awarded++
		}
	}
	return awarded, lapsed
}

// The owner closes the entries when the sale has closed, without anybody asking, and answers
// who comes later.
func TestEntriesAreClosed(t *testing.T) {
	w := drawWorld(t, nil, 1, 1)
	h := w.serving("one")
	early := h.enter(0, 2)
	w.settle()
	for _, x := range early {
		x.want(t, "entered")
	}
	if again := h.ask(early[0].User, "key", 1); again != nil {
		w.settle()
		again.want(t, "entered again")
	}
	other := h.ask(early[0].User, "another", 1)
	w.settle()
	other.want(t, "limit_reached")
	w.pass(11 * time.Second)
	for i := range w.shards {
		if tree, closed := saletest.LoadShard(t, w.logs, i, w.shards).Entries(); !closed || tree.Entries != int64(2-2*i) {
			t.Errorf("shard %d: %+v, %v", i, tree, closed)
		}
	}
	late := h.ask(w.buyer(0, 7), "key", 1)
	w.settle()
	late.want(t, "closed")
}

// Whatever is where, whoever dies meanwhile and whatever lapses: the ranks are awarded that
// may be, in the end, and no others.
func TestAwards(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			var payment *pb.Payment
			if seed%2 == 0 {
				payment = &pb.Payment{HoldForUs: 2_000_000, Late: pb.Payment_REFUSE}
			}
			shares := []int64{int64(rnd.IntN(4)), int64(rnd.IntN(3)), 0}
			shares[2] = max(1, 3-shares[0]-shares[1]) + int64(rnd.IntN(2))
			stock := shares[0] + shares[1] + shares[2]
			w := drawWorld(t, payment, shares...)
			h := w.serving("one")
			entries := int64(0)
			for i := range shares {
				n := rnd.IntN(6)
				h.enter(i, n)
				entries += int64(n)
			}
			w.pass(11 * time.Second)
			sale := reveal(t, w.logs, w.sale, 2*stock)
			h.rank(sale)
			if rnd.IntN(2) == 0 { // another takes over in the midst of it
				for range rnd.IntN(12) {
					actors := w.alive()
					actors[rnd.IntN(len(actors))].turn()
				}
				h.die()
				h = w.host("two", nil)
				w.settle()
				h.rank(sale)
			}
			w.pass(40 * time.Second)
			ranks := min(entries, 2*stock)
			awarded, lapsed := w.wantAwarded(sale)
			want := min(entries, stock)
			if payment != nil { // nobody pays
				want = ranks
			}
			if awarded != want || payment != nil && lapsed != want || payment == nil && lapsed != 0 {
				t.Errorf("of %d entries for %d units %d were awarded, and %d lapsed", entries, stock, awarded, lapsed)
			}
		})
	}
}

// A sale that is closed for good awards nothing any more.
func TestNoAwardsOfAClosedSale(t *testing.T) {
	w := drawWorld(t, nil, 2)
	h := w.serving("one")
	h.enter(0, 3)
	w.pass(11 * time.Second)
	sale := reveal(t, w.logs, w.sale, 3)
	closed := saletest.LoadSale(t, w.logs, w.sale).Newest()
	settings := &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_CLOSED, Draw: true, ClosesAtUs: closed.GetSettings().GetClosesAtUs()}
	saletest.Plan(t, w.logs, w.sale, &pb.Planned{
		Generation: 2, Run: 1, Uid: saletest.UID, Spec: closed.GetSpec(), Shards: []*pb.ShardChange{{}}, Settings: settings, NextUnit: closed.GetNextUnit(),
	})
	h.plans()
	w.settle()
	h.rank(sale)
	w.pass(5 * time.Second)
	if s := saletest.LoadShard(t, w.logs, 0, 1); s.Sold != 0 || s.Generation != 2 {
		t.Errorf("of a closed sale %d units were awarded, at generation %d", s.Sold, s.Generation)
	}
}

// What is asked of a claim that is an entry changes nothing.
func TestSettlementOfAnEntry(t *testing.T) {
	w := drawWorld(t, nil, 1)
	h := w.serving("one")
	x := h.enter(0, 1)[0]
	w.settle()
	for _, how := range []api.How{api.Confirm, api.Extend, api.Cancel, api.Refund} {
		settles := h.settles(request.Settlement{Claim: x.answer.Claim.ID, How: how})
		w.settle()
		settles.want(t, "not_drawn")
	}
}

// What a board has of a shard that has lost units since is no reason to award a rank.
func TestAwardsBelieveNoOldStock(t *testing.T) {
	b := NewSaleTotals(2)
	b.Generation(2)
	b.Set(0, 4, ledger.Totals{Generation: 2, Limit: 5}, time.Time{}, true)
	b.Set(1, 4, ledger.Totals{Generation: 1, Limit: 6}, time.Time{}, false)
	b.SetDrawn(2)
	if last := b.mayBeAwarded(); last != 5 {
		t.Errorf("by an old report the ranks up to %d may be awarded", last)
	}
	b.Set(1, 5, ledger.Totals{Generation: 3, Limit: 7}, time.Time{}, false)
	if last := b.mayBeAwarded(); last != 12 {
		t.Errorf("by a new report the ranks up to %d may be awarded", last)
	}
}

// reveal appends the ops of a reveal to the log of a sale, and returns the fold of the log. Each
// shard's log must have the root of its entries.
func reveal(t testing.TB, logs ledger.Logs, name string, ranks int64) *ledger.Sale {
	t.Helper()
	sale := saletest.LoadSale(t, logs, name)
	trees := make([]draw.Tree, sale.Shards())
	var entries []draw.Entry
	for i := range trees {
		s := saletest.LoadShard(t, logs, i, len(trees))
		tree, closed := s.Entries()
		if !closed {
			t.Fatalf("shard %d does not say which entries it has", i)
		}
		trees[i] = tree
		entries = append(entries, s.DrawEntries(i)...)
	}
	ranked := draw.NewOrder(saletest.UID, draw.RootOf(trees), saletest.DrawLink, nil).Lowest(entries, ranks)
	saletest.AppendSale(t, logs, name, &pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: ledger.NewEntriesClosed(trees)}})
	saletest.AppendSale(t, logs, name, &pb.Op{Op: &pb.Op_Drawn{Drawn: &pb.Drawn{Link: saletest.DrawLink[:], Ranks: int64(len(ranked))}}})
	if len(ranked) > 0 {
		saletest.AppendSale(t, logs, name, &pb.Op{Op: &pb.Op_Ranked{Ranked: ledger.NewRanked(1, ranked)}})
	}
	return saletest.LoadSale(t, logs, name)
}
