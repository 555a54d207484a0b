package shard

import (
	"cmp"
	"slices"
	"sync"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
)

// ledgerView reads the log of a shard, as far as it was read. All methods are safe for concurrent use.
type ledgerView struct {
	// state guards the ledger's state of seq, which only events change. Claims are looked up under it
	// while the next commit is decided and appended. The rest of seq belongs to the goroutine that runs the shard.
	state sync.RWMutex
	seq   *sequencer
}

// Recall answers a request from memory, if the ledger's state decides it.
func (l *ledgerView) Recall(now clock.Now, r request.Request) (a request.Answer, ok bool) {
	l.state.RLock()
	defer l.state.RUnlock()
	ok = l.recall(now, &r, &a)
	return a, ok
}

// recall is Recall that sets the answer in a. It copies neither the request nor the answer: every claim calls it.
// The lock of the state is held.
func (l *ledgerView) recall(now clock.Now, r *request.Request, a *request.Answer) bool {
	state := l.seq.state
	if state.Settings() == nil {
		return false
	}
	v, ok := state.Recall(r.User, r.Key, r.Quantity, now.Wall.UnixMicro(), r.Demand())
	if ok {
		*a = answerOf(l.seq.shard, state, r.User, v, now)
	}
	return ok
}

// Holds returns the tally of the holds of the log. It has all holds since the log began, also those that
// another process has served.
func (l *ledgerView) Holds() ledger.HoldTally {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.seq.state.HoldTally()
}

// Lookup answers a query from what was read of the log. The answer has BadRequest if its cursor is
// invalid.
func (l *ledgerView) Lookup(q *request.Query) request.Answer {
	if q.User == "" {
		return l.lookupClaim(q.Claim, q.Page)
	}
	return l.lookupUser(q.User, q.Page)
}

// noCursor is the answer to a query with an invalid cursor.
var noCursor = request.Answer{Outcome: api.BadRequest, Message: "before: not a cursor of this list; use the one of the previous page, or none."}

// lookupUser returns a page of a user's claims.
func (l *ledgerView) lookupUser(user string, p api.Page) (a request.Answer) {
	var than request.ClaimID
	if p.Before != "" {
		var ok bool
		than, ok = api.ParseClaimID(p.Before)
		if !ok || than.Shard != l.seq.shard || than.Slot == 0 && than.Unit == 0 {
			return noCursor
		}
	}
	l.state.RLock()
	defer l.state.RUnlock()
	older, ok := l.seq.state.Backward(user, than.Slot, than.Index, than.Unit)
	if !ok {
		return noCursor
	}
	most, size := cmp.Or(p.Limit, api.DefaultClaims), int64(0)
	for c := range older {
		claim := withFinalState(l.seq.state, claimWithBooks(l.seq.shard, c))
		if size += claim.Size(); len(a.Claims) == most || size > request.PageBytes && len(a.Claims) > 0 {
			a.Next = a.Claims[len(a.Claims)-1].ID.String()
			break
		}
		a.Claims = append(a.Claims, claim)
	}
	slices.Reverse(a.Claims)
	return a
}

// lookupClaim returns a claim by its place in the log, or by the unit that a node granted, with a page of
// its refunds due.
func (l *ledgerView) lookupClaim(id request.ClaimID, p api.Page) request.Answer {
	l.state.RLock()
	defer l.state.RUnlock()
	c, ok := l.seq.state.ClaimAt(id.Slot, id.Index)
	if id.Unit != 0 {
		c, ok = l.seq.state.ClaimOfGrab(id.Unit)
	}
	if !ok || c.Grabbed != (id.Unit != 0) { // which has another name
		return request.Answer{Outcome: api.NoSuchClaim}
	}
	claim := claimWithBooks(l.seq.shard, c)
	if p != (api.Page{}) {
		due, back, more, ok := l.seq.state.RefundsDue(c.Slot, c.Index, p.Before, cmp.Or(p.Limit, api.DefaultRefunds))
		if !ok {
			return noCursor
		}
		if claim.Books != nil {
			claim.Books.RefundDue, claim.Books.RefundDueNext, claim.Books.Returned = due, "", returned(back)
			if more {
				claim.Books.RefundDueNext = due[0]
			}
		}
	}
	return request.Answer{Claim: withFinalState(l.seq.state, claim)}
}

// ledgerStatus returns the part of Status that follows from the log. It excludes the NodeQueue: that of a
// list calls Recall under its own lock, so a caller that locked the state first and the NodeQueue then
// would deadlock with it.
func (l *ledgerView) ledgerStatus() Status {
	l.state.RLock()
	defer l.state.RUnlock()
	st := l.seq.state
	v := Status{Report: Report{Shard: l.seq.shard, Next: st.Next(), Totals: st.Totals, Release: nextReleaseTime(st)}, Bytes: st.Bytes()}
	v.Owned = st.IsOwner(l.seq.me) // false while this process reads that another has taken the shard over
	v.Paid = st.Settings().GetPayment() != nil || st.HoldRecords() > 0 && !st.Settings().GetDraw()
	return v
}

// Terms returns the phase of the sale and its settings, as the shard's log has them.
func (l *ledgerView) Terms() (phase string, settings *pb.Settings) {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.seq.state.Phase, l.seq.state.Settings()
}

// Epoch returns the epoch of the shard's log: it grows whenever a process takes the shard over.
func (l *ledgerView) Epoch() uint64 {
	l.state.RLock()
	defer l.state.RUnlock()
	return l.seq.state.Epoch
}
