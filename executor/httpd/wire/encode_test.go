package wire

import (
	"encoding/json"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor"
)

// TestClaimIDs holds the written form of a claim's name against the executor's.
func TestClaimIDs(t *testing.T) {
	for _, id := range []executor.ClaimID{{}, {Shard: 1023, Slot: 1<<64 - 1, Index: 99999}, {Shard: 7, Unit: 123}} {
		var got struct{ Claim string }
		if err := json.Unmarshal(AppendClaim(nil, api.Sold, "movie", &executor.Claim{ID: id}), &got); err != nil {
			t.Fatal(err)
		}
		if got.Claim != id.String() {
			t.Errorf("claim %q, want %q", got.Claim, id)
		}
	}
}

// TestClaimsCostNothing holds the answer to a claim to no allocation, with names
// that need no quotes, where units are no packets.
func TestClaimsCostNothing(t *testing.T) {
	claim := &executor.Claim{ID: executor.ClaimID{Shard: 3, Slot: 17}, User: "u", Units: []int64{5, 7}, State: api.Sold, At: time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)}
	b := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { b = AppendClaim(b[:0], api.Sold, "movie", claim) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A page that has no refunds due says how many there are.
func TestPageWithoutRefundsDue(t *testing.T) {
	for want, books := range map[string]api.Books{
		`,"refundsDue":3`: {RefundsDue: 3}, "": {}, `,"refundDue":["p"],"refundsDue":3,"refundDueNext":"p"`: {RefundsDue: 3, RefundDue: []string{"p"}, RefundDueNext: "p"},
	} {
		if got := string(appendBooks(nil, books)); got != want {
			t.Errorf("%+v: %s, want %s", books, got, want)
		}
	}
}
