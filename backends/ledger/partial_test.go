package ledger

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// some are the settings of a sale whose claims may get a part, at most 3 units a user.
func some() *pb.Settings {
	return &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN, Partial: true}
}

// A claim is short of what its user may have, and ClaimSome gives it what is here.
func TestClaimSome(t *testing.T) {
	for name, c := range map[string]struct {
		settings        *pb.Settings
		stock, had, ask int64
		want            string // what Claim and ClaimSome say
	}{
		"all there":           {some(), 9, 0, 3, "granted 3"},
		"beyond the limit":    {some(), 9, 0, 8, "granted 3 of 8"},
		"what the limit left": {some(), 9, 2, 3, "granted 1 of 3"},
		"nothing left of it":  {some(), 9, 3, 1, "over limit"},
		"too few here":        {some(), 2, 0, 3, "short of 3, granted 2 of 3"},
		"too few for both":    {some(), 3, 1, 9, "granted 2 of 9"},
		"short of the limit":  {some(), 2, 1, 9, "short of 2, granted 1 of 9"},
		"none here":           {some(), 2, 2, 1, "short of 1, short of 1"},
		"all or nothing":      {phase(pb.Phase_OPEN), 2, 0, 3, "short of 3, short of 3"},
		"over the limit":      {phase(pb.Phase_OPEN), 9, 2, 2, "over limit"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(testLog)
			d := s.Draft([]byte("planner1"), 0)
			if err := d.Generation(&pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: c.stock}}, Settings: c.settings}); err != nil {
				t.Fatal(err)
			}
			mustCommit(t, s, d)
			mustOwn(t, s)
			d = s.Draft(testOwner, 30)
			if c.had > 0 {
				d.Claim("u", "before", c.had)
			}
			said := func(v Decision) string {
				switch v.Kind {
				case Granted:
					n, asked := len(d.Units(v.Op)), d.commit.Ops[v.Op].GetClaim().GetAsked()
					if asked == 0 {
						return fmt.Sprint("granted ", n)
					}
					return fmt.Sprintf("granted %d of %d", n, asked)
				case Short:
					return fmt.Sprint("short of ", v.Want)
				case OverLimit:
					return "over limit"
				}
				return fmt.Sprint(v.Kind)
			}
			v := d.Claim("u", "k", c.ask)
			got := said(v)
			if v.Kind == Short {
				v = d.ClaimSome(Ruling{}, "u", "k", c.ask)
				got += ", " + said(v)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if v.Kind != Granted {
				return
			}
			units := len(d.Units(v.Op))
			if again := d.ClaimSome(Ruling{}, "u", "k", c.ask); again.Kind != ReplayHere || again.Op != v.Op {
				t.Errorf("again in the same commit: %+v", again)
			}
			if other := d.Claim("u", "k", int64(units)+9); other.Kind != KeyReused {
				t.Errorf("for another quantity in the same commit: %+v", other)
			}
			mustCommit(t, s, d)
			wanted := int64(0)
			if c.ask > int64(units) {
				wanted = c.ask
			}
			if again := s.Draft(testOwner, 31).Claim("u", "k", c.ask); again.Kind != Replay || len(again.Claim.Units) != units || again.Claim.Asked != wanted {
				t.Errorf("again: %+v", again)
			}
			if again, ok := s.Recall("u", "k", c.ask, 31); !ok || again.Kind != Replay {
				t.Errorf("recalled: %+v, %v", again, ok)
			}
			if other := s.Draft(testOwner, 31).Claim("u", "k", int64(units)+9); other.Kind != KeyReused {
				t.Errorf("for another quantity: %+v", other)
			}
			if c.ask > int64(units) {
				if other, ok := s.Recall("u", "k", int64(units), 31); !ok || other.Kind != KeyReused {
					t.Errorf("for the quantity that was given: %+v, %v", other, ok)
				}
			}
		})
	}
}

// Who may have another unit is not answered from the state alone, however many are asked.
func TestRecallOfAPart(t *testing.T) {
	s := begun(t)
	mustFold(t, s, by(generation(2, 0, some())), by(claim("u", "k", 1, 2)))
	if v, ok := s.Recall("u", "l", 9, 10); ok {
		t.Errorf("decision %+v of a user who may have one more", v)
	}
	mustFold(t, s, by(claim("u", "l", 3)))
	if v, ok := s.Recall("u", "m", 1, 10); !ok || v.Kind != OverLimit {
		t.Errorf("decision %+v, %v of a user at the limit", v, ok)
	}
}

