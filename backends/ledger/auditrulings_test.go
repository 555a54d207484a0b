package ledger_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// A claim is granted by the rule set in force and by no other, and is kept with what it
// was let in by.
func TestRulings(t *testing.T) {
	w := ledger.NewWorld(t)
	claim := func(r ledger.Ruling, user string) ledger.DecisionKind {
		d := w.Draft(0)
		v := d.DecideClaim(r, user, "key", 1, ledger.Demand{})
		if d.Ops() > 0 {
			w.Commit(0, d)
		}
		return v.Kind
	}
	for i, step := range []struct {
		rules string // that a generation brings first; "-": none
		by    ledger.Ruling
		want  ledger.DecisionKind
	}{
		{"-", ledger.GoldRuling, ledger.OtherRules},
		{"-", ledger.Ruling{}, ledger.Granted},
		{ledger.GoldRules, ledger.Ruling{}, ledger.OtherRules},
		{"-", ledger.SilverRuling, ledger.OtherRules},
		{"-", ledger.GoldRuling, ledger.Granted},
		{"-", ledger.GoldRuling, ledger.Granted},
		{ledger.SilverRules, ledger.GoldRuling, ledger.OtherRules},
		{"-", ledger.SilverRuling, ledger.Granted},
		{"", ledger.SilverRuling, ledger.OtherRules},
		{"-", ledger.Ruling{}, ledger.Granted},
		{ledger.GoldRules, ledger.GoldRuling, ledger.Granted},
	} {
		if step.rules != "-" {
			w.Plan(0, 0, ledger.UnderRules(step.rules))
		}
		if got := claim(step.by, w.Buyer(0)); got != step.want {
			t.Errorf("step %d: decision %d, want %d", i, got, step.want)
		}
	}
	s := w.Shards[0]
	for i, want := range []ledger.Ruling{{}, ledger.GoldRuling, ledger.GoldRuling, ledger.SilverRuling, {}, ledger.GoldRuling} {
		if got := s.Claim(i).Ruling; got != want {
			t.Errorf("claim %d was let in by %v, want %v", i, got, want)
		}
	}
	if got := claimLines(t, w)[1]; got.Rules != strings.Repeat("67", 32) || got.Attributes != "01020300000000000000000000000000" {
		t.Errorf("exported as %+v", got)
	}
	if got := claimLines(t, w)[0]; got.Rules+got.Attributes != "" {
		t.Errorf("exported as %+v", got)
	}
	if a := mustAudit(t, w.Logs); !a.OK {
		t.Error(a.Problems)
	}
}

// Claims and rule sets that no draft would write are refused by the reducer, and found by
// the audit's own book.
func TestRulingsThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		rules         string
		attributes    string
		want, problem string
	}{
		"no attributes":       {ledger.GoldRules, "", "a claim with 0 bytes of attributes, by the settings it has 16", "a claim with 0 bytes of attributes in a sale whose rule set is 6767"},
		"too few":             {ledger.GoldRules, "123", "a claim with 3 bytes of attributes, by the settings it has 16", "a claim with 3 bytes of attributes in"},
		"without rules":       {"", "0123456789abcdef", "a claim with 16 bytes of attributes, by the settings it has 0", "a claim with 16 bytes of attributes in"},
		"some without rules":  {"", "1", "a claim with 1 bytes of attributes, by the settings it has 0", "a claim with 1 bytes of attributes in"},
		"not named by a hash": {"gold", "", "a rule set is named by 32 bytes, not 4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			op := ledger.GenerationOp(2, 0, ledger.UnderRules(test.rules))
			c := ledger.ClaimOp("u", "k", 1)
			c.GetClaim().Attributes = []byte(test.attributes)
			s := ledger.BegunState(t)
			_, err := ledger.FoldCommit(s, ledger.By(op))
			if err == nil {
				_, err = ledger.FoldCommit(s, ledger.By(c))
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			if test.problem == "" {
				if err := ledger.BegunState(t).Draft(ledger.TestOwner, 0).Generation(op.GetGeneration()); err == nil {
					t.Error("drafted")
				}
				return
			}
			w := ledger.WorldOf(t, ledger.UnderRules(test.rules))
			c = proto.CloneOf(c)
			c.GetClaim().User, c.GetClaim().Units = w.Buyer(0), []int64{5}
			w.Plant(0, c)
			if a := mustAudit(t, w.Logs); a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), test.problem) {
				t.Errorf("%v", a.Problems)
			}
		})
	}
}
