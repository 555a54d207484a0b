package shard

import (
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
)

// A hold counts also if a payment for the entry was recorded, and the holds were counted,
// before the entry got its unit.
func TestHoldOfAnEntryPaidEarly(t *testing.T) {
	w := drawWorld(t, &pb.Payment{HoldForUs: 2_000_000, Late: pb.Payment_REFUSE}, 1)
	h := w.serving("one")
	entry := h.enter(0, 1)[0]
	w.settle()
	early := h.settles(request.Settlement{Claim: entry.answer.Claim.ID, How: api.Confirm, Settlement: api.Settlement{Payment: "early"}})
	w.settle()
	early.want(t, "not_drawn")
	s := &Shard{ledgerView: ledgerView{seq: h.actors[0].q}}
	if got := s.Holds(); got.Count != 0 {
		t.Errorf("before the award %d holds have ended", got.Count)
	}
	w.pass(11 * time.Second)
	h.rank(reveal(t, w.logs, w.sale, 1))
	w.pass(10 * time.Second)
	if got := s.Holds(); got.Count != 1 || got.Seconds < 2 || got.Seconds > 3 {
		t.Errorf("%d holds have ended, after %v s together; want 1 after 2 s", got.Count, got.Seconds)
	}
}
