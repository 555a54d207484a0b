package ledger

import (
	"slices"

	pb "salectl/backends/ledger/ledgerpb"
)

// holdRecord is kept beside the claimRecord of a claim that was held or refunded, or that has a payment
// owed back. A claim that was just sold has none, so a sale without holds needs no memory for them. Like
// claimRecord it has no pointers.
type holdRecord struct {
	heldUntil int64 // deadline; 0: never held
	grace     int64
	payment   text // reference of the payment that bought the claim
	who       text
	reason    text
	claim     uint32
	settled   uint32 // the slot of the last op that changed the claim's state, +1
	ended     uint32 // slot of the op that ended its hold, +1; 0: it is held, or never was
	owed      uint32 // newest payment that bought nothing, +1
	due       uint32 // number of payments that bought nothing
	queued    uint32 // position in the queue of holds, +1; 0: not held any more
	awarded   uint32 // slot of the AWARD that began its hold, +1; 0: the hold began with the claim
	extended  bool
	retired   bool
}

// owedRecord is a payment that bought nothing.
type owedRecord struct {
	payment text
	claim   uint32
	prev    uint32 // previous payment of the same claim, +1
}

// mostDue is the maximum number of refunds due returned with a claim where not all are needed: a
// payment service may use a new reference for each attempt.
const mostDue = 10

// owedHash returns the hash of a claim and a payment.
func (c *claims) owedHash(i uint32, payment string) uint64 {
	return (uint64(i)*0x9e3779b97f4a7c15 ^ c.hash(payment)) & c.mask
}

// findOwed returns the index of a payment that is owed back for a claim.
func (c *claims) findOwed(i uint32, payment string) (at uint32, ok bool) {
	return c.byOwed.find(c.owedHash(i, payment), func(at uint32) bool {
		o := c.owed.At(at)
		return o.claim == i && c.text.equal(o.payment, payment)
	})
}

// owes reports whether a payment is owed back for a claim.
func (c *claims) owes(i uint32, payment string) bool {
	_, ok := c.findOwed(i, payment)
	return ok
}

// dueFrom returns the payment with index o-1 and those before it of the same claim, at most most, in
// their order. more reports whether there are older ones.
func (c *claims) dueFrom(o uint32, most int) (due []string, more bool) {
	for ; o != 0 && len(due) < most; o = c.owed.At(o - 1).prev {
		due = append(due, c.text.get(c.owed.At(o-1).payment))
	}
	slices.Reverse(due)
	return due, o != 0
}

// holdRecord returns the hold record of a claim; nil: the claim has none.
func (c *claims) holdRecord(i uint32) *holdRecord {
	at, ok := c.findHoldRecord(i)
	if !ok {
		return nil
	}
	return c.holdRecords.At(at)
}

func (c *claims) findHoldRecord(i uint32) (at uint32, ok bool) {
	return c.byClaim.find(uint64(i), func(at uint32) bool { return c.holdRecords.At(at).claim == i })
}

// holdRecordOf returns the index of a claim's hold record. It adds one if there is none.
func (c *claims) holdRecordOf(i uint32) uint32 {
	at, ok := c.findHoldRecord(i)
	if !ok {
		at = c.newHoldRecord(holdRecord{claim: i})
	}
	return at
}

// newHoldRecord adds the hold record of a claim that has none.
func (c *claims) newHoldRecord(d holdRecord) uint32 {
	at := c.holdRecords.Add(d)
	c.byClaim.add(uint64(d.claim), at)
	return at
}

// heldUntil returns the deadline of a claim, 0 if it was never held.
func (c *claims) heldUntil(i uint32) int64 {
	if d := c.holdRecord(i); d != nil {
		return d.heldUntil
	}
	return 0
}

// standing returns the state of a claim in relation to a payment.
func (c *claims) standing(i uint32, payment string) standing {
	at := standing{state: c.records.At(i).state(), grabbed: int(i) < len(c.granted)}
	at.another = payment != "" // a claim that was never held was bought by none
	if d := c.holdRecord(i); d != nil {
		at.releaseUs, at.extended = d.heldUntil+d.grace, d.extended
		if paid := c.text.bytes(d.payment); d.heldUntil != 0 {
			at.another = len(paid) > 0 && payment != "" && string(paid) != payment
		}
		at.owed = d.owed != 0 && c.owes(i, payment)
	}
	return at
}

// settle applies the op of a slot to a claim.
func (c *claims) settle(i uint32, slot uint64, op *pb.Settle) {
	if op.GetHow() == pb.Settle_AWARD {
		c.award(i, slot, op)
		return
	}
	d, r := c.holdRecords.At(c.holdRecordOf(i)), c.records.At(i)
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		d.extended, d.heldUntil = true, op.GetHeldUntilUs()
		c.tally.Extended++
		c.requeue(d)
		return
	case pb.Settle_REFUND_DUE:
		at := c.owed.Add(owedRecord{payment: c.text.put(op.GetPayment()), claim: i, prev: d.owed})
		c.byOwed.add(c.owedHash(i, op.GetPayment()), at)
		d.owed, d.due = at+1, d.due+1
		return
	case pb.Settle_CONFIRM:
		r.setState(StateSold)
		d.payment = c.text.put(op.GetPayment())
	case pb.Settle_RESELL:
		r.setState(StateSold)
		d.payment = c.text.put(op.GetPayment())
		c.giveUser(r.user, int64(r.count))
		c.unpaid[r.user]--
		c.setUnits(i, op.GetUnits())
	case pb.Settle_CANCEL:
		r.setState(StateCancelled)
		c.giveUser(r.user, -int64(r.count))
		c.unpaid[r.user]++
	case pb.Settle_EXPIRE:
		r.setState(StateExpired)
		c.giveUser(r.user, -int64(r.count))
		c.unpaid[r.user]++
	case pb.Settle_REFUND:
		r.setState(StateRefunded)
		d.retired = op.GetRetire()
		c.giveUser(r.user, -int64(r.count))
	}
	if d.queued != 0 {
		d.ended = uint32(slot) + 1
		c.tally.ended(c.span(d))
	}
	c.unqueue(d)
	d.settled = uint32(slot) + 1
	d.who, d.reason = c.text.put(op.GetWho()), c.text.put(op.GetReason())
}

// setUnits replaces the units of a claim by as many others.
func (c *claims) setUnits(i uint32, units []int64) {
	if had := c.units(i); !slices.Equal(had, units) {
		c.resold[i] = had
	}
	c.writeUnits(i, units)
}

// addHold adds the fields of a hold record to a claim.
func (c *claims) addHold(claim *Claim, d *holdRecord, due int) {
	claim.Owed = int(d.due)
	claim.HeldUntilUs, claim.GraceUs, claim.Extended, claim.Retired = d.heldUntil, d.grace, d.extended, d.retired
	claim.Payment, claim.Who, claim.Reason = c.text.get(d.payment), c.text.get(d.who), c.text.get(d.reason)
	if d.settled != 0 {
		claim.SettledUs = c.times[d.settled-1]
	}
	claim.RefundsDue, _ = c.dueFrom(d.owed, due)
}
