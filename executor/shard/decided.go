package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
)

// answerOf returns the answer for a decision that the ledger's state alone determines.
func answerOf(shard int, s *ledger.State, user string, v ledger.Decision, now clock.Now) request.Answer {
	switch v.Kind {
	case ledger.Replay:
		claim := withFinalState(s, claimOf(shard, *v.Claim))
		return request.Answer{Outcome: claim.State, Claim: claim, Replayed: true}
	case ledger.KeyReused:
		return request.Answer{Outcome: api.KeyReused, Message: "this key was used for another quantity, or for other units"}
	case ledger.NoChoice:
		return request.Answer{Outcome: api.BadRequest, Message: "buyers of this sale cannot choose units: claim a quantity only"}
	case ledger.OverLimit:
		return overLimit(shard, s, user)
	case ledger.OverUnpaid:
		a := overLimit(shard, s, user)
		a.Message = overUnpaid
		return a
	case ledger.NotNow:
		return notNow(s, v.Refusal, now)
	}
	panic("executor: no such decision")
}

const overUnpaid = "The user has as many cancelled and expired claims as spec.payment.unpaidPerUser of the sale allows."

// notNow returns the answer to a request for which the sale is not open.
func notNow(s *ledger.State, why ledger.Refusal, now clock.Now) request.Answer {
	switch why {
	case ledger.RefusedPaused:
		return request.Refusal(api.Paused)
	case ledger.RefusedNotYet:
		opens := time.UnixMicro(s.Settings().GetOpensAtUs())
		return request.Answer{Outcome: api.NotOpen, OpensAt: opens, RetryAfter: opens.Sub(now.Wall)}
	}
	return request.Answer{Outcome: api.Closed}
}

// initialState returns the state of a claim that is granted under these settings.
func initialState(s *pb.Settings) api.Outcome {
	switch {
	case s.GetDraw():
		return api.Entered
	case s.GetPayment() != nil:
		return api.Held
	}
	return api.Sold
}

// granted returns the claim that a commit in a slot has granted to a ticket.
func granted(shard int, t *request.Ticket, slot uint64, c *pb.Commit) request.Claim {
	op := c.GetOps()[t.Op].GetClaim()
	return request.Claim{
		ID:   request.ClaimID{Shard: shard, Slot: slot, Index: t.Op},
		User: t.User, Units: op.GetUnits(), Requested: int64(op.GetRequested()), State: t.Answer.Outcome,
		At: time.UnixMicro(c.GetTimeUs()), HeldUntil: ledger.Time(op.GetHeldUntilUs()),
	}
}

// claimOf returns a claim of the log.
func claimOf(shard int, c ledger.Claim) request.Claim {
	id := request.ClaimID{Shard: shard, Slot: c.Slot, Index: c.Index}
	if c.Grabbed {
		id = request.ClaimID{Shard: shard, Unit: c.Units[0]}
	}
	return request.Claim{
		ID: id, User: c.User, Units: c.Units, Requested: c.Requested,
		State: api.Outcome(c.State.String()), At: time.UnixMicro(c.TimeUs),
		HeldUntil: ledger.Time(c.HeldUntilUs),
	}
}

// claimWithBooks returns a claim of the log with its Books.
func claimWithBooks(shard int, c ledger.Claim) request.Claim {
	claim := claimOf(shard, c)
	if c.HeldUntilUs != 0 || c.SettledUs != 0 || len(c.RefundsDue) > 0 {
		claim.Books = &api.Books{
			SettledAt: ledger.Time(c.SettledUs), Who: c.Who, Why: c.Reason, Payment: c.Payment,
			Extended: c.Extended, Retired: c.Retired, RefundDue: c.RefundsDue, RefundsDue: c.RefundsDueTotal,
			Returned: returned(c.Returned),
		}
		if c.RefundsDueTotal > len(c.RefundsDue) {
			claim.Books.RefundDueNext = c.RefundsDue[0]
		}
	}
	return claim
}

// returned returns payments that were paid back.
func returned(payments []ledger.Returned) (returned []api.PaymentReturn) {
	for _, r := range payments {
		returned = append(returned, api.PaymentReturn{Payment: r.Payment, At: ledger.Time(r.TimeUs).UTC(), Who: r.Who, Why: r.Reason})
	}
	return returned
}

// withFinalState returns a claim with its state in s. An entry that has no unit when its sale is closed
// for good has won nothing.
func withFinalState(s *ledger.State, c request.Claim) request.Claim {
	if c.State == api.Entered && s.Phase == ledger.PhaseClosed {
		c.State = api.NotDrawn
	}
	return c
}

// noUnits returns the answer to a request when no shard has units.
func (b *SaleTotals) noUnits(now clock.Now) request.Answer {
	if b.AllSold(now) {
		return request.Answer{Outcome: api.SoldOut}
	}
	return request.Answer{Outcome: api.NoneNow, RetryAfter: max(b.release().Sub(now.Wall), time.Second)}
}

// overLimit returns the answer to a user who may have no more claims. It lists the user's newest claims,
// at most api.MaxListed, which have at most api.MaxQuantity units together or are one.
func overLimit(shard int, s *ledger.State, user string) request.Answer {
	newest, count := s.Newest(user, api.MaxListed)
	a, units := request.Answer{Outcome: api.LimitReached, Count: count}, 0
	for i, c := range slices.Backward(newest) {
		if units += len(c.Units); units > api.MaxQuantity && i < len(newest)-1 {
			break
		}
		a.Claims = append(a.Claims, withFinalState(s, claimOf(shard, c)))
	}
	slices.Reverse(a.Claims)
	return a
}
