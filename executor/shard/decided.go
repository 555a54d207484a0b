package shard

import (
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// answerOf returns the answer for a decision that the ledger's state alone determines.
func answerOf(shard int, s *ledger.State, user string, v ledger.Decision, now clock.Now) Answer {
	switch v.Kind {
	case ledger.Replay:
		claim := withFinalState(s, claimOf(shard, *v.Claim))
		return Answer{Outcome: claim.State, Claim: claim, Replayed: true}
	case ledger.KeyReused:
		return Answer{Outcome: api.KeyReused, Message: "this key was used for another quantity, or for other units"}
	case ledger.NoChoice:
		return Answer{Outcome: api.BadRequest, Message: "buyers of this sale cannot choose units: ask for a quantity alone"}
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

const overUnpaid = "As many claims of the user were cancelled or have expired as spec.payment.unpaidPerUser of the sale allows."

// notNow returns the answer to a request for which the sale is not open.
func notNow(s *ledger.State, why ledger.Refusal, now clock.Now) Answer {
	switch why {
	case ledger.RefusedPaused:
		return Answer{Outcome: api.Paused, RetryAfter: time.Second}
	case ledger.RefusedNotYet:
		opens := time.UnixMicro(s.Settings().GetOpensAtUs())
		return Answer{Outcome: api.NotOpen, OpensAt: opens, RetryAfter: opens.Sub(now.Wall)}
	}
	return Answer{Outcome: api.Closed}
}
