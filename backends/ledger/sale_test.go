package ledger

import (
	"errors"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

const TestUID = "0123456789abcdef"

// planned is one generation of two shards in run 1.
func PlannedOf(generation uint64, p pb.Phase) *pb.Planned {
	return &pb.Planned{
		Generation: generation, Uid: TestUID, Run: 1, Settings: PhaseSettings(p),
		Shards: []*pb.ShardChange{{}, {}},
	}
}

func PlanOp(p *pb.Planned) *pb.Op { return &pb.Op{Op: &pb.Op_Planned{Planned: p}} }

func PlanOf(generation uint64, p pb.Phase) *pb.Op { return PlanOp(PlannedOf(generation, p)) }

func AppliedOp(generation uint64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: generation}}}
}

func SealedOp() *pb.Op { return SealedOfOp(2) }

// SealedOfOp is the seal of a sale of some shards.
func SealedOfOp(shards int) *pb.Op {
	end := &pb.Sealed{Claims: 7}
	for range shards {
		end.Roots, end.Slots = append(end.Roots, make([]byte, len(Hash{}))), append(end.Slots, 1)
	}
	return &pb.Op{Op: &pb.Op_Sealed{Sealed: end}}
}

func DestroyedOp() *pb.Op { return &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}} }

func rerun(run int64, uid string) *pb.Op {
	p := PlannedOf(1, pb.Phase_OPEN)
	p.Run, p.Uid = run, uid
	return PlanOp(p)
}

// mustSale returns a sale after commits of one op each, and fails if a head
// written with one differs from its fold.
func mustSale(t *testing.T, ops ...*pb.Op) *Sale {
	t.Helper()
	s := NewSale("sale/test")
	for i, op := range ops {
		e, err := s.Entry([]byte("planner1"), int64(i), op)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Fold(e.Bytes); err != nil {
			t.Fatal(err)
		}
		if head := string(s.Head().Encode()); head != string(e.Head) {
			t.Errorf("op %d: the head was written as\n%s, it is\n%s", i, e.Head, head)
		}
	}
	return s
}

func TestSalePhases(t *testing.T) {
	const open, paused, closed = pb.Phase_OPEN, pb.Phase_PAUSED, pb.Phase_CLOSED
	for name, test := range map[string]struct {
		ops        []*pb.Op
		phase      string
		generation uint64
		live       bool
	}{
		"never begun":          {nil, "", 0, false},
		"planned":              {[]*pb.Op{PlanOf(1, open)}, PhasePlanned, 1, true},
		"planned twice":        {[]*pb.Op{PlanOf(1, open), PlanOf(2, open)}, PhasePlanned, 2, true},
		"applied":              {[]*pb.Op{PlanOf(1, open), AppliedOp(1)}, PhaseOpen, 1, true},
		"applied again":        {[]*pb.Op{PlanOf(1, open), AppliedOp(1), AppliedOp(1)}, PhaseOpen, 1, true},
		"applied out of order": {[]*pb.Op{PlanOf(1, open), PlanOf(2, paused), AppliedOp(2), AppliedOp(1)}, PhasePaused, 2, true},
		"changed":              {[]*pb.Op{PlanOf(1, open), AppliedOp(1), PlanOf(2, open)}, PhaseOpen, 2, true},
		"paused":               {[]*pb.Op{PlanOf(1, open), AppliedOp(1), PlanOf(2, paused)}, PhasePaused, 2, true},
		"closed":               {[]*pb.Op{PlanOf(1, open), AppliedOp(1), PlanOf(2, closed), AppliedOp(2)}, PhaseClosed, 2, true},
		"sealed":               {[]*pb.Op{PlanOf(1, open), AppliedOp(1), SealedOp()}, PhaseSealed, 1, false},
		"sealed when planned":  {[]*pb.Op{PlanOf(1, open), SealedOp()}, PhaseSealed, 1, false},
		"destroyed":            {[]*pb.Op{PlanOf(1, open), SealedOp(), DestroyedOp()}, PhaseDestroyed, 1, false},
		"destroyed twice":      {[]*pb.Op{PlanOf(1, open), SealedOp(), DestroyedOp(), DestroyedOp()}, PhaseDestroyed, 1, false},
		"run again":            {[]*pb.Op{PlanOf(1, open), AppliedOp(1), PlanOf(2, open), SealedOp(), DestroyedOp(), rerun(2, "b")}, PhasePlanned, 1, true},
		"run again, applied":   {[]*pb.Op{PlanOf(1, open), SealedOp(), DestroyedOp(), rerun(5, "b"), AppliedOp(1)}, PhaseOpen, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustSale(t, test.ops...)
			if s.Phase() != test.phase || s.Generation() != test.generation || s.Live() != test.live {
				t.Errorf("phase %q, generation %d, live %v", s.Phase(), s.Generation(), s.Live())
			}
		})
	}
}

