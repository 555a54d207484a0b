package ledger_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	_ "salectl/internal/rapidseed"
	"salectl/spec"
)

// verify holds audit and export against the world.
func verifyDraw(w *ledger.DrawWorld) *draw.Report {
	w.T.Helper()
	ctx := w.T.Context()
	a, err := audit.Run(ctx, w.Logs, "test", ledger.NewState, nil)
	if err != nil || !a.OK || a.Draw == nil || !a.Draw.OK {
		w.T.Fatalf("audit: %v, %+v", err, a)
	}
	var to bytes.Buffer
	if err := exportOf(w.World).Write(ctx, &to); err != nil {
		w.T.Fatal(err)
	}
	if a := mustAuditExport(w.T, to.Bytes()); !a.OK || a.Draw == nil {
		w.T.Errorf("an audit of the export: %q", a.Problems)
	}
	if err := exportOf(w.World).Check(ctx, bytes.NewReader(to.Bytes())); err != nil {
		w.T.Fatal(err)
	}
	r, err := draw.Verify(&to, draw.Options{})
	if err != nil || !r.OK {
		w.T.Fatalf("verify: %v, %+v", err, r)
	}
	return r
}

// drawnExport exports a draw of which some entries were awarded, and that is sealed.
func drawnExport(t testing.TB) []byte {
	t.Helper()
	w := ledger.NewDrawWorld(t, 3, nil, &spec.Beacon{Name: "drand quicknet", Round: "12345", Fallback: spec.FallbackNone})
	for i := range w.Shards {
		w.Enter(i, 2)
	}
	w.Close()
	w.Reveal([]byte{1, 2, 3}, 6, 4)
	for rank := range int64(3) {
		w.Award(rank + 1)
	}
	closed := ledger.DrawSettings(nil)
	closed.Phase = pb.Phase_CLOSED
	w.Plan(0, 0, closed)
	for i := range w.Shards {
		d := w.Draft(i)
		d.Seal()
		w.Commit(i, d)
	}
	return mustExport(t, w.World)
}

// A draw of any size comes to what commitment and entries imply, whatever lapses.
func TestAnyDraw(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stock := rapid.Int64Range(ledger.WorldShards, 6).Draw(rt, "stock")
		var payment *pb.Payment
		if rapid.Bool().Draw(rt, "payment") {
			payment = ledger.DrawPayment
		}
		w := ledger.NewDrawWorld(t, stock, payment, nil)
		for i := range w.Shards {
			w.Enter(i, rapid.IntRange(0, 5).Draw(rt, "entries"))
		}
		verifyDraw(w)
		w.Close()
		verifyDraw(w)
		w.Reveal(nil, 2*stock, rapid.IntRange(1, 4).Draw(rt, "part"))
		verifyDraw(w)
		lapsed, next := int64(0), int64(1)
		for next <= min(int64(len(w.Ranked)), stock+lapsed) {
			if last := ledger.MayBeAwarded(w.Totals(), w.Sale.DrawnSince()); last != stock+lapsed {
				rt.Fatalf("%d ranks may be awarded, and %d units lapsed of %d", last, lapsed, stock)
			}
			w.Award(next)
			shard, c := w.Claim(next)
			next++
			if want := map[bool]ledger.ClaimState{true: ledger.StateHeld, false: ledger.StateSold}[payment != nil]; c.State != want || len(c.Units) != 1 || c.SettledUs == 0 || w.Shards[shard].UserUnits(c.User) != 1 {
				rt.Fatalf("what was awarded is %+v", c)
			}
			d := w.Draft(shard)
			kind := ledger.SettleDone
			switch lapses := rapid.IntRange(0, 3).Draw(rt, "then"); {
			case lapses == 0 && payment != nil:
				kind = d.Cancel(c, "ada", "").Kind
				lapsed++
			case payment != nil:
				kind = d.Confirm(c, "pays "+c.User).Kind
			case lapses <= 1:
				kind = d.Refund(c, "ada", "", lapses == 1).Kind
				if lapsed++; lapses == 1 {
					stock--
				}
			}
			if kind != ledger.SettleDone {
				rt.Fatalf("settlement %d", kind)
			}
			if d.Ops() > 0 {
				w.Commit(shard, d)
			}
		}
		r := verifyDraw(w)
		if r.Waiting != 0 || r.Awarded != next-1 || !r.Revealed || r.Winners != stock || r.Lapsed != lapsed {
			rt.Fatalf("%d were awarded, %d lapsed: %+v", next-1, lapsed, r)
		}
		for i, s := range w.Shards {
			twin := ledger.NewState(s.Log())
			for _, entry := range w.Logs.Logs[s.Log()].Entries {
				if err := twin.Fold(entry); err != nil {
					rt.Fatal(err)
				}
			}
			if twin.Head() != s.Head() || twin.ClaimsWithUnits() != s.ClaimsWithUnits() {
				rt.Fatalf("shard %d folds to %+v from its bytes, not %+v", i, twin.Head(), s.Head())
			}
		}
	})
}

// An export whose shards were read before the close, and the sale's log after it, has
// nothing of the close.
func TestExportAcrossTheClose(t *testing.T) {
	w := ledger.NewDrawWorld(t, 3, nil, nil)
	for i := range w.Shards {
		w.Enter(i, 2)
	}
	before := make([]*ledger.State, len(w.Shards))
	for i, s := range w.Shards {
		before[i] = ledger.NewState(s.Log())
		for _, entry := range w.Logs.Logs[s.Log()].Entries {
			if err := before[i].Fold(entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Enter(1, 1)
	w.Close()
	w.Reveal(nil, 6, 6)
	w.Award(1)
	var to bytes.Buffer
	if err := (export.Sale{Name: "test", Log: w.Sale, Shards: before, Logs: w.Logs}).Write(t.Context(), &to); err != nil {
		t.Fatal(err)
	}
	if r, err := draw.Verify(&to, draw.Options{}); err != nil || !r.OK || r.Revealed || r.Entries != 6 {
		t.Errorf("%v, %+v", err, r)
	}
}

// Who cheats past all drafts is found by the audit, with the place.
func TestAuditOfADraw(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*ledger.DrawWorld)
		want string
	}{
		"out of turn": {func(w *ledger.DrawWorld) { w.Award(4); w.Award(5) }, "it was awarded a unit at rank 4, and there were 3 units and 0 awards that lapsed"},
		"nothing":     {func(w *ledger.DrawWorld) { w.Award(2); w.Award(1) }, ""},
		"an entry that the sale's log lacks": {func(w *ledger.DrawWorld) {
			w.Plant(0, &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: "eve", Key: []byte("k"), Entry: true}}})
		}, "an entry behind the last"},
	} {
		t.Run(name, func(t *testing.T) {
			w := ledger.NewDrawWorld(t, 3, nil, nil)
			for i := range w.Shards {
				w.Enter(i, 3)
			}
			w.Close()
			w.Reveal(nil, 6, 6)
			test.do(w)
			a, err := audit.Run(t.Context(), w.Logs, "test", ledger.NewState, nil)
			if err != nil || a.OK != (test.want == "") || !strings.Contains(fmt.Sprint(a.Problems), test.want) {
				t.Errorf("%v: %+v, want %q", err, a, test.want)
			}
		})
	}
}