// Parts that no draft would give are refused by the reducer, and found by the audit's own
// book.
func TestPartsThatAreNone(t *testing.T) {
	const told = "in a sale whose partial is "
	for name, test := range map[string]struct {
		settings *pb.Settings
		asked    uint32
		units    int // of 10
		want     string
		told     string
	}{
		"in a sale that gives none": {phase(pb.Phase_OPEN), 4, 3, "gets all or nothing", "of 3 units of the 4 asked for, " + told + "false"},
		"asked for as many":         {some(), 3, 3, "a claim of 3 units that has asked for 3", "of 3 units of the 3 asked for, " + told + "true"},
		"asked for fewer":           {some(), 2, 3, "a claim of 3 units that has asked for 2", "of 3 units of the 2 asked for, " + told + "true"},
		"more are there": {some(), 3, 2, "a claim of 2 units that has asked for 3, of a user who has 0, where 10 are available",
			told + "true, where 1 more could be given"},
		"the limit":  {some(), 4, 3, "", ""},
		"all of it":  {some(), 0, 2, "", ""},
		"none asked": {phase(pb.Phase_OPEN), 0, 2, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			part := func(user string, first int64) *pb.Op {
				var units []int64
				for i := range test.units {
					units = append(units, first+int64(i))
				}
				op := claim(user, "k", units...)
				op.GetClaim().Asked = test.asked
				return op
			}
			s := begun(t)
			mustFold(t, s, by(generation(2, 0, test.settings)))
			_, err := fold(s, by(part("u", 1)))
			if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			w := worldOf(t, test.settings)
			w.plant(0, part(w.buyer(0), 1))
			a := mustAudit(t, w.logs)
			if problems := strings.Join(a.Problems, "\n"); test.told != "" && !strings.Contains(problems, test.told) || test.told == "" && strings.Contains(problems, told) {
				t.Errorf("%q", a.Problems)
			}
		})
	}
}

// A list gives one unit: a grab never is a part.
func TestGrabsAreNoParts(t *testing.T) {
	s := begun(t)
	mustFold(t, s, by(generation(2, 0, some())), by(&pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: 1}}}))
	grab := claim("u", "k", 1)
	grab.GetClaim().Fill, grab.GetClaim().GrantedUs, grab.GetClaim().Asked = 1, 10, 2
	if _, err := fold(s, by(grab)); err == nil || !strings.Contains(err.Error(), "a grab that has asked for more") {
		t.Errorf("got %v", err)
	}
}

// What was asked for is in the export, for those alone who were given less; memory that a
// draft uses again has nothing of it.
func TestExportOfParts(t *testing.T) {
	w := worldOf(t, some())
	d := w.draft(0)
	d.ClaimSome(Ruling{}, w.buyer(0), "k", 5)
	w.commit(0, d)
	d.Reset(w.timeUs)
	d.Claim(w.buyer(0), "k", 2)
	w.commit(0, d)
	for i, want := range []int64{5, 0} {
		c := w.shards[0].Claim(i)
		if line := exportClaim("test", 0, c, nil); c.Asked != want || line.Asked != want {
			t.Errorf("claim %d has asked for %d, exported %d, want %d", i, c.Asked, line.Asked, want)
		}
	}
	w.end()
	file := mustExport(t, w)
	if n := strings.Count(string(file), `"asked":5`); n != 1 || strings.Count(string(file), `"asked"`) != 1 {
		t.Errorf("%d lines of the export have it", n)
	}
	if a := mustAudit(t, w.logs); !a.OK {
		t.Error(a.Problems)
	}
}

// An expired part that is paid late is sold with as many units as it had, and its request
// still is one for what it had asked.
func TestResaleOfAPart(t *testing.T) {
	settings := held()
	settings = proto.CloneOf(settings)
	settings.Partial = true
	w := worldOf(t, settings)
	d := w.draft(0)
	user := w.buyer(0)
	d.ClaimSome(Ruling{}, user, "k", 5)
	w.commit(0, d)
	w.timeUs += 1_001_000
	d = w.draft(0)
	d.Expire(w.shards[0].Claim(0))
	d.Claim(w.buyer(0), "k", 1) // of its units
	if v := d.Late(w.shards[0].Claim(0), "payment"); v.Kind != SettleDone || len(v.Claim.Units) != 3 || v.Claim.Asked != 5 {
		t.Errorf("%+v", v)
	}
	w.commit(0, d)
	if v, ok := w.shards[0].Recall(user, "k", 5, w.timeUs); !ok || v.Kind != Replay || v.Claim.State != StateSold {
		t.Errorf("%+v, %v", v, ok)
	}
	if a := mustAudit(t, w.logs); !a.OK {
		t.Error(a.Problems)
	}
}
