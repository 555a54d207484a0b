package ledger

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

const drawCloses = 1_000_000_000 // microseconds since 1970

func drawSettings(payment *pb.Payment) *pb.Settings {
	return &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, Draw: true, ClosesAtUs: drawCloses, Payment: payment}
}

// drawWorld is a sale that is a draw: worlds write by its rules unless a test breaks them.
type drawWorld struct {
	*world
	link   draw.Digest
	ranked []draw.Entry
}

func newDrawWorld(t testing.TB, stock int64, payment *pb.Payment, beacon *spec.Beacon) *drawWorld {
	w := &drawWorld{world: &world{t: t, logs: &memory{logs: make(map[string]*stored)}, sale: NewSale(spec.SaleLog("test")), timeUs: 1_000_000, next: 1}}
	w.link = draw.Link([]byte("a secret"))
	end := draw.Commitment(w.link)
	declared := spec.Sale{
		Name: "test", Run: 1, Stock: stock, LockCount: worldShards, PerUserLimit: 1, LockTTL: 3 * time.Second, ClosesAt: time.UnixMicro(drawCloses).UTC(),
		Embedded: &spec.Embedded{}, Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 1}, Draw: &spec.Draw{KeyEnv: "KEY", Substitutes: stock, Beacon: beacon},
	}
	text, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	p := &pb.Planned{Generation: 1, Uid: testUID, Run: 1, Spec: text, Settings: drawSettings(payment), Draw: &pb.Draw{Commitment: end[:]}}
	for i, n := range spec.Shares(stock, worldShards) {
		w.shards = append(w.shards, NewState(spec.ShardLog(testUID, i, worldShards)))
		p.Shards = append(p.Shards, &pb.ShardChange{Add: []*pb.Range{{First: w.next, Count: n}}})
		w.next += n
	}
	w.say(planOp(p))
	for i := range w.shards {
		d := w.draft(i)
		if err := d.Generation(w.sale.ShardGeneration(1, i)); err != nil {
			t.Fatal(err)
		}
		w.commit(i, d)
		d = w.draft(i)
		d.Own("here:1")
		w.commit(i, d)
	}
	w.say(applied(1))
	return w
}

// enter lets new users enter, and returns the last of them.
func (w *drawWorld) enter(shard, n int) (user string) {
	w.t.Helper()
	d := w.draft(shard)
	for range n {
		user = w.buyer(shard)
		if v := d.Claim(user, "key", 1); v.Kind != Granted {
			w.t.Fatalf("decision %d", v.Kind)
		}
	}
	w.commit(shard, d)
	return user
}

// close closes the entries of all shards, by the hours.
func (w *drawWorld) close() {
	w.t.Helper()
	w.timeUs = max(w.timeUs, drawCloses)
	trees := make([]draw.Tree, len(w.shards))
	for i, s := range w.shards {
		d := w.draft(i)
		d.Entries()
		w.commit(i, d)
		trees[i], _ = s.Entries()
	}
	w.say(&pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: NewEntriesClosed(trees)}})
}

// reveal reveals the secret and publishes the ranks, so many in a part.
func (w *drawWorld) reveal(beacon []byte, ranks int64, part int) {
	w.t.Helper()
	order, lowest := draw.NewOrder(testUID, draw.Digest(w.sale.EntriesClosed().GetRoot()), w.link, beacon), draw.NewLowest(ranks)
	for i, s := range w.shards {
		for _, e := range s.DrawEntries(i) {
			e.Value = order.Value(e.Label)
			lowest.Add(e)
		}
	}
	w.ranked = lowest.Ranked()
	w.say(&pb.Op{Op: &pb.Op_Drawn{Drawn: &pb.Drawn{Link: w.link[:], Beacon: beacon, Ranks: int64(len(w.ranked))}}})
	for first := 1; first <= len(w.ranked); first += part {
		op := NewRanked(int64(first), w.ranked[:min(len(w.ranked), first-1+part)])
		w.say(&pb.Op{Op: &pb.Op_Ranked{Ranked: op}})
	}
}

func (w *drawWorld) totals() (all []Totals) {
	for _, s := range w.shards {
		all = append(all, s.Totals)
	}
	return all
}

// claim returns the claim that has a rank, from 1.
func (w *drawWorld) claim(rank int64) (shard int, c Claim) {
	w.t.Helper()
	e := w.ranked[rank-1]
	c, ok := w.shards[e.Shard].ClaimAt(e.Slot, e.Index)
	if !ok {
		w.t.Fatalf("rank %d is of no claim", rank)
	}
	return e.Shard, c
}

