package ledger

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

func TestEnter(t *testing.T) {
	w := NewDrawWorld(t, 3, nil, nil)
	user := w.Enter(0, 2)
	s := w.Shards[0]
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
		if v := w.Draft(0).Claim(test.user, test.key, test.quantity); v.Kind != test.want {
			t.Errorf("%s: decision %d, not %d", name, v.Kind, test.want)
		}
	}
	d := w.Draft(0)
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
		if v := settle(w.Draft(0), s.Claim(0)); v.Kind != SettleEntered {
			t.Errorf("settlement %d of an entry", v.Kind)
		}
	}
	// A payment for what was never awarded bought nothing: it is owed back, also once there is an award.
	d = w.Draft(0)
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleRefundDue {
		t.Errorf("settlement %d of a payment for an entry", v.Kind)
	}
	if v := d.Late(s.Claim(0), "p"); v.Kind != SettleRefundDue || d.Ops() != 1 {
		t.Errorf("repeated, it is settlement %d, of %d ops", v.Kind, d.Ops())
	}
	w.Commit(0, d)
	w.Close()
	if v := w.Draft(0).Claim("carl", "key", 1); v.Kind != NotNow || v.Refusal != RefusedClosed {
		t.Errorf("after the close: %+v", v)
	}
	w.TimeUs = 1_000_000 // also by a clock that is set back
	if v := s.Draft(TestOwner, 1).Claim("carl", "key", 1); v.Kind != NotNow {
		t.Errorf("after the last entry: %+v", v)
	}
	moved := DrawSettings(nil) // on a shard that has recorded its entries already
	moved.ClosesAtUs = 2 * s.Head().TimeUs
	w.Plan(0, 0, moved)
	if v := w.Draft(0).Claim("carl", "key", 1); v.Kind != NotNow || v.Refusal != RefusedClosed {
		t.Errorf("after the last entry, with a later close: %+v", v)
	}
}

