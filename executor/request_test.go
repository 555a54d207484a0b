package executor

import (
	"strings"
	"testing"

	"salectl/backends/ledger/payload"
	"salectl/executor/request"
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
	const most = request.PageBytes
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
