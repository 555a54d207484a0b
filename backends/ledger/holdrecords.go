package ledger

import (
	"slices"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// holds has the hold records of a shard's claims, and the queue of the open holds.
type holds struct {
	text    *texts
	byClaim table // from claims to records
	records chunked.List[holdRecord]
	owed    owedPayments
	queue   []queued // open holds, by their release
	tally   HoldTally
}

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

// of returns the hold record of a claim; nil: the claim has none.
func (h *holds) of(claim uint32) *holdRecord {
	at, ok := h.find(claim)
	if !ok {
		return nil
	}
	return h.records.At(at)
}

func (h *holds) find(claim uint32) (at uint32, ok bool) {
	return h.byClaim.find(uint64(claim), func(at uint32) bool { return h.records.At(at).claim == claim })
}

// findOrAdd returns the index of a claim's hold record. It adds one if there is none.
func (h *holds) findOrAdd(claim uint32) uint32 {
	at, ok := h.find(claim)
	if !ok {
		at = h.add(holdRecord{claim: claim})
	}
	return at
}

// add adds the hold record of a claim that has none.
func (h *holds) add(d holdRecord) uint32 {
	at := h.records.Add(d)
	h.byClaim.add(uint64(d.claim), at)
	return at
}

// owedPayments has the payments that bought nothing. A list of them by claim is linked backward from
// holdRecord.owed.
type owedPayments struct {
	text    *texts
	byClaim table // from claims and payments to records
	records chunked.List[owedRecord]
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

// add adds a payment that is owed back for a claim and returns its index. prev is the index of the
// claim's previous one, +1.
func (o *owedPayments) add(claim uint32, payment string, prev uint32) uint32 {
	at := o.records.Add(owedRecord{payment: o.text.put(payment), claim: claim, prev: prev})
	o.byClaim.add(o.text.mix(uint64(claim), payment), at)
	return at
}

// find returns the index of a payment that is owed back for a claim.
func (o *owedPayments) find(claim uint32, payment string) (at uint32, ok bool) {
	return o.byClaim.find(o.text.mix(uint64(claim), payment), func(at uint32) bool {
		r := o.records.At(at)
		return r.claim == claim && o.text.equal(r.payment, payment)
	})
}

// newest returns the payment with index from-1 and those before it of the same claim, at most most, in
// their order. more reports whether there are older ones.
func (o *owedPayments) newest(from uint32, most int) (due []string, more bool) {
	for ; from != 0 && len(due) < most; from = o.records.At(from - 1).prev {
		due = append(due, o.text.get(o.records.At(from-1).payment))
	}
	slices.Reverse(due)
	return due, from != 0
}

// status returns the state of a claim in relation to a payment.
func (c *claims) status(i uint32, payment string) claimStatus {
	at := claimStatus{state: c.records.At(i).state(), grabbed: int(i) < len(c.granted)}
	at.another = payment != "" // a claim that was never held was bought by none
	if d := c.holds.of(i); d != nil {
		at.releaseUs, at.extended = d.heldUntil+d.grace, d.extended
		if paid := c.text.bytes(d.payment); d.heldUntil != 0 {
			at.another = len(paid) > 0 && payment != "" && string(paid) != payment
		}
		if d.owed != 0 {
			_, at.owed = c.owed.find(i, payment)
		}
	}
	return at
}

// settle applies the op of a slot to a claim.
func (c *claims) settle(i uint32, slot uint64, op *pb.Settle) {
	at := c.holds.findOrAdd(i)
	d, r, e := c.holds.records.At(at), c.records.At(i), effectOf(op)
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		d.extended, d.heldUntil = true, op.GetHeldUntilUs()
		c.tally.Extended++
		c.holds.requeue(d)
		return
	case pb.Settle_REFUND_DUE:
		d.owed, d.due = c.owed.add(i, op.GetPayment(), d.owed)+1, d.due+1
		return
	case pb.Settle_RESELL:
		c.setUnits(i, op.GetUnits())
	case pb.Settle_AWARD:
		r.count = 1
		c.writeUnits(i, op.GetUnits())
		c.awarded = append(c.awarded, i)
		d.heldUntil, d.grace, d.awarded = op.GetHeldUntilUs(), op.GetGraceUs(), uint32(slot)+1
	case pb.Settle_REFUND:
		d.retired = op.GetRetire()
	}
	r.setState(e.state)
	if e.pays {
		d.payment = c.text.put(op.GetPayment())
	}
	c.users.give(r.user, e.units*int64(r.count))
	if e.unpaid != 0 {
		c.unpaid[r.user] += uint32(e.unpaid)
	}
	if d.queued != 0 {
		d.ended = uint32(slot) + 1
		c.tally.ended(c.span(d))
		c.holds.unqueue(d)
	}
	if e.state == StateHeld {
		c.holds.enqueue(at)
	}
	d.settled = uint32(slot) + 1
	d.who, d.reason = c.text.put(op.GetWho()), c.text.put(op.GetReason())
}

// setUnits replaces the units of a claim by as many others.
func (c *claims) setUnits(i uint32, units []int64) {
	if had := c.units(i); !slices.Equal(had, units) {
		c.originalUnits[i] = had
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
	claim.RefundsDue, _ = c.owed.newest(d.owed, due)
}
