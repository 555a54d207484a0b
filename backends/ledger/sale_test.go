package ledger

import (
	"errors"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

const testUID = "0123456789abcdef"

// planned is one generation of two shards in run 1.
func planned(generation uint64, p pb.Phase) *pb.Planned {
	return &pb.Planned{
		Generation: generation, Uid: testUID, Run: 1, Settings: phase(p),
		Shards: []*pb.ShardChange{{}, {}},
	}
}

func planOp(p *pb.Planned) *pb.Op { return &pb.Op{Op: &pb.Op_Planned{Planned: p}} }

func plan(generation uint64, p pb.Phase) *pb.Op { return planOp(planned(generation, p)) }

func applied(generation uint64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: generation}}}
}

func sealed() *pb.Op { return sealedOf(2) }

// sealedOf is the seal of a sale of some shards.
func sealedOf(shards int) *pb.Op {
	end := &pb.Sealed{Claims: 7}
	for range shards {
		end.Roots, end.Slots = append(end.Roots, make([]byte, len(Hash{}))), append(end.Slots, 1)
	}
	return &pb.Op{Op: &pb.Op_Sealed{Sealed: end}}
}

func destroyed() *pb.Op { return &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}} }

func rerun(run int64, uid string) *pb.Op {
	p := planned(1, pb.Phase_OPEN)
	p.Run, p.Uid = run, uid
	return planOp(p)
}

// mustSale returns a sale after commits of one op each, and fails if a head
// written with one is not what its fold says.
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
		"planned":              {[]*pb.Op{plan(1, open)}, PhasePlanned, 1, true},
		"planned twice":        {[]*pb.Op{plan(1, open), plan(2, open)}, PhasePlanned, 2, true},
		"applied":              {[]*pb.Op{plan(1, open), applied(1)}, PhaseOpen, 1, true},
		"applied again":        {[]*pb.Op{plan(1, open), applied(1), applied(1)}, PhaseOpen, 1, true},
		"applied out of order": {[]*pb.Op{plan(1, open), plan(2, paused), applied(2), applied(1)}, PhasePaused, 2, true},
		"changed":              {[]*pb.Op{plan(1, open), applied(1), plan(2, open)}, PhaseOpen, 2, true},
		"paused":               {[]*pb.Op{plan(1, open), applied(1), plan(2, paused)}, PhasePaused, 2, true},
		"closed":               {[]*pb.Op{plan(1, open), applied(1), plan(2, closed), applied(2)}, PhaseClosed, 2, true},
		"sealed":               {[]*pb.Op{plan(1, open), applied(1), sealed()}, PhaseSealed, 1, false},
		"sealed when planned":  {[]*pb.Op{plan(1, open), sealed()}, PhaseSealed, 1, false},
		"destroyed":            {[]*pb.Op{plan(1, open), sealed(), destroyed()}, PhaseDestroyed, 1, false},
		"destroyed twice":      {[]*pb.Op{plan(1, open), sealed(), destroyed(), destroyed()}, PhaseDestroyed, 1, false},
		"run again":            {[]*pb.Op{plan(1, open), applied(1), plan(2, open), sealed(), destroyed(), rerun(2, "b")}, PhasePlanned, 1, true},
		"run again, applied":   {[]*pb.Op{plan(1, open), sealed(), destroyed(), rerun(5, "b"), applied(1)}, PhaseOpen, 1, true},
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
	noShards, threeShards, otherUID := planned(1, open), planned(2, open), planned(2, open)
	noShards.Shards, threeShards.Shards, otherUID.Uid = nil, make([]*pb.ShardChange, 3), "b"
	threeShards.Shards = []*pb.ShardChange{{}, {}, {}}
	noSlots, shortRoot := sealed(), sealed()
	noSlots.GetSealed().Slots = nil
	shortRoot.GetSealed().Roots[1] = make([]byte, 31)
	for name, test := range map[string]struct {
		before []*pb.Op
		op     *pb.Op
		want   string
	}{
		"no first generation":    {nil, plan(2, open), "a run begins with generation 1"},
		"a generation of none":   {nil, planOp(noShards), "generation 1 names no shards"},
		"another lockCount":      {[]*pb.Op{plan(1, open)}, planOp(threeShards), "generation 2 names 3 shards, the sale has 2"},
		"another uid":            {[]*pb.Op{plan(1, open)}, planOp(otherUID), "generation 2 of run b after 1"},
		"a generation again":     {[]*pb.Op{plan(1, open)}, plan(1, open), "generation 1 of run"},
		"a generation skipped":   {[]*pb.Op{plan(1, open)}, plan(3, open), "generation 3 of run"},
		"an apply of nothing":    {nil, applied(1), "generation 1 is applied, 0 were planned"},
		"an apply too many":      {[]*pb.Op{plan(1, open)}, applied(2), "generation 2 is applied, 1 were planned"},
		"an apply after all":     {[]*pb.Op{plan(1, open), sealed()}, applied(1), "1 is applied"},
		"a plan after the seal":  {[]*pb.Op{plan(1, open), sealed()}, plan(2, open), "generation 2 of a sealed sale"},
		"a seal of nothing":      {nil, sealed(), "a seal on a sale"},
		"a second seal":          {[]*pb.Op{plan(1, open), sealed()}, sealed(), "a seal on a sale that is sealed"},
		"a seal of one shard":    {[]*pb.Op{plan(1, open)}, sealedOf(1), "a seal with 1 roots and 1 numbers of slots, for 2 shards"},
		"a seal without slots":   {[]*pb.Op{plan(1, open)}, noSlots, "a seal with 2 roots and 0 numbers of slots"},
		"a seal of a short root": {[]*pb.Op{plan(1, open)}, shortRoot, "a seal with a root of 31 bytes after 1 slots, for shard 1"},
		"an early destruction":   {[]*pb.Op{plan(1, open)}, destroyed(), "destroyed before it was sealed"},
		"the same run again":     {[]*pb.Op{plan(1, open), sealed(), destroyed()}, rerun(1, "b"), "a number above 1"},
		"the same uid again":     {[]*pb.Op{plan(1, open), sealed(), destroyed()}, rerun(2, testUID), "a new uid"},
		"a run of a live sale":   {[]*pb.Op{plan(1, open), sealed()}, rerun(2, "b"), "of a sealed sale"},
		"a shard's op":           {[]*pb.Op{plan(1, open)}, seal(), "of a kind that no sale has"},
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
			entry, _, err := s.encode(&pb.Commit{Ops: []*pb.Op{test.op}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Fold(entry); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("a fold: got %v, want %q", err, test.want)
			}
		})
	}
}

