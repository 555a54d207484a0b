package ledger

import (
	"maps"
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// Holds returns the claims that are held, in the order of their acceptance.
func (s *State) Holds() []Claim {
	if s.Held == 0 {
		return nil
	}
	var holds []Claim
	for _, i := range slices.Sorted(maps.Keys(s.claims.heldUntil)) {
		if c := s.claims.at(i); c.State == StateHeld {
			holds = append(holds, c)
		}
	}
	return holds
}

// Expire ends a hold of the state whose deadline is not after the commit's time.
// It says whether it did: a hold that is not due, or is settled, stays as it is.
// The units can be claimed from here on, but for the draft's claims the hold
// still counts against its user's limit.
func (d *Draft) Expire(hold Claim) bool {
	if hold.State != StateHeld || hold.HeldUntilUs > d.commit.TimeUs {
		return false
	}
	for _, unit := range hold.Units {
		if d.available.Add(Range{unit, 1}) != nil {
			return false // it was ended here before
		}
	}
	d.totals.settle(int64(len(hold.Units)), StateExpired)
	d.addOther(&pb.Op{Op: &pb.Op_Settle{Settle: &pb.Settle{Slot: hold.Slot, Index: uint32(hold.Index), How: pb.Settle_EXPIRE}}})
	return true
}
