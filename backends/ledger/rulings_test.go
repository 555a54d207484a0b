package ledger

import (
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

var (
	GoldRules    = strings.Repeat("g", 32)
	SilverRules  = strings.Repeat("s", 32)
	GoldRuling   = Ruling{Rules: GoldRules, Attributes: [AttributesLen]byte{1, 2, 3}}
	SilverRuling = Ruling{Rules: SilverRules, Attributes: [AttributesLen]byte{4}}
)

// under are settings with a rule set.
func UnderRules(rules string) *pb.Settings {
	return &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN, Rules: []byte(rules)}
}

// A request that has its claim gets it, whatever the rules are by now.
func TestRulingOfARepetition(t *testing.T) {
	w := WorldOf(t, UnderRules(GoldRules))
	d := w.Draft(0)
	user := w.Buyer(0)
	d.DecideClaim(GoldRuling, user, "key", 1, Demand{})
	if v := d.DecideClaim(SilverRuling, user, "key", 1, Demand{}); v.Kind != ReplayHere {
		t.Errorf("decision %d", v.Kind)
	}
	w.Commit(0, d)
	w.Plan(0, 0, UnderRules(SilverRules))
	if v := w.Draft(0).DecideClaim(GoldRuling, user, "key", 1, Demand{}); v.Kind != Replay {
		t.Errorf("decision %d", v.Kind)
	}
}