func TestSaleRemembers(t *testing.T) {
	first, second := planned(1, pb.Phase_OPEN), planned(2, pb.Phase_PAUSED)
	first.Shards[1].Add = []*pb.Range{{First: 6, Count: 5}}
	second.Shards[1].Remove = 2
	s := mustSale(t, planOp(first), applied(1), planOp(second))
	if s.UID() != testUID || s.Run() != 1 || s.Shards() != 2 || s.Applied() != 1 || s.Next() != 3 {
		t.Errorf("uid %s, run %d, %d shards, %d applied, next %d", s.UID(), s.Run(), s.Shards(), s.Applied(), s.Next())
	}
	if p, slot := s.Planned(2); slot != 2 || p.GetGeneration() != 2 || s.Newest() != p {
		t.Errorf("generation 2 stands in slot %d", slot)
	}
	if g := s.ShardGeneration(1, 1); g.GetNumber() != 1 || g.GetAdd()[0].GetFirst() != 6 || g.GetSettings().GetPhase() != pb.Phase_OPEN {
		t.Errorf("generation 1 is %v for shard 1", g)
	}
	if g := s.ShardGeneration(2, 1); g.GetRemove() != 2 || len(g.GetAdd()) != 0 {
		t.Errorf("generation 2 is %v for shard 1", g)
	}
	if s = mustSale(t, planOp(first), planOp(second), applied(2), applied(1)); s.Applied() != 2 {
		t.Errorf("%d is applied after 2 and 1", s.Applied())
	}
	unmarked := &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1, Unmarked: []string{"n1"}}}}
	if s = mustSale(t, planOp(first), unmarked); len(s.Unmarked()) != 1 {
		t.Errorf("unmarked are %v", s.Unmarked())
	}
	if s = mustSale(t, planOp(first), unmarked, applied(1)); len(s.Unmarked()) != 0 {
		t.Errorf("unmarked are %v after all were marked", s.Unmarked())
	}
	if s = NewSale("sale/test"); s.Newest() != nil || s.Shards() != 0 {
		t.Errorf("a sale that never began has %v", s.Newest())
	}
	if e, err := s.Entry([]byte("planner1"), 0, rerun(1, "\xff")); err == nil {
		t.Errorf("encoded as %q", e.Bytes)
	}
	s = mustSale(t, planOp(first), planOp(second), sealed(), destroyed())
	if s.Sealed().GetClaims() != 7 || !s.Destroyed() {
		t.Errorf("sealed with %v", s.Sealed())
	}
	s = mustSale(t, planOp(first), planOp(second), sealed(), destroyed(), rerun(2, "b"))
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
			p := planned(1, pb.Phase_OPEN)
			test.change(p)
			err := CheckPlanned(p)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, entry := NewSale("sale/tickets").Entry([]byte("12345678"), 1, planOp(p)); (entry == nil) != (err == nil) {
				t.Errorf("the sale's log says %v to it", entry)
			}
		})
	}
}