func TestSaleRefuses(t *testing.T) {
	const open = pb.Phase_OPEN
	noShards, threeShards, otherUID := PlannedOf(1, open), PlannedOf(2, open), PlannedOf(2, open)
	noShards.Shards, threeShards.Shards, otherUID.Uid = nil, make([]*pb.ShardChange, 3), "b"
	threeShards.Shards = []*pb.ShardChange{{}, {}, {}}
	noSlots, shortRoot := SealedOp(), SealedOp()
	noSlots.GetSealed().Slots = nil
	shortRoot.GetSealed().Roots[1] = make([]byte, 31)
	for name, test := range map[string]struct {
		before []*pb.Op
		op     *pb.Op
		want   string
	}{
		"no first generation":    {nil, PlanOf(2, open), "a run begins with generation 1"},
		"a generation of none":   {nil, PlanOp(noShards), "generation 1 names no shards"},
		"another lockCount":      {[]*pb.Op{PlanOf(1, open)}, PlanOp(threeShards), "generation 2 names 3 shards, the sale has 2"},
		"another uid":            {[]*pb.Op{PlanOf(1, open)}, PlanOp(otherUID), "generation 2 of run b after 1"},
		"a generation again":     {[]*pb.Op{PlanOf(1, open)}, PlanOf(1, open), "generation 1 of run"},
		"a generation skipped":   {[]*pb.Op{PlanOf(1, open)}, PlanOf(3, open), "generation 3 of run"},
		"an apply of nothing":    {nil, AppliedOp(1), "generation 1 is applied, 0 were planned"},
		"an apply too many":      {[]*pb.Op{PlanOf(1, open)}, AppliedOp(2), "generation 2 is applied, 1 were planned"},
		"an apply after all":     {[]*pb.Op{PlanOf(1, open), SealedOp()}, AppliedOp(1), "1 is applied"},
		"a plan after the seal":  {[]*pb.Op{PlanOf(1, open), SealedOp()}, PlanOf(2, open), "generation 2 of a sealed sale"},
		"a seal of nothing":      {nil, SealedOp(), "a seal on a sale"},
		"a second seal":          {[]*pb.Op{PlanOf(1, open), SealedOp()}, SealedOp(), "a seal on a sale that is sealed"},
		"a seal of one shard":    {[]*pb.Op{PlanOf(1, open)}, SealedOfOp(1), "a seal with 1 roots and 1 numbers of slots, for 2 shards"},
		"a seal without slots":   {[]*pb.Op{PlanOf(1, open)}, noSlots, "a seal with 2 roots and 0 numbers of slots"},
		"a seal of a short root": {[]*pb.Op{PlanOf(1, open)}, shortRoot, "a seal with a root of 31 bytes after 1 slots, for shard 1"},
		"an early destruction":   {[]*pb.Op{PlanOf(1, open)}, DestroyedOp(), "destroyed before it was sealed"},
		"the same run again":     {[]*pb.Op{PlanOf(1, open), SealedOp(), DestroyedOp()}, rerun(1, "b"), "a number above 1"},
		"the same uid again":     {[]*pb.Op{PlanOf(1, open), SealedOp(), DestroyedOp()}, rerun(2, TestUID), "a new uid"},
		"a run of a live sale":   {[]*pb.Op{PlanOf(1, open), SealedOp()}, rerun(2, "b"), "of a sealed sale"},
		"a shard's op":           {[]*pb.Op{PlanOf(1, open)}, seal(), "of a kind that no sale has"},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustSale(t, test.before...)
			before := s.Head()
			if _, err := s.Entry([]byte("planner1"), 9, test.op); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("an entry: got %v, want %q", err, test.want)
			}
			if s.Head() != before {
				t.Fatal("the attempt changed the sale")
			}
			entry, err := s.encode(&pb.Commit{Ops: []*pb.Op{test.op}}, Totals{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Fold(entry.Bytes); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("a fold: got %v, want %q", err, test.want)
			}
		})
	}
}

