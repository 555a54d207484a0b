package shard

import (
	"cmp"
	"slices"

	"salectl/api"
)

// Lookup answers a query from what was read of the log. The answer has BadRequest if its cursor is
// invalid.
func (s *Shard) Lookup(q *Query) Answer {
	if q.User == "" {
		return s.lookupClaim(q.Claim, q.Page)
	}
	return s.lookupUser(q.User, q.Page)
}

// lookupUser returns a page of a user's claims.
func (s *Shard) lookupUser(user string, p api.Page) (a Answer) {
	var than ClaimID
	if p.Before != "" {
		var ok bool
		than, ok = ParseClaimID(p.Before)
		if !ok || than.Shard != s.seq.shard || than.Slot == 0 && than.Unit == 0 {
			return Answer{Outcome: api.BadRequest}
		}
	}
	s.state.RLock()
	defer s.state.RUnlock()
	older, ok := s.seq.state.Backward(user, than.Slot, than.Index, than.Unit)
	if !ok {
		return Answer{Outcome: api.BadRequest}
	}
	most, size := cmp.Or(p.Limit, api.DefaultClaims), int64(0)
	for c := range older {
		claim := asItStands(s.seq.state, lookedUp(s.seq.shard, c))
		if size += claim.Size(); len(a.Claims) == most || size > PageBytes && len(a.Claims) > 0 {
			a.Next = a.Claims[len(a.Claims)-1].ID.String()
			break
		}
		a.Claims = append(a.Claims, claim)
	}
	slices.Reverse(a.Claims)
	return a
}

// lookupClaim returns a claim by its place in the log, or by the unit that a node gave, with a page of
// its refunds due.
func (s *Shard) lookupClaim(id ClaimID, p api.Page) Answer {
	s.state.RLock()
	defer s.state.RUnlock()
	c, ok := s.seq.state.ClaimAt(id.Slot, id.Index)
	if id.Unit != 0 {
		c, ok = s.seq.state.ClaimOfGrab(id.Unit)
	}
	if !ok || c.Grabbed != (id.Unit != 0) { // which has another name
		return Answer{Outcome: api.NoSuchClaim}
	}
	claim := lookedUp(s.seq.shard, c)
	if p != (api.Page{}) {
		due, more, ok := s.seq.state.RefundsDue(c.Slot, c.Index, p.Before, cmp.Or(p.Limit, api.DefaultRefunds))
		if !ok {
			return Answer{Outcome: api.BadRequest}
		}
		if claim.Books != nil {
			claim.Books.RefundsDue, claim.Books.Next = due, ""
			if more {
				claim.Books.Next = due[0]
			}
		}
	}
	return Answer{Claim: asItStands(s.seq.state, claim)}
}
