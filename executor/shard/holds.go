package shard

import (
	"time"

	"salectl/backends/ledger"
)

// What others may see of the claims that wait for their payment.

// Hold is a claim that is held.
type Hold struct {
	Claim
	Release time.Time // when it expires: its deadline and the grace
}

// HoldsFrom looks at no more than most claims, in the order of their acceptance from the
// from-th on, and returns those that are held, and where to go on: at the same place if
// there were none. What has been looked at need not be again, since a claim is held from
// its first moment or never.
func (s *Shard) HoldsFrom(from, most int) (holds []Hold, next int) {
	s.state.RLock()
	defer s.state.RUnlock()
	state := s.seq.state
	end := min(from+most, state.Claims())
	for ; from < end; from++ {
		if c := state.Claim(from); c.State == ledger.StateHeld {
			holds = append(holds, s.hold(c))
		}
	}
	return holds, from
}

// Hold returns a claim as it stands, if it is held.
func (s *Shard) Hold(id ClaimID) (Hold, bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	c, ok := s.seq.state.ClaimAt(id.Slot, id.Index)
	if !ok || c.State != ledger.StateHeld {
		return Hold{}, false
	}
	return s.hold(c), true
}

func (s *Shard) hold(c ledger.Claim) Hold {
	return Hold{claimOf(s.seq.shard, c), ledger.Time(c.ReleaseUs())}
}