// award awards a rank if it may be, fetching a unit where there is none.
func (w *drawWorld) award(rank int64) {
	w.t.Helper()
	shard, c := w.claim(rank)
	if w.shards[shard].Available == 0 {
		if v := w.draft(shard).Award(c); v.Kind != SettleShort {
			w.t.Fatalf("rank %d: settlement %d where no unit is", rank, v.Kind)
		}
		for from, s := range w.shards {
			if _, open := s.OpenTo(shard); s.Available > 0 && !open {
				w.move(from, shard, 1, 3)
				break
			}
		}
	}
	d := w.draft(shard)
	if v := d.Award(c); v.Kind != SettleDone {
		w.t.Fatalf("rank %d: settlement %d", rank, v.Kind)
	}
	w.commit(shard, d)
}

// verify holds audit and export against the world.
func (w *drawWorld) verify() *draw.Report {
	w.t.Helper()
	ctx := w.t.Context()
	a, err := RunAudit(ctx, w.logs, "test", NewState, nil)
	if err != nil || !a.OK || a.Draw == nil || !a.Draw.OK {
		w.t.Fatalf("audit: %v, %+v", err, a)
	}
	var to bytes.Buffer
	if err := Export(ctx, w.logs, "test", testUID, w.shards, nil, &to); err != nil {
		w.t.Fatal(err)
	}
	if a := mustAuditExport(w.t, to.Bytes()); !a.OK || a.Draw == nil {
		w.t.Errorf("an audit of the export: %q", a.Problems)
	}
	if err := CheckExport(ctx, w.logs, bytes.NewReader(to.Bytes()), "test", w.sale, w.shards, nil); err != nil {
		w.t.Fatal(err)
	}
	r, err := draw.Verify(&to, draw.Options{})
	if err != nil || !r.OK {
		w.t.Fatalf("verify: %v, %+v", err, r)
	}
	return r
}

// drawnExport exports a draw of which some entries were awarded, and that is sealed.
func drawnExport(t testing.TB) []byte {
	t.Helper()
	w := newDrawWorld(t, 3, nil, &spec.Beacon{Name: "drand quicknet", Round: "12345", Fallback: spec.FallbackNone})
	for i := range w.shards {
		w.enter(i, 2)
	}
	w.close()
	w.reveal([]byte{1, 2, 3}, 6, 4)
	for rank := range int64(3) {
		w.award(rank + 1)
	}
	closed := drawSettings(nil)
	closed.Phase = pb.Phase_CLOSED
	w.plan(0, 0, closed)
	for i := range w.shards {
		d := w.draft(i)
		d.Seal()
		w.commit(i, d)
	}
	return mustExport(t, w.world)
}

var drawPayment = &pb.Payment{HoldForUs: 1_000_000, GraceUs: 1000, Late: pb.Payment_RESELL}

