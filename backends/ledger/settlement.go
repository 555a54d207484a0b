package ledger

import (
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// Settlement is the answer of a draft to a request to settle a claim. Claim is the claim once the draft is
// appended. It is zero for SettleInvalid if there is no such claim.
type Settlement struct {
	Kind  SettlementKind
	Claim Claim
}

// The methods below take a claim of the draft's state, of which they use only Slot and Index.
// They take into account what the draft has settled before: freed units can be claimed from
// then on, and no longer count against their user's limit. A settlement takes effect only once
// the commit is appended. After a new generation in the draft all methods return SettleFull,
// as claims return Full.

// Confirm sells a hold for a payment, whose reference may be "". It is possible until the
// release of the hold: its deadline plus the grace. SettleSold means that another payment
// has bought the claim: Late records this one as a refund due.
func (draft *Draft) Confirm(c Claim, payment string) Settlement {
	return draft.settle(c, &pb.Settle{How: pb.Settle_CONFIRM, Payment: payment})
}

// Cancel cancels a hold.
func (draft *Draft) Cancel(c Claim, who, reason string) Settlement {
	return draft.settle(c, &pb.Settle{How: pb.Settle_CANCEL, Who: who, Reason: reason})
}

// Expire ends a hold whose release is not after the commit's time.
func (draft *Draft) Expire(c Claim) Settlement {
	return draft.settle(c, &pb.Settle{How: pb.Settle_EXPIRE})
}

// Extend sets the later deadline that the settings grant for a hold, once, before its release.
func (draft *Draft) Extend(c Claim) Settlement {
	_, now, _ := draft.changes.current(c)
	until := now.HeldUntilUs + draft.state.settings.GetPayment().GetExtendByUs()
	return draft.settle(c, &pb.Settle{How: pb.Settle_EXTEND, HeldUntilUs: until})
}

// Refund reverses a sold claim. Its units become available again or, with retire or secret
// units, leave the sale, which lowers the limit of the shard. The payment that bought it is
// owed back from then on.
func (draft *Draft) Refund(c Claim, who, reason string, retire bool) Settlement {
	retire = retire || draft.state.settings.GetSecret()
	_, now, _ := draft.changes.current(c)
	return draft.settle(c, &pb.Settle{How: pb.Settle_REFUND, Payment: now.Payment, Who: who, Reason: reason, Retire: retire})
}

// Return records that a payment was paid back. SettleNotDue means that it is not owed back.
func (draft *Draft) Return(c Claim, payment, who, reason string) Settlement {
	return draft.settle(c, &pb.Settle{How: pb.Settle_RETURNED, Payment: payment, Who: who, Reason: reason})
}

// Late records a payment that Confirm refused: for a claim that has expired, was cancelled
// or refunded, or was bought by another payment. Where the settings resell, an expired
// claim is sold after all, with its own units or, if one of them is taken, with others
// (SettleDone). The user's limit must allow it, and the draft's writer must be the owner.
// Otherwise the payment is recorded as a refund due (SettleRefundDue, also if it was before).
// A hold whose release is past expires first; one that may be confirmed is SettleHeld.
func (draft *Draft) Late(c Claim, payment string) Settlement {
	n, now, _ := draft.changes.current(c)
	if now.State == StateHeld {
		if v := draft.Expire(c); v.Kind != SettleDone {
			return v
		}
		now = draft.changes.settled[n]
	}
	op := &pb.Settle{How: pb.Settle_REFUND_DUE, Payment: payment}
	if draft.resells(n, now, payment) {
		op.How, op.Units = pb.Settle_RESELL, now.Units
		if !draft.after.available.hasEach(now.Units) {
			op.Units = draft.after.available.lowest(int64(len(now.Units)))
		}
	}
	v := draft.settle(c, op)
	if v.Kind == SettleDone && op.How == pb.Settle_REFUND_DUE {
		v.Kind = SettleRefundDue
	}
	return v
}

// resells reports whether a late payment buys a claim after all.
func (draft *Draft) resells(n uint32, now Claim, payment string) bool {
	if draft.state.verdict(pb.Settle_RESELL, draft.changes.status(n, now, payment), draft.commit.TimeUs) != SettleDone {
		return false
	}
	user := draft.state.claims.records.At(n).user
	left := draft.state.settings.GetPerUserLimit() - draft.state.users.records.At(user).units - draft.changes.users[now.User].units
	return int64(len(now.Units)) <= min(left, draft.after.Available)
}

// settle adds an op if the verdict permits it.
func (draft *Draft) settle(c Claim, op *pb.Settle) Settlement {
	n, now, ok := draft.changes.current(c)
	if !ok || !settleTexts(op) || !utf8Texts(op) {
		return Settlement{SettleInvalid, now}
	}
	size := 64 + len(op.Payment) + len(op.Who) + len(op.Reason) + 10*len(op.Units)
	if draft.size >= MaxEntry {
		return Settlement{SettleFull, now}
	}
	v := draft.state.verdict(op.How, draft.changes.status(n, now, op.Payment), draft.commit.TimeUs)
	if v == SettleDone && draft.size+size > entryBudget {
		v = SettleFull
	}
	if v != SettleDone {
		return Settlement{v, now}
	}
	op.Slot, op.Index = now.Slot, uint32(now.Index)
	var freed []int64
	if frees(op) {
		freed = now.Units
	}
	if draft.after.settle(op, int64(len(now.Units)), freed) != nil {
		return Settlement{SettleInvalid, now} // a damaged ledger may have units in two places
	}
	now.settle(op, draft.commit.TimeUs)
	if e := effectOf(op); e.units != 0 {
		sum := draft.changes.users[now.User]
		sum.units, sum.unpaid = sum.units+e.units*int64(len(now.Units)), sum.unpaid+e.unpaid
		draft.changes.users[now.User] = sum
	}
	draft.changes.settled[n] = now
	if owes(op) || op.How == pb.Settle_RETURNED {
		draft.changes.refundsDue[refundDue{n, op.Payment}] = op.How == pb.Settle_RETURNED
	}
	draft.size += size
	draft.commit.Ops = append(draft.commit.Ops, &pb.Op{Op: &pb.Op_Settle{Settle: op}})
	return Settlement{SettleDone, now}
}

// settle applies an op of a commit at timeUs to the claim.
func (c *Claim) settle(op *pb.Settle, timeUs int64) {
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		c.Extended, c.HeldUntilUs = true, op.GetHeldUntilUs()
		return
	case pb.Settle_RETURNED:
		if slices.Contains(c.RefundsDue, op.GetPayment()) {
			c.Returned = append(slices.Clip(c.Returned), Returned{op.GetPayment(), timeUs, op.GetWho(), op.GetReason()})
		}
		return
	case pb.Settle_RESELL:
		c.Units = op.GetUnits()
	case pb.Settle_AWARD:
		c.Units, c.HeldUntilUs, c.GraceUs = op.GetUnits(), op.GetHeldUntilUs(), op.GetGraceUs()
	case pb.Settle_REFUND:
		c.Retired = op.GetRetire()
	}
	if owes(op) {
		c.RefundsDue = append(slices.Clip(c.RefundsDue[max(0, len(c.RefundsDue)+1-mostDue):]), op.GetPayment())
		c.RefundsDueTotal++
	}
	if op.GetHow() == pb.Settle_REFUND_DUE {
		return
	}
	e := effectOf(op)
	if c.State = e.state; e.pays {
		c.Payment = op.GetPayment()
	}
	c.SettledUs, c.Who, c.Reason = timeUs, op.GetWho(), op.GetReason()
}
