package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// shard is a shard that is sold by hand.
type shard struct {
	*ledger.State
	t *testing.T
}

// do does something to the shard at so many seconds.
func (s shard) do(seconds int64, what func(*ledger.Draft)) {
	s.t.Helper()
	d := s.Draft([]byte("owner-01"), seconds*1e6)
	what(d)
	e, err := d.Encode()
	if err == nil {
		err = s.Apply(e.Commit, e.Hash, len(e.Bytes))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// claim has a user claim so many units at a time.
func (s shard) claim(seconds int64, user string, units int64) {
	s.t.Helper()
	s.do(seconds, func(d *ledger.Draft) {
		if v := d.Claim(user, "k", units); v.Kind != ledger.Granted {
			s.t.Fatalf("%s: decision %d", user, v.Kind)
		}
	})
}

// of returns a user's claim.
func (s shard) of(user string) ledger.Claim {
	c, ok := s.Find(user, "k")
	if !ok {
		s.t.Fatalf("%s has no claim", user)
	}
	return c
}

// opened returns a sale of ten units on one shard, of which a user may have four.
func opened(t *testing.T, payment *pb.Payment) (*ledger.Sale, shard) {
	t.Helper()
	g := &pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: 10}}, Settings: &pb.Settings{PerUserLimit: 4, Phase: pb.Phase_OPEN, Payment: payment}}
	sale := ledger.NewSale(spec.SaleLog("x"))
	planned := &pb.Planned{Generation: 1, Run: 1, Uid: "u", Shards: []*pb.ShardChange{{}}}
	if err := sale.Apply(&pb.Commit{Ops: []*pb.Op{{Op: &pb.Op_Planned{Planned: planned}}}}, ledger.Hash{}); err != nil {
		t.Fatal(err)
	}
	s := shard{ledger.NewState(spec.ShardLog("u", 0, 1)), t}
	s.do(1, func(d *ledger.Draft) {
		if err := d.Generation(g); err != nil {
			t.Fatal(err)
		}
	})
	s.do(1, func(d *ledger.Draft) { d.Own("here") })
	return sale, s
}

// What is sold and held at each time is as the ledger has it, whatever became of a claim.
func TestUnitsOverTime(t *testing.T) {
	sale, s := opened(t, &pb.Payment{HoldForUs: 10e6, Late: pb.Payment_RESELL})
	s.claim(100, "paid", 4)
	s.claim(101, "given-up", 1)
	s.claim(102, "late", 2)
	s.claim(103, "returned", 1)
	s.claim(103, "open", 1)
	s.do(104, func(d *ledger.Draft) { d.Confirm(s.of("paid"), "p1") })
	s.do(105, func(d *ledger.Draft) { d.Cancel(s.of("given-up"), "me", "no") })
	s.do(106, func(d *ledger.Draft) { d.Confirm(s.of("returned"), "p2") })
	s.do(108, func(d *ledger.Draft) { d.Refund(s.of("returned"), "me", "no", false) })
	s.do(112, func(d *ledger.Draft) { d.Expire(s.of("late")) })
	s.do(114, func(d *ledger.Draft) { d.Late(s.of("late"), "p3") })

	l := NewLedger(sale, []*ledger.State{s.State})
	w := window{bins{time.Second, 15}, ""}
	f := l.unitsFigure(w, 10)
	var got []string
	for _, row := range f.Table.Rows {
		got = append(got, row[0].Text+" "+row[1].Text+"+"+row[2].Text)
	}
	want := []string{
		"by 1s 0+4", "by 2s 0+5", "by 3s 0+7", "by 4s 0+9", "by 5s 4+5", "by 6s 4+4", "by 7s 5+3", "by 8s 5+3", "by 9s 4+3",
		"by 10s 4+3", "by 11s 4+3", "by 12s 4+3", "by 13s 4+1", "by 14s 4+1", "by 15s 6+1",
	}
	if !slices.Equal(got, want) || !strings.Contains(string(f.SVG), "<title>by 5s: 4 sold, 5 held</title>") {
		t.Errorf("sold and held\n%q, want\n%q", got, want)
	}
	if l.resold != 1 || l.Claims != 5 {
		t.Errorf("%d resold of %d", l.resold, l.Claims)
	}
	if want := "6 of 10 units were sold, half of these within 4s and the last after 14s."; f.Caption != want {
		t.Errorf("it says %s", f.Caption)
	}
	if l.users != 5 || l.spread[0] != 2 || l.spread[4] != 1 || l.buyers[0] != (buyer{"paid", 4}) || len(l.buyers) != 3 {
		t.Errorf("users %d, %v, the most have %v", l.users, l.spread, l.buyers)
	}
	if sums := l.shards[0]; sums.sold != 6 || sums.held != 1 || sums.available != 3 || l.since(sums.lastUs) != 3*time.Second {
		t.Errorf("the shard has %+v", sums)
	}
}

func TestSoldAtOnce(t *testing.T) {
	sale, s := opened(t, nil)
	s.claim(100, "a", 3)
	s.claim(102, "b", 1)
	s.do(103, func(d *ledger.Draft) { d.Refund(s.of("a"), "me", "no", false) })
	l := NewLedger(sale, []*ledger.State{s.State})
	f := l.unitsFigure(window{bins{time.Second, 4}, ""}, 10)
	if len(f.Table.Head) != 2 || l.isHeld() {
		t.Errorf("a sale without holds shows %v", f.Table.Head)
	}
	if got := f.Table.Rows[2][1].Text + f.Table.Rows[3][1].Text; got != "41" {
		t.Errorf("4 units are sold, and 1 after the refund: %s", got)
	}
	if !strings.Contains(f.Caption, "1 of 10 units were sold") || !strings.Contains(f.Caption, "at most 4 at a time") {
		t.Errorf("it says %s", f.Caption)
	}
}

// Of very many users those with the most units are named, and no more of them.
func TestTopBuyers(t *testing.T) {
	l := &Ledger{spread: map[int64]int64{}}
	sale, s := opened(t, nil)
	_ = sale
	for i, user := range []string{"e", "d", "c", "b", "a"} {
		s.claim(100, user, min(int64(i)+1, 2))
	}
	for range 4 {
		l.usersOf(s.State)
	}
	if len(l.buyers) != topBuyers || l.buyers[0].user != "a" || l.buyers[9].user != "c" || l.buyers[9].units != 2 {
		t.Errorf("%v", l.buyers)
	}
}