// A draw of any size comes to what commitment and entries imply, whatever lapses.
func TestAnyDraw(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		stock := rapid.Int64Range(worldShards, 6).Draw(rt, "stock")
		var payment *pb.Payment
		if rapid.Bool().Draw(rt, "payment") {
			payment = drawPayment
		}
		w := newDrawWorld(t, stock, payment, nil)
		for i := range w.shards {
			w.enter(i, rapid.IntRange(0, 5).Draw(rt, "entries"))
		}
		w.verify()
		w.close()
		w.verify()
		w.reveal(nil, 2*stock, rapid.IntRange(1, 4).Draw(rt, "part"))
		w.verify()
		lapsed, next := int64(0), int64(1)
		for next <= min(int64(len(w.ranked)), stock+lapsed) {
			if last := MayBeAwarded(w.totals(), w.sale.DrawnSince()); last != stock+lapsed {
				rt.Fatalf("%d ranks may be awarded, and %d units lapsed of %d", last, lapsed, stock)
			}
			w.award(next)
			shard, c := w.claim(next)
			next++
			if want := map[bool]ClaimState{true: StateHeld, false: StateSold}[payment != nil]; c.State != want || len(c.Units) != 1 || c.SettledUs == 0 || w.shards[shard].UserUnits(c.User) != 1 {
				rt.Fatalf("what was awarded is %+v", c)
			}
			d := w.draft(shard)
			kind := SettleDone
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
			if kind != SettleDone {
				rt.Fatalf("settlement %d", kind)
			}
			if d.Ops() > 0 {
				w.commit(shard, d)
			}
		}
		r := w.verify()
		if r.Waiting != 0 || r.Awarded != next-1 || !r.Revealed || r.Winners != stock || r.Lapsed != lapsed {
			rt.Fatalf("%d were awarded, %d lapsed: %+v", next-1, lapsed, r)
		}
		for i, s := range w.shards {
			twin := NewState(s.log)
			for _, entry := range w.logs.logs[s.log].entries {
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
	w := newDrawWorld(t, 3, nil, nil)
	for i := range w.shards {
		w.enter(i, 2)
	}
	before := make([]*State, len(w.shards))
	for i, s := range w.shards {
		before[i] = NewState(s.log)
		for _, entry := range w.logs.logs[s.log].entries {
			if err := before[i].Fold(entry); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.enter(1, 1)
	w.close()
	w.reveal(nil, 6, 6)
	w.award(1)
	var to bytes.Buffer
	if err := Export(t.Context(), w.logs, "test", testUID, before, nil, &to); err != nil {
		t.Fatal(err)
	}
	if r, err := draw.Verify(&to, draw.Options{}); err != nil || !r.OK || r.Revealed || r.Entries != 6 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestEnter(t *testing.T) {
	w := newDrawWorld(t, 3, nil, nil)
	user := w.enter(0, 2)
	s := w.shards[0]
	for name, test := range map[string]struct {
		user, key string
		quantity  int64
		want      DecisionKind
	}{
		"again":            {user, "key", 1, Replay},
		"another quantity": {user, "key", 2, KeyReused},
		"another key":      {user, "another", 1, OverLimit},
		"two units":        {"bob", "key", 2, OverLimit},
		"new":              {"bob", "key", 1, Granted},
	} {
		if v := w.draft(0).Claim(test.user, test.key, test.quantity); v.Kind != test.want {
			t.Errorf("%s: decision %d, not %d", name, v.Kind, test.want)
		}
	}
	d := w.draft(0)
	d.Claim("bob", "key", 1)
	if v := d.Claim("bob", "another", 1); v.Kind != OverLimit {
		t.Errorf("a second entry in one draft: decision %d", v.Kind)
	}
	if c, _ := s.Find(user, "key"); c.State != StateEntered || len(c.Units) > 0 || s.UserUnits(user) != 0 || s.Totals.Entries != 2 || s.ClaimsWithUnits() != 0 {
		t.Errorf("an entry is %+v, of %+v", c, s.Totals)
	}
	for _, settle := range []func(*Draft, Claim) Settlement{
		func(d *Draft, c Claim) Settlement { return d.Confirm(c, "p") },
		func(d *Draft, c Claim) Settlement { return d.Cancel(c, "ada", "") },
		func(d *Draft, c Claim) Settlement { return d.Refund(c, "ada", "", false) },
		func(d *Draft, c Claim) Settlement { return d.Extend(c) },
		func(d *Draft, c Claim) Settlement { return d.Award(c) },
	} {
		if v := settle(w.draft(0), s.Claim(0)); v.Kind != SettleEntered {
			t.Errorf("settlement %d of an entry", v.Kind)
		}
	}
	// A payment for what was never awarded bought nothing: it is owed back, also once there is an award.
	d = w.draft(0)
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleRefundDue {
		t.Errorf("settlement %d of a payment for an entry", v.Kind)
	}
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleRefundDue || d.Ops() != 1 {
		t.Errorf("said again it is settlement %d, of %d ops", v.Kind, d.Ops())
	}
	w.commit(0, d)
	w.close()
	if v := w.draft(0).Claim("carl", "key", 1); v.Kind != NotNow || v.Refusal != RefusedClosed {
		t.Errorf("after the close: %+v", v)
	}
	w.timeUs = 1_000_000 // also by a clock that is set back
	if v := s.Draft(testOwner, 1).Claim("carl", "key", 1); v.Kind != NotNow {
		t.Errorf("after the last entry: %+v", v)
	}
}

// What a shard's reducer refuses of a draw. Each op follows the closing of the entries.
func TestShardRefusesOfADraw(t *testing.T) {
	award := func(change func(*pb.Settle)) func(*drawWorld) *pb.Op {
		return func(w *drawWorld) *pb.Op {
			c := w.shards[0].Claim(0)
			s := &pb.Settle{Slot: c.Slot, Index: uint32(c.Index), How: pb.Settle_AWARD, Units: []int64{1}, HeldUntilUs: w.timeUs + drawPayment.HoldForUs, GraceUs: drawPayment.GraceUs}
			change(s)
			return &pb.Op{Op: &pb.Op_Settle{Settle: s}}
		}
	}
	claim := func(c *pb.Claim) func(*drawWorld) *pb.Op {
		return func(*drawWorld) *pb.Op { return &pb.Op{Op: &pb.Op_Claim{Claim: c}} }
	}
	for name, test := range map[string]struct {
		op     func(*drawWorld) *pb.Op
		writer string // "": the owner
		open   bool   // the entries are not closed
		want   string // "": it is taken
	}{
		"an award":                  {op: award(func(*pb.Settle) {})},
		"of two units":              {op: award(func(s *pb.Settle) { s.Units = []int64{1, 2} }), want: "an award of 2 units"},
		"of none":                   {op: award(func(s *pb.Settle) { s.Units = nil }), want: "an award of 0 units"},
		"of a unit elsewhere":       {op: award(func(s *pb.Settle) { s.Units = []int64{9} }), want: "9"},
		"on other terms":            {op: award(func(s *pb.Settle) { s.HeldUntilUs++ }), want: "by the settings it is until"},
		"with other grace":          {op: award(func(s *pb.Settle) { s.GraceUs++ }), want: "by the settings it is until"},
		"by somebody else":          {op: award(func(*pb.Settle) {}), writer: "somebody", want: "not the owner"},
		"before the close":          {op: award(func(*pb.Settle) {}), open: true, want: "AWARD of an entry"},
		"a refund of an entry":      {op: award(func(s *pb.Settle) { s.How = pb.Settle_REFUND }), want: "REFUND of an entry"},
		"an entry after the last":   {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true}), want: "an entry when the sale is closed"},
		"a claim in a draw":         {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Units: []int64{1}}), open: true, want: "a claim in one that is"},
		"an entry with a unit":      {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true, Units: []int64{1}}), open: true, want: "an entry that has units"},
		"an entry by somebody else": {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true}), writer: "somebody", open: true, want: "not the owner"},
		"an entry":                  {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true}), open: true},
		"a second entry of a user": {op: func(w *drawWorld) *pb.Op {
			return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: w.shards[0].Claim(0).User, Key: []byte("k"), Entry: true}}}
		}, open: true, want: "has an entry"},
		"the last entry too soon":   {op: func(w *drawWorld) *pb.Op { return entriesOp(w.shards[0].tree()) }, open: true, want: "the sale is not closed"},
		"the last entry again":      {op: func(w *drawWorld) *pb.Op { return entriesOp(w.shards[0].tree()) }},
		"the last entry by anybody": {op: func(w *drawWorld) *pb.Op { return entriesOp(w.shards[0].tree()) }, writer: "somebody"},
		"another root":              {op: func(w *drawWorld) *pb.Op { return entriesOp(draw.Tree{Entries: 2}) }, want: "and the log has 2 with"},
		"another number":            {op: func(w *drawWorld) *pb.Op { is := w.shards[0].tree(); is.Entries++; return entriesOp(is) }, want: "3 entries"},
		"a generation that is no draw": {op: func(w *drawWorld) *pb.Op {
			return &pb.Op{Op: &pb.Op_Generation{Generation: &pb.Generation{Number: 2, Settings: openSettings(1)}}}
		}, want: "makes a draw of another sale"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDrawWorld(t, 6, drawPayment, nil)
			w.enter(0, 2)
			w.enter(1, 1)
			if !test.open {
				w.close()
			}
			s := w.shards[0]
			c := commit{string(testOwner), s.Epoch, w.timeUs, []*pb.Op{test.op(w)}}
			if test.writer != "" {
				c.writer = test.writer
			}
			p := c.proto()
			entry, hash, err := s.encode(p)
			if err != nil {
				t.Fatal(err)
			}
			err = s.Apply(p, hash, len(entry))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func entriesOp(tree draw.Tree) *pb.Op {
	return &pb.Op{Op: &pb.Op_Entries{Entries: &pb.Entries{Count: tree.Entries, Root: tree.Root[:]}}}
}

// What the sale's log refuses of a draw.
func TestSaleRefusesOfADraw(t *testing.T) {
	beacon := &spec.Beacon{Name: "drand", Round: "7", Fallback: spec.FallbackNone}
	closed := func(w *drawWorld, change func(*pb.EntriesClosed)) *pb.Op {
		trees := make([]draw.Tree, len(w.shards))
		for i, s := range w.shards {
			trees[i] = s.tree()
		}
		op := NewEntriesClosed(trees)
		change(op)
		return &pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: op}}
	}
	drawn := func(w *drawWorld, change func(*pb.Drawn)) *pb.Op {
		op := &pb.Drawn{Link: w.link[:], Beacon: []byte{1}, Ranks: 2}
		change(op)
		return &pb.Op{Op: &pb.Op_Drawn{Drawn: op}}
	}
	ranked := func(r *pb.Ranked) *pb.Op { return &pb.Op{Op: &pb.Op_Ranked{Ranked: r}} }
	for name, test := range map[string]struct {
		steps int // 1: entries closed, 2: revealed
		op    func(*drawWorld) *pb.Op
		want  string
	}{
		"entries":       {0, func(w *drawWorld) *pb.Op { return closed(w, func(*pb.EntriesClosed) {}) }, ""},
		"entries twice": {1, func(w *drawWorld) *pb.Op { return closed(w, func(*pb.EntriesClosed) {}) }, "a second time"},
		"another root":  {0, func(w *drawWorld) *pb.Op { return closed(w, func(c *pb.EntriesClosed) { c.Root = make([]byte, 32) }) }, "the root 0000"},
		"a short root":  {0, func(w *drawWorld) *pb.Op { return closed(w, func(c *pb.EntriesClosed) { c.Roots[1] = nil }) }, "shard 1 has"},
		"a shard less": {0, func(w *drawWorld) *pb.Op {
			return closed(w, func(c *pb.EntriesClosed) { c.Roots, c.Counts = c.Roots[1:], c.Counts[1:] })
		}, "entries of 2 shards"},
		"a count less":           {0, func(w *drawWorld) *pb.Op { return closed(w, func(c *pb.EntriesClosed) { c.Counts = c.Counts[1:] }) }, "3 roots and 2 counts"},
		"revealed":               {1, func(w *drawWorld) *pb.Op { return drawn(w, func(*pb.Drawn) {}) }, ""},
		"revealed too soon":      {0, func(w *drawWorld) *pb.Op { return drawn(w, func(*pb.Drawn) {}) }, "before its entries are published"},
		"revealed twice":         {2, func(w *drawWorld) *pb.Op { return drawn(w, func(*pb.Drawn) {}) }, "a second time"},
		"another secret":         {1, func(w *drawWorld) *pb.Op { return drawn(w, func(d *pb.Drawn) { d.Link = make([]byte, 32) }) }, "the commitment is"},
		"a short link":           {1, func(w *drawWorld) *pb.Op { return drawn(w, func(d *pb.Drawn) { d.Link = nil }) }, "a link of 0 bytes"},
		"no value of the beacon": {1, func(w *drawWorld) *pb.Op { return drawn(w, func(d *pb.Drawn) { d.Beacon = nil }) }, "no value of round 7 of drand"},
		"ranks": {2, func(*drawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: []uint32{0}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, ""},
		"ranks too soon": {1, func(*drawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: []uint32{0}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, "before the draw is revealed"},
		"ranks out of order": {2, func(*drawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 2, Shards: []uint32{0}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, "ranks 2+1 after 0 of 2"},
		"ranks too many": {2, func(*drawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: make([]uint32, 3), Slots: make([]uint64, 3), Indexes: make([]uint32, 3)})
		}, "ranks 1+3 after 0 of 2"},
		"ranks of other lengths": {2, func(*drawWorld) *pb.Op { return ranked(&pb.Ranked{First: 1, Shards: []uint32{0}, Slots: []uint64{1}}) }, "ranks of 1 shards, 1 slots and 0 indexes"},
		"ranks of no shard": {2, func(*drawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: []uint32{3}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, "rank 1 is on shard 3 of 3"},
		"a second commitment": {0, func(w *drawWorld) *pb.Op { p := proto.CloneOf(w.sale.Newest()); p.Generation = 2; return planOp(p) }, "generation 2 has a commitment"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDrawWorld(t, 6, nil, beacon)
			w.enter(0, 2)
			if test.steps > 0 {
				w.close()
			}
			if test.steps > 1 {
				w.say(drawn(w, func(*pb.Drawn) {}))
			}
			_, err := w.sale.Entry([]byte("planner1"), w.timeUs, test.op(w))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	no := NewSale(spec.SaleLog("test"))
	p := &pb.Planned{Generation: 1, Uid: testUID, Run: 1, Settings: drawSettings(nil), Shards: []*pb.ShardChange{{}}}
	for want, d := range map[string]*pb.Draw{"is missing in one that is": nil, "a commitment of 3 bytes": {Commitment: []byte{1, 2, 3}}} {
		p.Draw = d
		if _, err := no.Entry([]byte("planner1"), 1, planOp(p)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Who cheats past all drafts is found by the audit, with the place.
func TestAuditOfADraw(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*drawWorld)
		want string
	}{
		"out of turn": {func(w *drawWorld) { w.award(4); w.award(5) }, "it was awarded a unit at rank 4, and there were 3 units and 0 awards that lapsed"},
		"nothing":     {func(w *drawWorld) { w.award(2); w.award(1) }, ""},
		"an entry that the sale's log lacks": {func(w *drawWorld) {
			w.plant(0, &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: "eve", Key: []byte("k"), Entry: true}}})
		}, "an entry behind the last"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDrawWorld(t, 3, nil, nil)
			for i := range w.shards {
				w.enter(i, 3)
			}
			w.close()
			w.reveal(nil, 6, 6)
			test.do(w)
			a, err := RunAudit(t.Context(), w.logs, "test", NewState, nil)
			if err != nil || a.OK != (test.want == "") || !strings.Contains(fmt.Sprint(a.Problems), test.want) {
				t.Errorf("%v: %+v, want %q", err, a, test.want)
			}
		})
	}
}

