package ledger

import (
	"fmt"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// some are the settings of a sale whose claims may get a part, at most 3 units a user.
func SomeSettings() *pb.Settings {
	return &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN, Partial: true}
}

// A claim is short of what its user may have, and ClaimSome gives it what is here.
func TestClaimSome(t *testing.T) {
	for name, c := range map[string]struct {
		settings             *pb.Settings
		stock, had, quantity int64
		want                 string // results of Claim and ClaimSome
	}{
		"all there":           {SomeSettings(), 9, 0, 3, "granted 3"},
		"beyond the limit":    {SomeSettings(), 9, 0, 8, "granted 3 of 8"},
		"what the limit left": {SomeSettings(), 9, 2, 3, "granted 1 of 3"},
		"nothing left of it":  {SomeSettings(), 9, 3, 1, "over limit"},
		"too few here":        {SomeSettings(), 2, 0, 3, "short of 3, granted 2 of 3"},
		"too few for both":    {SomeSettings(), 3, 1, 9, "granted 2 of 9"},
		"short of the limit":  {SomeSettings(), 2, 1, 9, "short of 2, granted 1 of 9"},
		"none here":           {SomeSettings(), 2, 2, 1, "short of 1, short of 1"},
		"all or nothing":      {PhaseSettings(pb.Phase_OPEN), 2, 0, 3, "short of 3, short of 3"},
		"over the limit":      {PhaseSettings(pb.Phase_OPEN), 9, 2, 2, "over limit"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(testLog)
			d := s.Draft([]byte("planner1"), 0)
			if err := d.Generation(&pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: c.stock}}, Settings: c.settings}); err != nil {
				t.Fatal(err)
			}
			MustCommit(t, s, d)
			mustOwn(t, s)
			d = s.Draft(TestOwner, 30)
			if c.had > 0 {
				d.Claim("u", "before", c.had)
			}
			text := func(v Decision) string {
				switch v.Kind {
				case Granted:
					n, requested := len(d.Units(v.Op)), d.commit.Ops[v.Op].GetClaim().GetRequested()
					if requested == 0 {
						return fmt.Sprint("granted ", n)
					}
					return fmt.Sprintf("granted %d of %d", n, requested)
				case Short:
					return fmt.Sprint("short of ", v.Want)
				case OverLimit:
					return "over limit"
				}
				return fmt.Sprint(v.Kind)
			}
			v := d.Claim("u", "k", c.quantity)
			got := text(v)
			if v.Kind == Short {
				v = d.DecideClaim(Ruling{}, "u", "k", c.quantity, Demand{Partial: true})
				got += ", " + text(v)
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if v.Kind != Granted {
				return
			}
			units := len(d.Units(v.Op))
			if again := d.DecideClaim(Ruling{}, "u", "k", c.quantity, Demand{Partial: true}); again.Kind != ReplayHere || again.Op != v.Op {
				t.Errorf("again in the same commit: %+v", again)
			}
			if other := d.Claim("u", "k", int64(units)+9); other.Kind != KeyReused {
				t.Errorf("for another quantity in the same commit: %+v", other)
			}
			MustCommit(t, s, d)
			wanted := int64(0)
			if c.quantity > int64(units) {
				wanted = c.quantity
			}
			if again := s.Draft(TestOwner, 31).Claim("u", "k", c.quantity); again.Kind != Replay || len(again.Claim.Units) != units || again.Claim.Requested != wanted {
				t.Errorf("again: %+v", again)
			}
			if again, ok := s.Recall("u", "k", c.quantity, 31, Demand{}); !ok || again.Kind != Replay {
				t.Errorf("recalled: %+v, %v", again, ok)
			}
			if other := s.Draft(TestOwner, 31).Claim("u", "k", int64(units)+9); other.Kind != KeyReused {
				t.Errorf("for another quantity: %+v", other)
			}
			if c.quantity > int64(units) {
				if other, ok := s.Recall("u", "k", int64(units), 31, Demand{}); !ok || other.Kind != KeyReused {
					t.Errorf("for the quantity that was given: %+v, %v", other, ok)
				}
			}
		})
	}
}

// The request of a user below the limit is not answered from the state alone, whatever its quantity.
func TestRecallOfAPart(t *testing.T) {
	s := BegunState(t)
	MustFold(t, s, By(GenerationOp(2, 0, SomeSettings())), By(ClaimOp("u", "k", 1, 2)))
	if v, ok := s.Recall("u", "l", 9, 10, Demand{}); ok {
		t.Errorf("decision %+v of a user who may have one more", v)
	}
	MustFold(t, s, By(ClaimOp("u", "l", 3)))
	if v, ok := s.Recall("u", "m", 1, 10, Demand{}); !ok || v.Kind != OverLimit {
		t.Errorf("decision %+v, %v of a user at the limit", v, ok)
	}
}

// A list gives one unit: a grab never is a part.
func TestGrabsAreNoParts(t *testing.T) {
	s := BegunState(t)
	MustFold(t, s, By(GenerationOp(2, 0, SomeSettings())), By(&pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: 1}}}))
	grab := ClaimOp("u", "k", 1)
	grab.GetClaim().Fill, grab.GetClaim().GrantedUs, grab.GetClaim().Requested = 1, 10, 2
	if _, err := FoldCommit(s, By(grab)); err == nil || !strings.Contains(err.Error(), "a grab that requested more") {
		t.Errorf("got %v", err)
	}
}
