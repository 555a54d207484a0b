package ledger

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

var (
	goldRules   = strings.Repeat("g", 32)
	silverRules = strings.Repeat("s", 32)
	gold        = Ruling{Rules: goldRules, Attributes: [AttributesLen]byte{1, 2, 3}}
	silver      = Ruling{Rules: silverRules, Attributes: [AttributesLen]byte{4}}
)

// under are settings with a rule set.
func under(rules string) *pb.Settings {
	return &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN, Rules: []byte(rules)}
}

// A claim is granted by the rule set in force and by no other, and is kept with what it
// was let in by.
func TestRulings(t *testing.T) {
	w := newWorld(t)
	claim := func(r Ruling, user string) DecisionKind {
		d := w.draft(0)
		v := d.ClaimBy(r, user, "key", 1)
		if d.Ops() > 0 {
			w.commit(0, d)
		}
		return v.Kind
	}
	for i, step := range []struct {
		rules string // that a generation brings first; "-": none
		by    Ruling
		want  DecisionKind
	}{
		{"-", gold, OtherRules},
		{"-", Ruling{}, Granted},
		{goldRules, Ruling{}, OtherRules},
		{"-", silver, OtherRules},
		{"-", gold, Granted},
		{"-", gold, Granted},
		{silverRules, gold, OtherRules},
		{"-", silver, Granted},
		{"", silver, OtherRules},
		{"-", Ruling{}, Granted},
		{goldRules, gold, Granted},
	} {
		if step.rules != "-" {
			w.plan(0, 0, under(step.rules))
		}
		if got := claim(step.by, w.buyer(0)); got != step.want {
			t.Errorf("step %d: decision %d, want %d", i, got, step.want)
		}
	}
	s := w.shards[0]
	for i, want := range []Ruling{{}, gold, gold, silver, {}, gold} {
		if got := s.Claim(i).Ruling; got != want {
			t.Errorf("claim %d was let in by %v, want %v", i, got, want)
		}
	}
	if got := exportClaim("test", 0, s.Claim(1), nil); got.Rules != strings.Repeat("67", 32) || got.Attributes != "01020300000000000000000000000000" {
		t.Errorf("exported as %+v", got)
	}
	if got := exportClaim("test", 0, s.Claim(0), nil); got.Rules+got.Attributes != "" {
		t.Errorf("exported as %+v", got)
	}
	if a := mustAudit(t, w.logs); !a.OK {
		t.Error(a.Problems)
	}
}

// A request that has its claim is told so, whatever the rules are by now.
func TestRulingOfARepetition(t *testing.T) {
	w := worldOf(t, under(goldRules))
	d := w.draft(0)
	user := w.buyer(0)
	d.ClaimBy(gold, user, "key", 1)
	if v := d.ClaimBy(silver, user, "key", 1); v.Kind != ReplayHere {
		t.Errorf("decision %d", v.Kind)
	}
	w.commit(0, d)
	w.plan(0, 0, under(silverRules))
	if v := w.draft(0).ClaimBy(gold, user, "key", 1); v.Kind != Replay {
		t.Errorf("decision %d", v.Kind)
	}
}

// Claims and rule sets that no draft would write are refused by the reducer, and found by
// the audit's own book.
func TestRulingsThatAreNone(t *testing.T) {
	for name, test := range map[string]struct {
		rules      string
		attributes string
		want, told string
	}{
		"no attributes":       {goldRules, "", "a claim with 0 bytes of attributes, by the settings it has 16", "a claim with 0 bytes of attributes in a sale whose rule set is 6767"},
		"too few":             {goldRules, "123", "a claim with 3 bytes of attributes, by the settings it has 16", "a claim with 3 bytes of attributes in"},
		"without rules":       {"", "0123456789abcdef", "a claim with 16 bytes of attributes, by the settings it has 0", "a claim with 16 bytes of attributes in"},
		"some without rules":  {"", "1", "a claim with 1 bytes of attributes, by the settings it has 0", "a claim with 1 bytes of attributes in"},
		"not named by a hash": {"gold", "", "a rule set is named by 32 bytes, not 4", ""},
	} {
		t.Run(name, func(t *testing.T) {
			op := generation(2, 0, under(test.rules))
			c := claim("u", "k", 1)
			c.GetClaim().Attributes = []byte(test.attributes)
			s := begun(t)
			_, err := fold(s, by(op))
			if err == nil {
				_, err = fold(s, by(c))
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			if test.told == "" {
				if err := begun(t).Draft(testOwner, 0).Generation(op.GetGeneration()); err == nil {
					t.Error("drafted")
				}
				return
			}
			w := worldOf(t, under(test.rules))
			c = proto.CloneOf(c)
			c.GetClaim().User, c.GetClaim().Units = w.buyer(0), []int64{5}
			w.plant(0, c)
			if a := mustAudit(t, w.logs); a.OK || !strings.Contains(strings.Join(a.Problems, "\n"), test.told) {
				t.Errorf("%v", a.Problems)
			}
		})
	}
}