// What a shard's reducer refuses of a draw. Each op follows the closing of the entries.
func TestShardRefusesOfADraw(t *testing.T) {
	award := func(change func(*pb.Settle)) func(*DrawWorld) *pb.Op {
		return func(w *DrawWorld) *pb.Op {
			c := w.Shards[0].Claim(0)
			s := &pb.Settle{Slot: c.Slot, Index: uint32(c.Index), How: pb.Settle_AWARD, Units: []int64{1}, HeldUntilUs: w.TimeUs + DrawPayment.HoldForUs, GraceUs: DrawPayment.GraceUs}
			change(s)
			return &pb.Op{Op: &pb.Op_Settle{Settle: s}}
		}
	}
	claim := func(c *pb.Claim) func(*DrawWorld) *pb.Op {
		return func(*DrawWorld) *pb.Op { return &pb.Op{Op: &pb.Op_Claim{Claim: c}} }
	}
	for name, test := range map[string]struct {
		op     func(*DrawWorld) *pb.Op
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
		"an entry after the last":   {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true}), want: "a claim when the sale is closed"},
		"a claim in a draw":         {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Units: []int64{1}}), open: true, want: "a claim in one that is"},
		"an entry with a unit":      {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true, Units: []int64{1}}), open: true, want: "an entry that has units"},
		"an entry by somebody else": {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true}), writer: "somebody", open: true, want: "not the owner"},
		"an entry":                  {op: claim(&pb.Claim{User: "eve", Key: []byte("k"), Entry: true}), open: true},
		"a second entry of a user": {op: func(w *DrawWorld) *pb.Op {
			return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: w.Shards[0].Claim(0).User, Key: []byte("k"), Entry: true}}}
		}, open: true, want: "has an entry"},
		"the last entry too soon":   {op: func(w *DrawWorld) *pb.Op { return entriesOp(w.Shards[0].tree()) }, open: true, want: "the sale is not closed"},
		"the last entry again":      {op: func(w *DrawWorld) *pb.Op { return entriesOp(w.Shards[0].tree()) }},
		"the last entry by anybody": {op: func(w *DrawWorld) *pb.Op { return entriesOp(w.Shards[0].tree()) }, writer: "somebody"},
		"another root":              {op: func(w *DrawWorld) *pb.Op { return entriesOp(draw.Tree{Entries: 2}) }, want: "and the log has 2 with"},
		"another number":            {op: func(w *DrawWorld) *pb.Op { is := w.Shards[0].tree(); is.Entries++; return entriesOp(is) }, want: "3 entries"},
		"a generation that is no draw": {op: func(w *DrawWorld) *pb.Op {
			return &pb.Op{Op: &pb.Op_Generation{Generation: &pb.Generation{Number: 2, Settings: OpenSettings(1)}}}
		}, want: "makes a draw of another sale"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewDrawWorld(t, 6, DrawPayment, nil)
			w.Enter(0, 2)
			w.Enter(1, 1)
			if !test.open {
				w.Close()
			}
			s := w.Shards[0]
			c := commit{string(TestOwner), s.Epoch, w.TimeUs, []*pb.Op{test.op(w)}}
			if test.writer != "" {
				c.writer = test.writer
			}
			p := c.proto()
			entry, err := s.encode(p, Totals{})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Apply(p, entry.Hash, len(entry.Bytes))
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
	closed := func(w *DrawWorld, change func(*pb.EntriesClosed)) *pb.Op {
		trees := make([]draw.Tree, len(w.Shards))
		for i, s := range w.Shards {
			trees[i] = s.tree()
		}
		op := NewEntriesClosed(trees)
		change(op)
		return &pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: op}}
	}
	drawn := func(w *DrawWorld, change func(*pb.Drawn)) *pb.Op {
		op := &pb.Drawn{Link: w.link[:], Beacon: []byte{1}, Ranks: 2}
		change(op)
		return &pb.Op{Op: &pb.Op_Drawn{Drawn: op}}
	}
	ranked := func(r *pb.Ranked) *pb.Op { return &pb.Op{Op: &pb.Op_Ranked{Ranked: r}} }
	for name, test := range map[string]struct {
		steps int // 1: entries closed, 2: revealed
		op    func(*DrawWorld) *pb.Op
		want  string
	}{
		"entries":       {0, func(w *DrawWorld) *pb.Op { return closed(w, func(*pb.EntriesClosed) {}) }, ""},
		"entries twice": {1, func(w *DrawWorld) *pb.Op { return closed(w, func(*pb.EntriesClosed) {}) }, "a second time"},
		"another root":  {0, func(w *DrawWorld) *pb.Op { return closed(w, func(c *pb.EntriesClosed) { c.Root = make([]byte, 32) }) }, "the root 0000"},
		"a short root":  {0, func(w *DrawWorld) *pb.Op { return closed(w, func(c *pb.EntriesClosed) { c.Roots[1] = nil }) }, "shard 1 has"},
		"a shard less": {0, func(w *DrawWorld) *pb.Op {
			return closed(w, func(c *pb.EntriesClosed) { c.Roots, c.Counts = c.Roots[1:], c.Counts[1:] })
		}, "entries of 2 shards"},
		"a count less":           {0, func(w *DrawWorld) *pb.Op { return closed(w, func(c *pb.EntriesClosed) { c.Counts = c.Counts[1:] }) }, "entries of 3 shards and counts of 2"},
		"revealed":               {1, func(w *DrawWorld) *pb.Op { return drawn(w, func(*pb.Drawn) {}) }, ""},
		"revealed too soon":      {0, func(w *DrawWorld) *pb.Op { return drawn(w, func(*pb.Drawn) {}) }, "before its entries are published"},
		"revealed twice":         {2, func(w *DrawWorld) *pb.Op { return drawn(w, func(*pb.Drawn) {}) }, "a second time"},
		"another secret":         {1, func(w *DrawWorld) *pb.Op { return drawn(w, func(d *pb.Drawn) { d.Link = make([]byte, 32) }) }, "the commitment is"},
		"a short link":           {1, func(w *DrawWorld) *pb.Op { return drawn(w, func(d *pb.Drawn) { d.Link = nil }) }, "a link of 0 bytes"},
		"no value of the beacon": {1, func(w *DrawWorld) *pb.Op { return drawn(w, func(d *pb.Drawn) { d.Beacon = nil }) }, "no value of round 7 of drand"},
		"ranks": {2, func(*DrawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: []uint32{0}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, ""},
		"ranks too soon": {1, func(*DrawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: []uint32{0}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, "before the draw is revealed"},
		"ranks out of order": {2, func(*DrawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 2, Shards: []uint32{0}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, "ranks 2+1 after 0 of 2"},
		"ranks too many": {2, func(*DrawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: make([]uint32, 3), Slots: make([]uint64, 3), Indexes: make([]uint32, 3)})
		}, "ranks 1+3 after 0 of 2"},
		"ranks of other lengths": {2, func(*DrawWorld) *pb.Op { return ranked(&pb.Ranked{First: 1, Shards: []uint32{0}, Slots: []uint64{1}}) }, "ranks of 1 shards, 1 slots and 0 indexes"},
		"ranks of no shard": {2, func(*DrawWorld) *pb.Op {
			return ranked(&pb.Ranked{First: 1, Shards: []uint32{3}, Slots: []uint64{1}, Indexes: []uint32{0}})
		}, "rank 1 is on shard 3 of 3"},
		"a second commitment": {0, func(w *DrawWorld) *pb.Op { p := proto.CloneOf(w.Sale.Newest()); p.Generation = 2; return PlanOp(p) }, "generation 2 has a commitment"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewDrawWorld(t, 6, nil, beacon)
			w.Enter(0, 2)
			if test.steps > 0 {
				w.Close()
			}
			if test.steps > 1 {
				w.AppendSale(drawn(w, func(*pb.Drawn) {}))
			}
			_, err := w.Sale.Entry([]byte("planner1"), w.TimeUs, test.op(w))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	no := NewSale(spec.SaleLog("test"))
	p := &pb.Planned{Generation: 1, Uid: TestUID, Run: 1, Settings: DrawSettings(nil), Shards: []*pb.ShardChange{{}}}
	for want, d := range map[string]*pb.Draw{"is missing in one that is": nil, "a commitment of 3 bytes": {Commitment: []byte{1, 2, 3}}} {
		p.Draw = d
		if _, err := no.Entry([]byte("planner1"), 1, PlanOp(p)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A commitment covers the terms of the first generation: with any other the same link is not what was
// committed to.
func TestCommitmentCoversTerms(t *testing.T) {
	link := draw.Link([]byte("a secret"))
	generation := func(change func(*spec.Sale)) *pb.Planned {
		declared := spec.Sale{
			Name: "tickets", Run: 1, Stock: 6, LockCount: 2, PerUserLimit: 1, LockTTL: spec.Duration(3 * time.Second), ClosesAt: time.Unix(1_800_000_000, 0).UTC(),
			Embedded: &spec.Embedded{}, Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 1},
			Draw: &spec.Draw{KeyEnv: "KEY", Substitutes: 3, Beacon: &spec.Beacon{Name: "drand", Round: "12", Fallback: spec.FallbackNone}},
		}
		change(&declared)
		text, err := declared.JSON()
		if err != nil {
			t.Fatal(err)
		}
		return &pb.Planned{Generation: 1, Uid: TestUID, Spec: text, Settings: &pb.Settings{Draw: true, ClosesAtUs: declared.ClosesAt.UnixMicro()}}
	}
	announced := generation(func(*spec.Sale) {})
	terms, err := DrawTerms(announced)
	if err != nil {
		t.Fatal(err)
	}
	commitment := terms.Commitment(TestUID, link)
	for name, c := range map[string]struct {
		change     func(*spec.Sale)
		commitment draw.Digest
		want       bool
	}{
		"as announced":     {func(*spec.Sale) {}, commitment, true},
		"another round":    {func(s *spec.Sale) { s.Draw.Beacon.Round = "13" }, commitment, false},
		"another beacon":   {func(s *spec.Sale) { s.Draw.Beacon.Name = "dran" }, commitment, false},
		"a fallback":       {func(s *spec.Sale) { s.Draw.Beacon.Fallback = spec.FallbackSecret }, commitment, false},
		"no beacon":        {func(s *spec.Sale) { s.Draw.Beacon = nil }, commitment, false},
		"more substitutes": {func(s *spec.Sale) { s.Draw.Substitutes++ }, commitment, false},
		"a later end":      {func(s *spec.Sale) { s.ClosesAt = s.ClosesAt.Add(time.Microsecond) }, commitment, false},
	} {
		p := generation(c.change)
		p.Draw = &pb.Draw{Commitment: c.commitment[:]}
		s := &Sale{uid: TestUID, generations: []*pb.Planned{p}}
		if got := s.CommitsTo(link) == nil; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if s.CommitsTo(draw.Link([]byte("another"))) == nil {
			t.Errorf("%s: another secret is taken", name)
		}
	}
}