func TestSaleRemembers(t *testing.T) {
	first, second := PlannedOf(1, pb.Phase_OPEN), PlannedOf(2, pb.Phase_PAUSED)
	first.Shards[1].Add = []*pb.Range{{First: 6, Count: 5}}
	second.Shards[1].Remove = 2
	s := mustSale(t, PlanOp(first), AppliedOp(1), PlanOp(second))
	if s.UID() != TestUID || s.Run() != 1 || s.Shards() != 2 || s.Applied() != 1 || s.Next() != 3 {
		t.Errorf("uid %s, run %d, %d shards, %d applied, next %d", s.UID(), s.Run(), s.Shards(), s.Applied(), s.Next())
	}
	if p, slot := s.Planned(2), s.PlannedAt(2); slot != 2 || p.GetGeneration() != 2 || s.Newest() != p {
		t.Errorf("generation 2 stands in slot %d", slot)
	}
	if g := s.ShardGeneration(1, 1); g.GetNumber() != 1 || g.GetAdd()[0].GetFirst() != 6 || g.GetSettings().GetPhase() != pb.Phase_OPEN {
		t.Errorf("generation 1 is %v for shard 1", g)
	}
	if g := s.ShardGeneration(2, 1); g.GetRemove() != 2 || len(g.GetAdd()) != 0 {
		t.Errorf("generation 2 is %v for shard 1", g)
	}
	if s = mustSale(t, PlanOp(first), PlanOp(second), AppliedOp(2), AppliedOp(1)); s.Applied() != 2 {
		t.Errorf("%d is applied after 2 and 1", s.Applied())
	}
	unmarked := &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1, Unmarked: []string{"n1"}}}}
	if s = mustSale(t, PlanOp(first), unmarked); len(s.Unmarked()) != 1 {
		t.Errorf("unmarked are %v", s.Unmarked())
	}
	if s = mustSale(t, PlanOp(first), unmarked, AppliedOp(1)); len(s.Unmarked()) != 0 {
		t.Errorf("unmarked are %v after all were marked", s.Unmarked())
	}
	if s = NewSale("sale/test"); s.Newest() != nil || s.Shards() != 0 {
		t.Errorf("a sale that never began has %v", s.Newest())
	}
	if e, err := s.Entry([]byte("planner1"), 0, rerun(1, "\xff")); err == nil {
		t.Errorf("encoded as %q", e.Bytes)
	}
	s = mustSale(t, PlanOp(first), PlanOp(second), SealedOp(), DestroyedOp())
	if s.Sealed().GetClaims() != 7 || !s.Destroyed() {
		t.Errorf("sealed with %v", s.Sealed())
	}
	s = mustSale(t, PlanOp(first), PlanOp(second), SealedOp(), DestroyedOp(), rerun(2, "b"))
	if s.Sealed() != nil || s.Destroyed() || s.Applied() != 0 || s.UID() != "b" || s.Run() != 2 {
		t.Error("a new run remembers the old one")
	}
}

// No generation comes into a sale's log that its shards could not take.
func TestCheckPlanned(t *testing.T) {
	scattered := func() (all []*pb.Range) {
		for i := range int64(200_000) {
			all = append(all, &pb.Range{First: 1 + 2*i, Count: 1})
		}
		return all
	}()
	for name, test := range map[string]struct {
		change func(*pb.Planned)
		want   string
	}{
		"a plan":                        {func(*pb.Planned) {}, ""},
		"rows and no choice":            {func(p *pb.Planned) { p.Settings.Rows = []*pb.Range{{First: 1, Count: 1}} }, "shard 0: rows of units"},
		"half a rule set":               {func(p *pb.Planned) { p.Settings.Rules = []byte("half") }, "shard 0: a rule set"},
		"a hold without end":            {func(p *pb.Planned) { p.Settings.Payment = &pb.Payment{} }, "shard 0: a payment"},
		"a unit that comes twice":       {func(p *pb.Planned) { p.Shards[1].Add = []*pb.Range{{First: 7, Count: 2}, {First: 8, Count: 1}} }, "shard 1: units 8"},
		"fewer than no units that go":   {func(p *pb.Planned) { p.Shards[1].Remove = -1 }, "shard 1: a generation cannot remove"},
		"a range of no units that stay": {func(p *pb.Planned) { p.Shards[0].Restore = []*pb.Range{{First: 7}} }, "shard 0: units 7+0"},
		"units in many places":          {func(p *pb.Planned) { p.Shards[0].Drop = scattered }, ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			p := PlannedOf(1, pb.Phase_OPEN)
			test.change(p)
			err := CheckPlanned(p)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, entry := NewSale("sale/tickets").Entry([]byte("12345678"), 1, PlanOp(p)); (entry == nil) != (err == nil) {
				t.Errorf("the sale's log returns %v for it", entry)
			}
		})
	}
}
