package ledger

import (
	"crypto/sha256"
	"fmt"
	"sort"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// Rules are evaluated before a claim reaches the ledger, with what is known of its user. The
// ledger cannot repeat that. It ensures that each claim was admitted by the rule set in force
// at its place in the log, and stores what identifies the decision.

// AttributesLen is the length of the digest of what was known of a user, in bytes.
const AttributesLen = 16

// Ruling is the decision of the rules that admitted a claim. The zero Ruling means that there
// were no rules.
type Ruling struct {
	Rules      string // hash of the rule set, as in Settings
	Attributes [AttributesLen]byte
}

// checkRuling checks that a claim was admitted by the rule set in force, as far as the log can
// show that.
func checkRuling(settings *pb.Settings, op *pb.Claim) error {
	want := 0
	if len(settings.GetRules()) > 0 {
		want = AttributesLen
	}
	if len(op.GetAttributes()) != want {
		return fmt.Errorf("a claim with %d bytes of attributes, by the settings it has %d", len(op.GetAttributes()), want)
	}
	return nil
}

// rulable validates the rule set of settings.
func rulable(s *pb.Settings) error {
	if n := len(s.GetRules()); n != 0 && n != sha256.Size {
		return fmt.Errorf("a rule set is named by %d bytes, not %d", sha256.Size, n)
	}
	return nil
}

// rulings are the decisions that admitted the claims of a shard.
type rulings struct {
	sets       []ruleSet
	attributes chunked.List[[AttributesLen]byte] // by claim; shorter if the last claims were without rules
}

// ruleSet is a rule set in force from the slot after that of its generation.
type ruleSet struct {
	slot uint64
	hash string
}

// change records the rule set of the settings in a slot.
func (r *rulings) change(slot uint64, s *pb.Settings) {
	if hash := string(s.GetRules()); len(r.sets) == 0 && hash != "" || len(r.sets) > 0 && r.sets[len(r.sets)-1].hash != hash {
		r.sets = append(r.sets, ruleSet{slot, hash})
	}
}

// add records the attributes of a claim.
func (r *rulings) add(claim uint32, attributes []byte) {
	if len(attributes) == 0 {
		return
	}
	for uint32(r.attributes.Len()) < claim {
		r.attributes.Add([AttributesLen]byte{})
	}
	r.attributes.Add([AttributesLen]byte(attributes))
}

// of returns the ruling that admitted a claim in a slot.
func (r *rulings) of(claim uint32, slot uint64) (v Ruling) {
	i := sort.Search(len(r.sets), func(i int) bool { return r.sets[i].slot >= slot })
	if i == 0 || r.sets[i-1].hash == "" {
		return Ruling{}
	}
	return Ruling{r.sets[i-1].hash, *r.attributes.At(claim)}
}
