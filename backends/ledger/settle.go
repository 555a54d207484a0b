package ledger

import (
	"fmt"
	"slices"
	"unicode/utf8"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Limits of the texts of a Settle, in bytes of UTF-8.
const (
	MaxPayment = 255
	MaxWho     = 255
	MaxReason  = 1023
)

// SettlementKind is the outcome of an op that settles a claim.
type SettlementKind int

// The kinds of settlements. After the first two the claim is in the requested state. After
// SettleDone and SettleRefundDue an op may have been added to the draft, after the others
// none was.
const (
	SettleDone        SettlementKind = iota
	SettleAlready                    // it was settled the same way before, in the log or in this draft
	SettleHeld                       // the claim is held, and its release is in the future
	SettleSold                       // the claim is sold; for Confirm: by another payment
	SettleExpired                    // the claim has expired, or is past its release
	SettleCancelled                  // the claim was cancelled
	SettleRefunded                   // the claim was refunded
	SettleRefundDue                  // the payment bought nothing and is recorded as a refund due
	SettleNotDue                     // the payment is not owed back
	SettleNoExtension                // the settings do not extend holds
	SettleEntered                    // the claim is an entry without units; for Award: it cannot be given one now
	SettleShort                      // for Award: no unit is available
	SettleFull                       // the commit has its maximum size: retry in the next one
	SettleInvalid                    // there is no such claim, it is a grab, its units are in two places, or a text is too long or not UTF-8
)

// claimStatus is the state of a claim that the verdict on an op depends on.
type claimStatus struct {
	state     ClaimState
	releaseUs int64 // of a hold
	extended  bool
	grabbed   bool
	another   bool // another payment has bought the claim, or none was needed
	refundDue bool // this payment is recorded as a refund due
	returned  bool // and was paid back
}

// verdict returns the outcome of an op in a commit at timeUs. SettleDone permits the op,
// except that a RESELL also needs units and a user below the limit. It is the only
// implementation of how claims end, for reducer and draft.
func (s *State) verdict(how pb.Settle_How, at claimStatus, timeUs int64) SettlementKind {
	open := at.state == StateHeld && timeUs < at.releaseUs
	payment := s.settings.GetPayment()
	switch {
	case at.grabbed:
		return SettleInvalid
	case how == pb.Settle_REFUND_DUE:
		return due(at, open)
	case how == pb.Settle_RETURNED && at.returned:
		return SettleAlready
	case how == pb.Settle_RETURNED && at.refundDue:
		return SettleDone
	case how == pb.Settle_RETURNED:
		return SettleNotDue
	case at.state == StateEntered:
		if how == pb.Settle_AWARD && s.entries != nil && s.settings.GetPhase() != pb.Phase_CLOSED {
			return SettleDone
		}
		return SettleEntered
	case how == pb.Settle_EXTEND && open && at.extended:
		return SettleAlready
	case how == pb.Settle_EXTEND && open && payment.GetExtendByUs() == 0:
		return SettleNoExtension
	case how == pb.Settle_RESELL && at.state == StateExpired && at.refundDue:
		return SettleRefundDue // it may have been paid back already
	case how == pb.Settle_CONFIRM && open, how == pb.Settle_EXTEND && open,
		how == pb.Settle_CANCEL && at.state == StateHeld,
		how == pb.Settle_EXPIRE && at.state == StateHeld && !open,
		how == pb.Settle_REFUND && at.state == StateSold,
		// In a draw a freed unit belongs to the next rank.
		how == pb.Settle_RESELL && at.state == StateExpired && payment.GetLate() == pb.Payment_RESELL && !s.settings.GetDraw():
		return SettleDone
	}
	return already(how, at, open)
}

// due returns the verdict on recording a refund due.
func due(at claimStatus, open bool) SettlementKind {
	switch {
	case at.state == StateRefunded && !at.another:
		return SettleRefunded // its refund has recorded the payment
	case at.refundDue:
		return SettleRefundDue
	case at.state == StateHeld, at.state == StateSold && !at.another:
		return already(pb.Settle_CONFIRM, at, open)
	}
	return SettleDone
}

// already returns the verdict on an op that leaves nothing to do, by the state of the claim.
func already(how pb.Settle_How, at claimStatus, open bool) SettlementKind {
	pays := how == pb.Settle_CONFIRM || how == pb.Settle_RESELL
	switch at.state {
	case StateSold:
		if pays && !at.another {
			return SettleAlready
		}
		return SettleSold
	case StateCancelled:
		if how == pb.Settle_CANCEL {
			return SettleAlready
		}
		return SettleCancelled
	case StateExpired:
		if how == pb.Settle_EXPIRE {
			return SettleAlready
		}
		return SettleExpired
	case StateRefunded:
		if how == pb.Settle_REFUND {
			return SettleAlready
		}
		return SettleRefunded
	}
	if open {
		return SettleHeld
	}
	return SettleExpired
}

// settle applies a Settle op. Ops that end or extend a hold have no effect once it has
// ended: the first one counts. Ops that were never possible for the claim are rejected.
func (s *State) settle(c *pb.Commit, op *pb.Settle) error {
	i, ok := s.claims.locate(op.GetSlot(), int(op.GetIndex()))
	if !ok {
		return fmt.Errorf("no claim stands at slot %d, op %d", op.GetSlot(), op.GetIndex())
	}
	if pb.Settle_How_name[int32(op.GetHow())] == "" || op.GetHow() == pb.Settle_HOW_UNSPECIFIED {
		return fmt.Errorf("a claim is settled in a way that is not known: %d", op.GetHow())
	}
	if !settleTexts(op) {
		return fmt.Errorf("a payment, name or reason of more than %d, %d or %d bytes", MaxPayment, MaxWho, MaxReason)
	}
	at := s.claims.status(i, op.GetPayment())
	switch v := s.verdict(op.GetHow(), at, c.GetTimeUs()); {
	case v == SettleDone:
		return s.settled(c, i, op)
	case v == SettleEntered:
		return fmt.Errorf("%v of an entry, which has no units", op.GetHow())
	case v == SettleAlready, op.GetHow() == pb.Settle_AWARD, v == SettleRefundDue && op.GetHow() == pb.Settle_REFUND_DUE, effectOf(op).ofHold && at.state != StateHeld:
		return nil
	}
	return fmt.Errorf("%v of a claim that is %v%s", op.GetHow(), at.state, why(op, at, c.GetTimeUs()))
}

// effect is the effect of an op that settles a claim.
type effect struct {
	ofHold bool       // it is possible for a hold alone, and has no effect once that has ended
	state  ClaimState // of the claim from then on
	pays   bool       // the payment of the op buys the claim
	units  int64      // 1: the user gets the units of the op; -1: loses those of the claim; 0: neither
	unpaid int64      // change of the number of the user's cancelled and expired claims
}

var effects = [...]effect{
	pb.Settle_CONFIRM:    {ofHold: true, state: StateSold, pays: true},
	pb.Settle_CANCEL:     {ofHold: true, state: StateCancelled, units: -1, unpaid: 1},
	pb.Settle_EXPIRE:     {ofHold: true, state: StateExpired, units: -1, unpaid: 1},
	pb.Settle_EXTEND:     {ofHold: true, state: StateHeld},
	pb.Settle_REFUND:     {state: StateRefunded, units: -1},
	pb.Settle_RESELL:     {state: StateSold, pays: true, units: 1, unpaid: -1},
	pb.Settle_REFUND_DUE: {}, // the state stays
	pb.Settle_AWARD:      {state: StateSold, units: 1},
	pb.Settle_RETURNED:   {}, // the state stays
}

// effectOf returns the effect of an op.
func effectOf(op *pb.Settle) effect {
	e := effects[op.GetHow()]
	if op.GetHow() == pb.Settle_AWARD && op.GetHeldUntilUs() != 0 {
		e.state = StateHeld
	}
	return e
}

// frees reports whether an op makes the units of its claim available.
func frees(op *pb.Settle) bool {
	return effects[op.GetHow()].units < 0 && !(op.GetHow() == pb.Settle_REFUND && op.GetRetire())
}

// owes reports whether the payment of an op is owed back from then on.
func owes(op *pb.Settle) bool {
	return op.GetHow() == pb.Settle_REFUND_DUE || op.GetHow() == pb.Settle_REFUND && op.GetPayment() != ""
}

// why returns the rest of the error for a rejected op.
func why(op *pb.Settle, at claimStatus, timeUs int64) string {
	switch {
	case at.grabbed:
		return ", from a list"
	case at.state == StateHeld:
		return fmt.Sprintf(", at %d, to be released at %d", timeUs, at.releaseUs)
	case op.GetHow() == pb.Settle_RESELL && at.refundDue:
		return ", by a payment whose refund is due"
	case op.GetHow() == pb.Settle_RETURNED:
		return ", of a payment that is not owed back"
	case op.GetHow() == pb.Settle_RESELL:
		return ", which the settings refuse"
	}
	return ""
}

func settleTexts(op *pb.Settle) bool {
	return len(op.GetPayment()) <= MaxPayment && len(op.GetWho()) <= MaxWho && len(op.GetReason()) <= MaxReason
}

func utf8Texts(op *pb.Settle) bool {
	return utf8.ValidString(op.GetPayment()) && utf8.ValidString(op.GetWho()) && utf8.ValidString(op.GetReason())
}

// settled applies an op that the verdict permits.
func (s *State) settled(c *pb.Commit, i uint32, op *pb.Settle) error {
	var err error
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		if until := s.holds.of(i).heldUntil + s.settings.GetPayment().GetExtendByUs(); op.GetHeldUntilUs() != until {
			err = fmt.Errorf("a hold is extended to %d, by the settings it is to %d", op.GetHeldUntilUs(), until)
		}
	case pb.Settle_RESELL:
		err = s.checkResale(c, i, op)
	case pb.Settle_AWARD:
		err = s.checkAward(c, op)
	case pb.Settle_REFUND:
		err = s.checkRefund(i, op)
	}
	if err != nil {
		return err
	}
	var freed []int64
	if frees(op) {
		freed = s.claims.units(i)
	}
	err = s.holdings.settle(op, int64(s.claims.records.At(i).count), freed)
	s.claims.settle(i, s.next, op)
	return err
}

