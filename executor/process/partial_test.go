package process_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
)

// A process gives the last units of a sale to whoever asks for more, tells both numbers,
// also to whoever asks again after another process has taken the sale over, and stops
// when the sale is not partial any more.
func TestPartialClaims(t *testing.T) {
	w := newSteppedWorldOf(t, 1, 9, 2, 3)
	w.process("first")
	replan := func(partial bool) {
		saletest.Replan(t, w.logs, "stepped", func(p *pb.Planned) { p.Settings.Partial = partial })
	}
	replan(true)
	s := w.serving()
	w.pass(3 * time.Second) // the generation comes to the shards
	claim := func(user, key string, quantity int64) string {
		t.Helper()
		var a Answer
		there := false
		s.input(func() {
			s.p.Begin(s.now(), Request{User: user, Key: key, Quantity: quantity}, func(got Answer) { a, there = got, true })
		})
		w.runUntil("there is an answer", func() bool { return there })
		again := ""
		if a.Replayed {
			again = " again"
		}
		return fmt.Sprintf("%s %d of %d%s", a.Outcome, len(a.Claim.Units), a.Claim.Requested, again)
	}
	want := func(got string, want ...string) {
		t.Helper()
		if !slices.Contains(want, got) {
			t.Errorf("at %v: %s, want %q", w.at, got, want)
		}
	}
	want(claim("ann", "1", 4), "sold 4 of 0")
	replan(false)
	w.pass(3 * time.Second)
	want(claim("bob", "1", 2), "none_now 0 of 0")
	replan(true)
	w.pass(3 * time.Second)
	want(claim("bob", "2", 7), "sold 1 of 7")
	want(claim("bob", "2", 7), "sold 1 of 7 again")
	want(claim("bob", "2", 1), string(api.KeyReused)+" 0 of 0")
	want(claim("eve", "1", 7), "sold_out 0 of 0")
	replan(false)
	w.pass(3 * time.Second)
	want(claim("bob", "2", 7), "sold 1 of 7 again")
	s.die()
	w.process("second")
	s = w.serving()
	w.pass(3 * time.Second)
	want(claim("bob", "2", 7), "sold 1 of 7 again")
	want(claim("bob", "2", 1), string(api.KeyReused)+" 0 of 0")
}
