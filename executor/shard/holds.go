package shard

import (
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/request"
)

// What others may see of the claims that wait for their payment, or did.

// Hold is a claim that is held, or that was and has not been paid.
type Hold struct {
	request.Claim
	Release time.Time // when it expires, or would have: its deadline and the grace
}

// HoldsFrom reads up to most claims from the from-th on, in the order of their acceptance, or for a draw
// of their awards. It returns those that are held, and those that have expired or were cancelled and whose
// release is after since. next is the position of the next call; it equals from if there were no claims.
// Claims before it need not be read again: a claim is held from the moment at which it got its units, or
// never.
func (s *Shard) HoldsFrom(from, most int, since time.Time) (holds []Hold, next int) {
	s.state.RLock()
	defer s.state.RUnlock()
	state := s.seq.state
	end := min(from+most, state.ClaimsWithUnits())
	for ; from < end; from++ {
		if h, ok := s.unpaid(state.ClaimWithUnits(from)); ok && (h.State == api.Held || h.Release.After(since)) {
			holds = append(holds, h)
		}
	}
	return holds, from
}

// Unpaid returns the present state of a claim, if it is held, has expired or was cancelled.
func (s *Shard) Unpaid(id request.ClaimID) (Hold, bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	c, ok := s.seq.state.ClaimAt(id.Slot, id.Index)
	if !ok {
		return Hold{}, false
	}
	return s.unpaid(c)
}

func (s *Shard) unpaid(c ledger.Claim) (Hold, bool) {
	switch c.State {
	case ledger.StateHeld, ledger.StateExpired, ledger.StateCancelled:
		return Hold{claimOf(s.seq.shard, c), ledger.Time(c.ReleaseUs())}, true
	}
	return Hold{}, false
}
