package shard

import (
	"cmp"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/request"
)

// Settlements of accepted claims, and the expiry of holds that are not paid.

// expireAtOnce bounds the holds that one commit ends: it has room for claims beside them.
const expireAtOnce = 8192

// expire ends the holds whose release has come. More of them than fit into a commit wait
// for the next.
func expire(s *ledger.State, d *ledger.Draft) {
	for _, hold := range s.Due(d.TimeUs(), expireAtOnce) {
		if d.Expire(hold).Kind == ledger.SettleFull {
			return
		}
	}
}

// nextReleaseTime returns when the next hold is to end; zero: none is.
func nextReleaseTime(s *ledger.State) time.Time {
	release, _ := s.NextDue()
	return ledger.Time(release)
}

// settle decides a settlement of a claim of a shard.
func settle(shard int, d *ledger.Draft, t *request.Ticket) decision {
	x, v, owed := t.Settle, ledger.Settlement{}, false
	claim := ledger.Claim{Slot: x.Claim.Slot, Index: x.Claim.Index}
	switch x.How {
	case api.Confirm:
		v, owed = confirm(d, claim, x.Payment)
	case api.Extend:
		v = d.Extend(claim)
	case api.Cancel:
		v = d.Cancel(claim, x.Who, x.Reason)
	case api.Refund:
		v = d.Refund(claim, x.Who, x.Reason, x.Retire)
	case api.Return:
		v = d.Return(claim, x.Payment, x.Who, x.Reason)
	}
	if v.Kind == ledger.SettleFull {
		return full
	}
	outcome := cmp.Or(settlementOutcomes[v.Kind], api.NoSuchClaim)
	if v.Kind == ledger.SettleDone || v.Kind == ledger.SettleAlready {
		outcome = x.How.Done()
	}
	t.Answer = request.Answer{Outcome: outcome, Replayed: v.Kind == ledger.SettleAlready, RefundDue: owed}
	if v.Claim.User != "" {
		t.Answer.Claim = claimWithBooks(shard, v.Claim)
	}
	return decided
}

// namesUnreadSlot reports whether one of the batch names a claim of a slot from next on. Only a commit can
// prove that there is none: another process may own the shard by now and have granted that claim, if the
// clocks of lock nodes were set and they have given the lease away too early.
func (r *requests) namesUnreadSlot(next uint64) bool {
	return slices.ContainsFunc(r.batch, func(t *request.Ticket) bool { return t.Settle != nil && t.Settle.Claim.Slot >= next })
}

// confirm decides a payment. A payment that comes too late still buys the claim if the settings and the
// units allow it; otherwise it is recorded as owed back.
func confirm(d *ledger.Draft, claim ledger.Claim, payment string) (v ledger.Settlement, owed bool) {
	v = d.Confirm(claim, payment)
	switch v.Kind {
	case ledger.SettleExpired, ledger.SettleCancelled, ledger.SettleRefunded, ledger.SettleSold, ledger.SettleEntered:
		late := d.Late(claim, payment)
		if owed = late.Kind == ledger.SettleRefundDue; owed {
			v.Claim = late.Claim
			return v, true
		}
		return late, false
	}
	return v, false
}

// settlementOutcomes are the outcomes of settlements of a claim in another state than the settlement requires.
var settlementOutcomes = map[ledger.SettlementKind]api.Outcome{
	ledger.SettleHeld:        api.NotSold,
	ledger.SettleSold:        api.NotHeld,
	ledger.SettleExpired:     api.Expired,
	ledger.SettleCancelled:   api.Cancelled,
	ledger.SettleRefunded:    api.Refunded,
	ledger.SettleEntered:     api.NotDrawn,
	ledger.SettleNotDue:      api.NotDue,
	ledger.SettleNoExtension: api.NoExtension,
}
