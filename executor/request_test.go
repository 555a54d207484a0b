package executor

import (
	"strings"
	"testing"

	"salectl/api"

	"salectl/backends/ledger/payload"
	"salectl/executor/shard"
	"salectl/spec"
)

// TestPageWithPayloads: a page whose payloads are too large for it ends sooner, at the cursor of the
// claims that it leaves out. One claim always fits.
func TestPageWithPayloads(t *testing.T) {
	claims := func(sizes ...int) (all []Claim) {
		for i, n := range sizes {
			all = append(all, Claim{ID: ClaimID{Shard: 3, Slot: uint64(i) + 1}, Payloads: []payload.Fields{{Values: []string{strings.Repeat("x", n)}}}})
		}
		return all
	}
	const most = shard.PageBytes
	for name, c := range map[string]struct {
		claims []Claim
		left   int
		next   string
	}{
		"none":              {nil, 0, "3-9-0"},
		"all fit":           {claims(1, 2, 3), 3, "3-9-0"},
		"the newest two":    {claims(1, most, most/4, most/4), 2, "3-3-0"},
		"one that is large": {claims(1, 2*most), 1, "3-2-0"},
	} {
		a := Answer{Claims: c.claims, Next: "3-9-0"}
		shorten(&a)
		if len(a.Claims) != c.left || a.Next != c.next {
			t.Errorf("%s: %d claims are left, and the next page ends before %s", name, len(a.Claims), a.Next)
		}
	}
}

// TestLookupIsCompleted: the answer to a query of one claim has the amounts of its packets, and an entry
// without a rank is not drawn, as in the answers to claims and to queries of users.
func TestLookupIsCompleted(t *testing.T) {
	packets := new(spec.Packets)
	s := &session{packets: func() *spec.Packets { return packets }}
	s.ranks.Store(&ranks{has: map[ClaimID]bool{{Slot: 1}: true}})
	for name, c := range map[string]struct {
		answer  Answer
		packets bool
		outcome api.Outcome
		state   api.Outcome
	}{
		"a claim":               {Answer{Claim: Claim{User: "ann", State: api.Sold}}, true, "", api.Sold},
		"an entry with a rank":  {Answer{Claim: Claim{User: "ann", ID: ClaimID{Slot: 1}, State: api.Entered}}, true, "", api.Entered},
		"an entry without":      {Answer{Claim: Claim{User: "ann", ID: ClaimID{Slot: 2}, State: api.Entered}}, true, "", api.NotDrawn},
		"a claim that it makes": {Answer{Outcome: api.Entered, Claim: Claim{User: "ann", ID: ClaimID{Slot: 2}, State: api.Entered}}, false, api.NotDrawn, api.NotDrawn},
		"no claim":              {Answer{Outcome: api.NoSuchClaim}, false, api.NoSuchClaim, ""},
	} {
		a := c.answer
		s.completeAnswer(&a)
		if (a.Claim.Packets == packets) != c.packets || a.Outcome != c.outcome || a.Claim.State != c.state {
			t.Errorf("%s: %q, %q, packets %v", name, a.Outcome, a.Claim.State, a.Claim.Packets != nil)
		}
	}
}