// A commitment covers the terms of the first generation: with any other the same link is not what was
// committed to. One of an earlier version covers the link alone.
func TestCommitmentCoversTerms(t *testing.T) {
	link := draw.Link([]byte("a secret"))
	generation := func(change func(*spec.Sale)) *pb.Planned {
		declared := spec.Sale{
			Name: "tickets", Run: 1, Stock: 6, LockCount: 2, PerUserLimit: 1, LockTTL: 3 * time.Second, ClosesAt: time.Unix(1_800_000_000, 0).UTC(),
			Embedded: &spec.Embedded{}, Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 1},
			Draw: &spec.Draw{KeyEnv: "KEY", Substitutes: 3, Beacon: &spec.Beacon{Name: "drand", Round: "12", Fallback: spec.FallbackNone}},
		}
		change(&declared)
		text, err := declared.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return &pb.Planned{Generation: 1, Uid: testUID, Spec: text, Settings: &pb.Settings{Draw: true, ClosesAtUs: declared.ClosesAt.UnixMicro()}}
	}
	announced := generation(func(*spec.Sale) {})
	terms, err := DrawTerms(announced)
	if err != nil {
		t.Fatal(err)
	}
	commitment, earlier := terms.Commitment(testUID, link), draw.Commitment(link)
	for name, c := range map[string]struct {
		change     func(*spec.Sale)
		commitment draw.Digest
		want       bool
	}{
		"as announced":          {func(*spec.Sale) {}, commitment, true},
		"another round":         {func(s *spec.Sale) { s.Draw.Beacon.Round = "13" }, commitment, false},
		"another beacon":        {func(s *spec.Sale) { s.Draw.Beacon.Name = "dran" }, commitment, false},
		"a fallback":            {func(s *spec.Sale) { s.Draw.Beacon.Fallback = spec.FallbackSecret }, commitment, false},
		"no beacon":             {func(s *spec.Sale) { s.Draw.Beacon = nil }, commitment, false},
		"more substitutes":      {func(s *spec.Sale) { s.Draw.Substitutes++ }, commitment, false},
		"a later end":           {func(s *spec.Sale) { s.ClosesAt = s.ClosesAt.Add(time.Microsecond) }, commitment, false},
		"of an earlier version": {func(s *spec.Sale) { s.Draw.Beacon.Round = "13" }, earlier, true},
	} {
		p := generation(c.change)
		p.Draw = &pb.Draw{Commitment: c.commitment[:]}
		s := &Sale{uid: testUID, generations: []*pb.Planned{p}}
		if got := s.CommitsTo(link); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if s.CommitsTo(draw.Link([]byte("another"))) {
			t.Errorf("%s: another secret is taken", name)
		}
	}
}