// checkRefund checks the REFUND of a claim.
func (s *State) checkRefund(i uint32, op *pb.Settle) error {
	paid := ""
	if d := s.holds.of(i); d != nil {
		paid = s.claims.text.get(d.payment)
	}
	switch {
	case op.GetPayment() != paid:
		return fmt.Errorf("a refund of payment %q of a claim that payment %q has bought", op.GetPayment(), paid)
	case !op.GetRetire() && s.settings.GetSecret():
		return fmt.Errorf("a refund makes units available whose secret the buyer has received")
	}
	return nil
}

// checkResale checks the RESELL of a late payment.
func (s *State) checkResale(c *pb.Commit, i uint32, op *pb.Settle) error {
	r := s.claims.records.At(i)
	n, had := int64(len(op.GetUnits())), s.users.records.At(r.user).units
	own := s.claims.units(i)
	switch {
	case !s.IsOwner(c.GetWriter()):
		return fmt.Errorf("a claim is resold by a writer that is not the owner")
	case n != int64(r.count):
		return fmt.Errorf("a claim of %s is resold with %d", spec.Count(int64(r.count), "unit"), n)
	case n > s.settings.GetPerUserLimit()-had:
		return fmt.Errorf("a claim is resold to a user who has %s and may not have %d more", spec.Count(had, "unit"), n)
	case !slices.Equal(op.GetUnits(), own) && s.available.hasEach(own):
		return fmt.Errorf("a claim is resold with other units than its own, which are available")
	}
	return nil
}
