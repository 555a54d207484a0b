package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

func RebuildOp(fill uint64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: fill}}}
}

func GrabbedOp(user, key string, fill uint64, grantedUs int64, units ...int64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: user, Key: []byte(key), Units: units, Fill: fill, GrantedUs: grantedUs}}}
}

// listed returns the shard of begun with a list at its first fill: slots 0 to 2.
func listed(t testing.TB) *State {
	t.Helper()
	s := BegunState(t)
	MustFold(t, s, By(RebuildOp(1)).as("drainer", 1))
	return s
}

// hours are settings of a sale that opens at 50 and closes at 60.
func hours() *pb.Settings {
	return &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN, OpensAtUs: 50, ClosesAtUs: 60}
}

func TestStateTakesGrabs(t *testing.T) {
	for name, test := range map[string]struct {
		commits []commit
		want    string
	}{
		"by whoever drains":           {[]commit{By(GrabbedOp("u", "k", 1, 7, 4)).as("drainer", 1)}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight"},
		"again, whatever unit":        {[]commit{By(GrabbedOp("u", "k", 1, 7, 4)), By(GrabbedOp("u", "k", 1, 7, 4)), By(GrabbedOp("u", "k", 1, 7, 5))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight"},
		"of an earlier fill, again":   {[]commit{By(GrabbedOp("u", "k", 1, 7, 4)), By(RebuildOp(2)), By(GrabbedOp("u", "k", 2, 7, 4))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight"},
		"several of a user":           {[]commit{By(GrabbedOp("u", "k", 1, 7, 4), GrabbedOp("u", "l", 1, 7, 5)), By(GrabbedOp("u", "l", 1, 7, 6), GrabbedOp("u", "m", 1, 7, 6))}, "limit 10: 7 available, 0 held, 3 sold, 0 in flight"},
		"granted while it was open":   {[]commit{By(GenerationOp(2, 0, hours())), By(GrabbedOp("u", "k", 1, 50, 4), GrabbedOp("v", "k", 1, 59, 5)).at(99)}, "limit 10: 8 available, 0 held, 2 sold, 0 in flight"},
		"a rebuild while paused":      {[]commit{By(GenerationOp(2, 0, PhaseSettings(pb.Phase_PAUSED))), By(RebuildOp(2))}, "limit 10: 10 available, 0 held, 0 sold, 0 in flight"},
		"a rebuild of one that sells": {[]commit{By(GrabbedOp("u", "k", 1, 7, 4)), By(RebuildOp(2)), By(RebuildOp(3))}, "limit 10: 9 available, 0 held, 1 sold, 0 in flight"},
	} {
		t.Run(name, func(t *testing.T) {
			s := listed(t)
			MustFold(t, s, test.commits...)
			if got := figures(s); got != test.want {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

func TestStateRefusesGrabs(t *testing.T) {
	closed := By(GenerationOp(2, 0, PhaseSettings(pb.Phase_CLOSED)))
	for name, test := range map[string]struct {
		commits []commit // the last is refused
		want    string
	}{
		"of an older fill":           {[]commit{By(RebuildOp(2)), By(GrabbedOp("u", "k", 1, 7, 4))}, "a claim of fill 1, the shard is at 2"},
		"of a later fill":            {[]commit{By(GrabbedOp("u", "k", 2, 7, 4))}, "a claim of fill 2, the shard is at 1"},
		"a claim past the list":      {[]commit{By(ClaimOp("u", "k", 4))}, "a claim of fill 0, the shard is at 1"},
		"that is held":               {[]commit{By(&pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: "u", Key: []byte("k"), Units: []int64{4}, Fill: 1, HeldUntilUs: 99}}})}, "a grab that is held"},
		"of nothing":                 {[]commit{By(GrabbedOp("u", "k", 1, 7))}, "a claim for nothing"},
		"of a unit that another has": {[]commit{By(GrabbedOp("u", "k", 1, 7, 4)), By(GrabbedOp("v", "k", 1, 7, 4))}, "units 4 are not here"},
		"past the limit":             {[]commit{By(GrabbedOp("u", "k", 1, 7, 1), GrabbedOp("u", "l", 1, 7, 2), GrabbedOp("u", "m", 1, 7, 3), GrabbedOp("u", "n", 1, 7, 4))}, `user "u" has 3 units and may not have 1 more`},
		"granted before it opened":   {[]commit{By(GenerationOp(2, 0, hours())), By(GrabbedOp("u", "k", 1, 49, 4)).at(55)}, "a claim when the sale is"},
		"granted after it closed":    {[]commit{By(GenerationOp(2, 0, hours())), By(GrabbedOp("u", "k", 1, 60, 4)).at(55)}, "a claim when the sale is"},
		"when closed":                {[]commit{closed, By(GrabbedOp("u", "k", 1, 7, 4))}, "a claim when the sale is"},
		"a rebuild when closed":      {[]commit{closed, By(RebuildOp(2))}, "a rebuild of the list of a closed shard"},
		"a fill left out":            {[]commit{By(RebuildOp(3))}, "fill 3 after 1"},
		"a fill twice":               {[]commit{By(RebuildOp(1))}, "fill 1 after 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := listed(t)
			last := len(test.commits) - 1
			MustFold(t, s, test.commits[:last]...)
			if _, err := FoldCommit(s, test.commits[last]); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	t.Run("a first list of a shard that has sold", func(t *testing.T) {
		s := BegunState(t)
		MustFold(t, s, By(ClaimOp("u", "k", 1)))
		if _, err := FoldCommit(s, By(RebuildOp(1))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v", err)
		}
	})
}

// A draft takes a grab that the log can take, reports one that it has, and
// holds nothing back of one that contradicts it.
func TestDraftGrab(t *testing.T) {
	first := Grab{"u", "k", 4, 30}
	for name, test := range map[string]struct {
		before, here []Grab // in the log, and in this commit
		settings     *pb.Settings
		grab         Grab
		want         DecisionKind
	}{
		"new":                                 {nil, nil, OpenSettings(1), first, Granted},
		"another's beside it":                 {[]Grab{{"v", "k", 3, 30}}, []Grab{{"w", "k", 5, 30}}, OpenSettings(1), first, Granted},
		"had before":                          {[]Grab{first}, nil, OpenSettings(1), first, Replay},
		"had before, one of several":          {[]Grab{{"u", "j", 1, 30}, first, {"u", "l", 2, 30}}, nil, OpenSettings(3), first, Replay},
		"had here":                            {nil, []Grab{{"v", "k", 3, 30}, first}, OpenSettings(1), first, ReplayHere},
		"had before, with another unit":       {[]Grab{{"u", "k", 5, 30}}, nil, OpenSettings(1), first, Void},
		"had here, with another unit":         {nil, []Grab{{"u", "k", 5, 30}}, OpenSettings(1), first, Void},
		"the unit is another's":               {[]Grab{{"v", "k", 4, 30}}, nil, OpenSettings(1), first, Void},
		"the unit is another's here":          {nil, []Grab{{"v", "k", 4, 30}}, OpenSettings(1), first, Void},
		"the user has another":                {[]Grab{{"u", "j", 5, 30}}, nil, OpenSettings(1), first, Void},
		"the user has another here":           {nil, []Grab{{"v", "k", 3, 30}, {"u", "j", 5, 30}}, OpenSettings(1), first, Void},
		"the user may have another here":      {nil, []Grab{{"v", "k", 3, 30}, {"u", "j", 5, 30}}, OpenSettings(2), first, Granted},
		"granted while it was open":           {nil, nil, hours(), Grab{"u", "k", 4, 55}, Granted},
		"granted before":                      {nil, nil, hours(), first, Void},
		"of a user and a key that fill a lot": {nil, nil, OpenSettings(1), Grab{strings.Repeat("u", entryBudget-64), "k", 4, 30}, Full},
		"of a key that fills a lot":           {nil, nil, OpenSettings(1), Grab{"u", strings.Repeat("k", entryBudget-64), 4, 30}, Full},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(testLog)
			MustFold(t, s, By(GenerationOp(1, 0, test.settings, Range{1, 10})).as("planner", 0).at(0))
			d := s.Draft(TestOwner, 20)
			if fill := d.Rebuild(); fill != 1 {
				t.Fatalf("begins fill %d", fill)
			}
			MustCommit(t, s, d)
			d = s.Draft(TestOwner, 99)
			for _, g := range test.before {
				if v := d.Grab(g); v.Kind != Granted {
					t.Fatalf("%+v gets %d", g, v.Kind)
				}
			}
			MustCommit(t, s, d)
			d = s.Draft(TestOwner, 99)
			for _, g := range test.here {
				if v := d.Grab(g); v.Kind != Granted {
					t.Fatalf("%+v gets %d", g, v.Kind)
				}
			}
			ops, left := d.Ops(), d.Available()
			v := d.Grab(test.grab)
			if v.Kind != test.want {
				t.Fatalf("got %d, want %d", v.Kind, test.want)
			}
			switch v.Kind {
			case Granted:
				if d.Ops() != ops+1 || v.Op != ops || d.Available() != left-1 || fmt.Sprint(d.Units(v.Op)) != fmt.Sprint([]int64{4}) {
					t.Errorf("op %d of %d gives %v, %d are left", v.Op, d.Ops(), d.Units(v.Op), d.Available())
				}
			case ReplayHere:
				if c := d.commit.Ops[v.Op].GetClaim(); c.GetUser() != "u" {
					t.Errorf("op %d is of %s", v.Op, c.GetUser())
				}
			case Replay:
				if v.Claim.User != "u" || v.Claim.Key != "k" || v.Claim.Units[0] != 4 {
					t.Errorf("the claim is %+v", v.Claim)
				}
			}
			if v.Kind != Granted && (d.Ops() != ops || d.Available() != left) {
				t.Errorf("%d ops and %d units became %d and %d", ops, left, d.Ops(), d.Available())
			}
			e := MustCommit(t, s, d) // which refuses an op that does not fit
			if head, err := ParseHead(e.Head); err != nil || head != s.Head() {
				t.Errorf("the head is %+v, %v, the state's %+v", head, err, s.Head())
			}
		})
	}
}

// A grab is known by its unit, and its time is that of its node.
func TestGrabAsClaim(t *testing.T) {
	s := listed(t)
	MustFold(t, s, By(GrabbedOp("u", "k", 1, 7, 4), GrabbedOp("u", "l", 1, 8, 2)), By(GrabbedOp("v", "k", 1, 9, 3)).at(20))
	for key, want := range map[string]string{"k": "3-u4 at 7", "l": "3-u2 at 8"} {
		c, ok := s.Find("u", key)
		if got := fmt.Sprintf("%s at %d", c.ID(3), c.TimeUs); !ok || !c.Grabbed || got != want {
			t.Errorf("%s is %q, %v, want %q", key, got, ok, want)
		}
	}
	for unit, user := range map[int64]string{4: "u", 2: "u", 3: "v", 5: "", 9: ""} {
		if c, ok := s.ClaimOfGrab(unit); ok != (user != "") || c.User != user || ok && c.Units[0] != unit {
			t.Errorf("unit %d is %+v, %v", unit, c, ok)
		}
	}
	if c, ok := s.Find("u", "m"); ok {
		t.Errorf("found %+v", c)
	}
	if c := (Claim{Slot: 2, Index: 5, Units: []int64{4}}); c.ID(3) != "3-2-5" {
		t.Errorf("a claim is %s", c.ID(3))
	}
	if all, n := s.Newest("u", 9); len(all) != 2 || n != 2 {
		t.Errorf("%d claims", n)
	}
}

// Units that were taken from a list go out only if the log has them.
func TestOutTaken(t *testing.T) {
	s := listed(t)
	d := s.Draft([]byte("a"), 20)
	if tr, err := d.OutUnits(1, Units{{2, 2}, {9, 1}}); err != nil || tr.K != 1 || d.Available() != 7 {
		t.Errorf("%+v, %v, %d left", tr, err, d.Available())
	}
	MustCommit(t, s, d)
	if _, err := s.Draft([]byte("a"), 20).OutUnits(2, Units{{1, 1}, {9, 1}}); err == nil || !strings.Contains(err.Error(), "shard 2: units 9") {
		t.Errorf("got %v", err)
	}
}

// A page of a user's grabs begins behind the one that the page before ends with.
func TestBackwardFromAGrab(t *testing.T) {
	s := listed(t)
	MustFold(t, s, By(GrabbedOp("u", "k", 1, 7, 4), GrabbedOp("v", "k", 1, 7, 1)), By(GrabbedOp("u", "l", 1, 7, 5)), By(GrabbedOp("u", "m", 1, 7, 6)))
	for unit, want := range map[int64]string{0: "[6 5 4]", 6: "[5 4]", 5: "[4]", 4: "[]", 1: "none", 9: "none"} {
		got := "none"
		if older, ok := s.Backward("u", 0, 0, unit); ok {
			units := []int64{}
			for c := range older {
				if units = append(units, c.Units[0]); len(units) > 9 {
					break
				}
			}
			got = fmt.Sprint(units)
		}
		if got != want {
			t.Errorf("before unit %d: %s, want %s", unit, got, want)
		}
	}
}
