package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// seats are the settings of a sale whose units are chosen: rows of 5, 5 and 10 units from
// 1 on, and none beyond 20.
func seats() *pb.Settings {
	return &pb.Settings{
		PerUserLimit: 4, Phase: pb.Phase_OPEN, Choose: true,
		Rows: []*pb.Range{{First: 1, Count: 5}, {First: 6, Count: 5}, {First: 11, Count: 10}},
	}
}

// seatsOf is an owned shard that has the units.
func seatsOf(t *testing.T, settings *pb.Settings, units ...*pb.Range) *State {
	s := NewState(testLog)
	d := s.Draft([]byte("planner1"), 0)
	if err := d.Generation(&pb.Generation{Number: 1, Add: units, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	MustCommit(t, s, d)
	mustOwn(t, s)
	return s
}

// A claim gets the units that it chooses, all of them or none.
func TestClaimUnits(t *testing.T) {
	some := seats()
	some.Partial = true
	plain := seats()
	plain.Choose, plain.Rows = false, nil
	for name, c := range map[string]struct {
		settings *pb.Settings
		had      int64 // units that the user has
		units    []int64
		want     DecisionKind
	}{
		"one":                          {seats(), 0, []int64{7}, Granted},
		"the first":                    {seats(), 0, []int64{2}, Granted},
		"some here and there":          {seats(), 0, []int64{3, 5, 19}, Granted},
		"side by side":                 {seats(), 0, []int64{5, 6}, Granted},
		"outside of any row":           {seats(), 0, []int64{22}, Granted},
		"one is not here":              {seats(), 0, []int64{3, 30}, Short},
		"none is here":                 {seats(), 0, []int64{1}, Short},
		"beyond the limit":             {seats(), 3, []int64{7, 8}, OverLimit},
		"beyond what a part of leaves": {some, 3, []int64{7, 8}, OverLimit},
		"a part of":                    {some, 0, []int64{7, 30}, Short},
		"no choice":                    {plain, 0, []int64{7}, NoChoice},
	} {
		t.Run(name, func(t *testing.T) {
			s := seatsOf(t, c.settings, &pb.Range{First: 2, Count: 21}, &pb.Range{First: 100, Count: 9})
			d := s.Draft(TestOwner, 0)
			if c.had > 0 {
				d.Claim("u", "before", c.had)
				MustCommit(t, s, d)
				d.Reset(0)
			}
			v := d.DecideClaim(Ruling{}, "u", "k", 0, Demand{Units: c.units})
			if v.Kind != c.want {
				t.Fatalf("decision %d, want %d", v.Kind, c.want)
			}
			if v.Kind != Granted {
				return
			}
			if got := d.Units(v.Op); !slices.Equal(got, c.units) {
				t.Errorf("units %v, want %v", got, c.units)
			}
			if other := d.DecideClaim(Ruling{}, "w", "k", 0, Demand{Units: c.units}); other.Kind != Short {
				t.Errorf("somebody else gets decision %d", other.Kind)
			}
			if again := d.DecideClaim(Ruling{}, "u", "k", 0, Demand{Units: c.units}); again.Kind != ReplayHere {
				t.Errorf("at the second request: decision %d", again.Kind)
			}
			MustCommit(t, s, d)
			d.Reset(0)
			if again := d.DecideClaim(Ruling{}, "u", "k", 0, Demand{Units: c.units}); again.Kind != Replay || !slices.Equal(again.Claim.Units, c.units) {
				t.Errorf("at a later request: %+v", again)
			}
		})
	}
}

// Adjacent units lie in one row, and the lowest go first.
func TestClaimAdjacent(t *testing.T) {
	some := seats()
	some.Partial = true
	for name, c := range map[string]struct {
		settings *pb.Settings
		units    []*pb.Range // that are here
		n        int64
		want     string
	}{
		"the lowest":           {seats(), []*pb.Range{{First: 1, Count: 20}}, 4, "[1 2 3 4]"},
		"not across two rows":  {seats(), []*pb.Range{{First: 4, Count: 5}}, 3, "[6 7 8]"},
		"only across two rows": {seats(), []*pb.Range{{First: 4, Count: 4}}, 3, "short"},
		"behind a gap":         {seats(), []*pb.Range{{First: 1, Count: 2}, {First: 4, Count: 1}, {First: 8, Count: 4}, {First: 14, Count: 3}}, 3, "[8 9 10]"},
		"at the end of a row":  {seats(), []*pb.Range{{First: 18, Count: 9}}, 3, "[18 19 20]"},
		"beyond all rows":      {seats(), []*pb.Range{{First: 19, Count: 9}}, 3, "short"},
		"one":                  {seats(), []*pb.Range{{First: 5, Count: 1}}, 1, "[5]"},
		"one outside of rows":  {seats(), []*pb.Range{{First: 21, Count: 1}}, 1, "short"},
		"no part":              {some, []*pb.Range{{First: 1, Count: 2}}, 3, "short"},
		"none":                 {seats(), nil, 1, "short"},
	} {
		t.Run(name, func(t *testing.T) {
			s := seatsOf(t, c.settings, c.units...)
			d := s.Draft(TestOwner, 0)
			got := "short"
			if v := d.DecideClaim(Ruling{}, "u", "k", c.n, Demand{Adjacent: true}); v.Kind == Granted {
				got = fmt.Sprint(d.Units(v.Op))
				MustCommit(t, s, d)
			} else if v.Kind != Short {
				t.Fatalf("decision %d", v.Kind)
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	plain := seatsOf(t, OpenSettings(3), &pb.Range{First: 1, Count: 9})
	if v := plain.Draft(TestOwner, 0).DecideClaim(Ruling{}, "u", "k", 2, Demand{Adjacent: true}); v.Kind != NoChoice {
		t.Errorf("where nobody may choose: decision %d", v.Kind)
	}
}

// Another shard gets the units that it names, a run and others, and none that are kept.
func TestPick(t *testing.T) {
	half := func(spare int64) int64 { return spare / 2 }
	none := func(int64) int64 { return 0 }
	for name, c := range map[string]struct {
		named Units
		run   int64
		share func(int64) int64
		kept  Units
		want  string
	}{
		"named":               {Units{{1, 1}, {3, 2}, {40, 1}}, 0, none, nil, "[3-4]"},
		"none of them":        {Units{{1, 1}, {40, 1}}, 0, none, nil, "[]"},
		"kept":                {Units{{3, 5}}, 0, none, Units{{4, 1}, {6, 1}}, "[3 5 7]"},
		"a run":               {nil, 3, none, nil, "[2-4]"},
		"a run but for kept":  {nil, 3, none, Units{{3, 1}}, "[6-8]"},
		"a run but for named": {Units{{3, 1}}, 3, none, nil, "[3 6-8]"},
		"no run":              {nil, 6, none, nil, "[]"},
		"others":              {nil, 0, half, nil, "[8-12]"},
		"others but for kept": {nil, 0, half, Units{{11, 2}, {30, 1}}, "[7-10]"},
		"all of it":           {Units{{12, 1}}, 2, half, Units{{10, 1}}, "[2-3 8-9 11-12]"},
	} {
		t.Run(name, func(t *testing.T) {
			d := seatsOf(t, seats(), &pb.Range{First: 2, Count: 10}, &pb.Range{First: 12, Count: 1}).Draft(TestOwner, 0)
			got := d.Pick(c.named, c.run, c.share, c.kept)
			if fmt.Sprint(got) != c.want {
				t.Errorf("picked %v, want %s", got, c.want)
			}
			if d.Available() != 11 {
				t.Error("to pick units takes them")
			}
		})
	}
}

// A requested unit that a shard lacks is counted once.
func TestMissing(t *testing.T) {
	d := seatsOf(t, seats(), &pb.Range{First: 2, Count: 3}).Draft(TestOwner, 0)
	var u Units
	u.Include([]int64{1, 2, 5, 6})
	u.Include([]int64{3, 6, 9})
	if got, want := fmt.Sprint(d.Missing(u)), "[1 5-6 9]"; got != want {
		t.Errorf("missing are %v, want %s", got, want)
	}
}

// Settings whose rows are none are refused by draft and reducer.
func TestRowsThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		settings *pb.Settings
		want     string
	}{
		"nobody may choose":  {&pb.Settings{Rows: []*pb.Range{{First: 1, Count: 2}}}, "rows of units that nobody may choose"},
		"too many":           {&pb.Settings{Choose: true, Rows: make([]*pb.Range, MaxRows+1)}, "10001 rows of units, at most 10000 are allowed"},
		"empty":              {&pb.Settings{Choose: true, Rows: []*pb.Range{{First: 1}}}, "row 1 has the units 1+0"},
		"out of order":       {&pb.Settings{Choose: true, Rows: []*pb.Range{{First: 6, Count: 2}, {First: 1, Count: 2}}}, "row 2 has the units 1+2"},
		"with a common unit": {&pb.Settings{Choose: true, Rows: []*pb.Range{{First: 1, Count: 2}, {First: 2, Count: 2}}}, "row 2 has the units 2+2"},
	} {
		t.Run(name, func(t *testing.T) {
			op := &pb.Generation{Number: 1, Settings: c.settings}
			s := NewState(testLog)
			for who, err := range map[string]error{"draft": s.Draft(TestOwner, 0).Generation(op), "reducer": s.generation(op)} {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error of the %s is %v, want %q", who, err, c.want)
				}
			}
		})
	}
}

// A key is good for the units that were chosen with it, and for no others.
func TestKeyOfOtherUnits(t *testing.T) {
	type demand struct {
		units    []int64
		adjacent int64
		any      int64
	}
	some := seats()
	some.Partial = true
	for name, c := range map[string]struct {
		settings *pb.Settings
		first    demand
		then     demand
		again    bool
	}{
		"the same units":                 {seats(), demand{units: []int64{3, 7}}, demand{units: []int64{3, 7}}, true},
		"other units":                    {seats(), demand{units: []int64{3, 7}}, demand{units: []int64{3, 8}}, false},
		"the same, after any":            {seats(), demand{any: 2}, demand{units: []int64{2, 3}}, true},
		"other units, after any":         {seats(), demand{any: 2}, demand{units: []int64{4, 5}}, false},
		"other units, after adjacent":    {seats(), demand{adjacent: 2}, demand{units: []int64{4, 5}}, false},
		"any, after units":               {seats(), demand{units: []int64{3, 7}}, demand{any: 2}, true},
		"adjacent":                       {seats(), demand{adjacent: 3}, demand{adjacent: 3}, true},
		"fewer adjacent":                 {seats(), demand{adjacent: 3}, demand{adjacent: 2}, false},
		"adjacent, after units apart":    {seats(), demand{units: []int64{3, 7}}, demand{adjacent: 2}, false},
		"adjacent, after units that are": {seats(), demand{units: []int64{3, 4}}, demand{adjacent: 2}, true},
		"units, after a part":            {some, demand{any: 5}, demand{units: []int64{2, 3, 4, 6, 7}}, false},
		"adjacent, after a part":         {some, demand{any: 5}, demand{adjacent: 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := seatsOf(t, c.settings, &pb.Range{First: 2, Count: 9})
			draft := func(d *Draft, a demand) Decision {
				switch {
				case a.units != nil:
					return d.DecideClaim(Ruling{}, "u", "k", 0, Demand{Units: a.units})
				case a.adjacent > 0:
					return d.DecideClaim(Ruling{}, "u", "k", a.adjacent, Demand{Adjacent: true})
				}
				return d.DecideClaim(Ruling{}, "u", "k", a.any, Demand{Partial: true})
			}
			recall := func(a demand) (Decision, bool) {
				switch {
				case a.units != nil:
					return s.Recall("u", "k", 0, 0, Demand{Units: a.units})
				case a.adjacent > 0:
					return s.Recall("u", "k", a.adjacent, 0, Demand{Adjacent: true})
				}
				return s.Recall("u", "k", a.any, 0, Demand{})
			}
			d := s.Draft(TestOwner, 0)
			if v := draft(d, c.first); v.Kind != Granted {
				t.Fatalf("decision %d", v.Kind)
			}
			here, later := KeyReused, KeyReused
			if c.again {
				here, later = ReplayHere, Replay
			}
			if v := draft(d, c.then); v.Kind != here {
				t.Errorf("in the same commit: decision %d, want %d", v.Kind, here)
			}
			MustCommit(t, s, d)
			d.Reset(0)
			if v := draft(d, c.then); v.Kind != later {
				t.Errorf("in a later commit: decision %d, want %d", v.Kind, later)
			}
			if v, ok := recall(c.then); !ok || v.Kind != later {
				t.Errorf("recalled: decision %d (%v), want %d", v.Kind, ok, later)
			}
		})
	}
}

// A late payment that bought other units than the claim had chosen leaves its key good for
// those that it had.
func TestKeyOfUnitsThatWereResold(t *testing.T) {
	settings := proto.CloneOf(HeldSettings())
	settings.Choose = true
	w := WorldOf(t, settings)
	d, user := w.Draft(0), w.Buyer(0)
	chosen := w.Shards[0].AvailableUnits()[0].First
	if v := d.DecideClaim(Ruling{}, user, "k", 0, Demand{Units: []int64{chosen}}); v.Kind != Granted {
		t.Fatalf("%+v", v)
	}
	w.Commit(0, d)
	w.TimeUs += 1_001_000
	d = w.Draft(0)
	d.Expire(w.Shards[0].Claim(0))
	d.DecideClaim(Ruling{}, w.Buyer(0), "k", 0, Demand{Units: []int64{chosen}})
	v := d.Late(w.Shards[0].Claim(0), "payment")
	if v.Kind != SettleDone || v.Claim.Units[0] == chosen {
		t.Fatalf("%+v", v)
	}
	w.Commit(0, d)
	if again, ok := w.Shards[0].Recall(user, "k", 0, w.TimeUs, Demand{Units: []int64{chosen}}); !ok || again.Kind != Replay || again.Claim.Units[0] != v.Claim.Units[0] {
		t.Errorf("for what it had chosen: %+v, %v", again, ok)
	}
	if other, ok := w.Shards[0].Recall(user, "k", 0, w.TimeUs, Demand{Units: v.Claim.Units}); !ok || other.Kind != KeyReused {
		t.Errorf("for what it was given later: %+v, %v", other, ok)
	}
}

// Whoever chooses in a sale with partial is over the limit with all of the units or none.
func TestRecallOfChoiceWithPartial(t *testing.T) {
	settings := seats()
	settings.Partial = true
	s := seatsOf(t, settings, &pb.Range{First: 2, Count: 9})
	if v, ok := s.Recall("u", "k", 0, 0, Demand{Units: []int64{2, 3, 4, 5, 6}}); !ok || v.Kind != OverLimit {
		t.Errorf("units: %+v, %v", v, ok)
	}
	if v, ok := s.Recall("u", "k", 5, 0, Demand{Adjacent: true}); !ok || v.Kind != OverLimit {
		t.Errorf("adjacent ones: %+v, %v", v, ok)
	}
	if v, ok := s.Recall("u", "k", 5, 0, Demand{}); ok {
		t.Errorf("any: %+v", v)
	}
}
