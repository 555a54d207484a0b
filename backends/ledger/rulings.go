package ledger

import (
	"crypto/sha256"
	"fmt"
	"sort"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// Rules are evaluated before a claim comes here, by what is known of its user: the ledger
// cannot repeat that. It sees to it that each claim was let in by the rule set that is in
// force where it stands in the log, and keeps what names the decision.

// AttributesLen is the length of the digest of what was known of a user, in bytes.
const AttributesLen = 16

// Ruling is what the rules have decided on a claim that they let in. The zero Ruling is
// that of no rules.
type Ruling struct {
	Rules      string // hash of the rule set, as Settings have it
	Attributes [AttributesLen]byte
}

// ruled checks that a claim was let in by the rule set in force, as far as a log can say
// that.
func (s *State) ruled(op *pb.Claim) error {
	want := 0
	if len(s.settings.GetRules()) > 0 {
		want = AttributesLen
	}
	if len(op.GetAttributes()) != want {
		return fmt.Errorf("a claim with %d bytes of attributes, by the settings it has %d", len(op.GetAttributes()), want)
	}
	return nil
}

// rulable checks the rule set of settings.
func rulable(s *pb.Settings) error {
	if n := len(s.GetRules()); n != 0 && n != sha256.Size {
		return fmt.Errorf("a rule set is named by %d bytes, not %d", sha256.Size, n)
	}
	return nil
}

// rulings are what the claims of a shard were let in by.
type rulings struct {
	sets       []ruleSet
	attributes chunked.List[[AttributesLen]byte] // by claim; none where the last ones were without rules
}

// ruleSet is in force from the slot behind its generation.
type ruleSet struct {
	slot uint64
	hash string
}

// change takes in settings that a slot brings.
func (r *rulings) change(slot uint64, s *pb.Settings) {
	if hash := string(s.GetRules()); len(r.sets) == 0 && hash != "" || len(r.sets) > 0 && r.sets[len(r.sets)-1].hash != hash {
		r.sets = append(r.sets, ruleSet{slot, hash})
	}
}

// add takes in the attributes of a claim.
func (r *rulings) add(claim uint32, attributes []byte) {
	if len(attributes) == 0 {
		return
	}
	for uint32(r.attributes.Len()) < claim {
		r.attributes.Add([AttributesLen]byte{})
	}
	r.attributes.Add([AttributesLen]byte(attributes))
}

// of returns what a claim of a slot was let in by.
func (r *rulings) of(claim uint32, slot uint64) (v Ruling) {
	i := sort.Search(len(r.sets), func(i int) bool { return r.sets[i].slot >= slot })
	if i == 0 || r.sets[i-1].hash == "" {
		return Ruling{}
	}
	return Ruling{r.sets[i-1].hash, *r.attributes.At(claim)}
}
