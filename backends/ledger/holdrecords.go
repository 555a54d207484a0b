package ledger

import (
	"slices"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// holds has the hold records of a shard's claims, and the queue of the open holds.
type holds struct {
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

// add adds the hold record of a claim that has none.
func (h *holds) add(d holdRecord) uint32 {
	at := h.records.Add(d)
	h.byClaim.add(uint64(d.claim), at)
	return at
}

// owedPayments has the payments that bought nothing. There are few.
type owedPayments struct {
	known   map[owedPayment]struct{}
	byClaim map[uint32][]string // in order
}

// owedPayment is a payment that is owed back for a claim.
type owedPayment struct {
	claim   uint32
	payment string
}

// mostDue is the maximum number of refunds due returned with a claim where not all are needed: a
// payment service may use a new reference for each attempt.
const mostDue = 10

// status returns the state of a claim in relation to a payment.
func (c *claims) status(i uint32, payment string) claimStatus {
	at := claimStatus{state: c.records.At(i).state(), grabbed: int(i) < len(c.granted)}
	at.another = payment != "" // a claim that was never held was bought by none
	if d := c.holds.of(i); d != nil {
		at.releaseUs, at.extended = d.heldUntil+d.grace, d.extended
		if paid := c.text.bytes(d.payment); d.heldUntil != 0 {
			at.another = len(paid) > 0 && payment != "" && string(paid) != payment
		}
		_, at.owed = c.owed.known[owedPayment{i, payment}]
	}
	return at
}

// settle applies the op of a slot to a claim.
func (c *claims) settle(i uint32, slot uint64, op *pb.Settle) {
	at, ok := c.holds.find(i)
	if !ok {
		at = c.holds.add(holdRecord{claim: i})
	}
	d, r, e := c.holds.records.At(at), c.records.At(i), effectOf(op)
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		d.extended, d.heldUntil = true, op.GetHeldUntilUs()
		c.tally.Extended++
		c.holds.requeue(d)
		return
	case pb.Settle_REFUND_DUE:
		c.owed.known[owedPayment{i, op.GetPayment()}] = struct{}{}
		c.owed.byClaim[i] = append(c.owed.byClaim[i], op.GetPayment())
		return
	case pb.Settle_RESELL:
		if had := c.units(i); !slices.Equal(had, op.GetUnits()) {
			c.originalUnits[i] = had
		}
		c.writeUnits(i, op.GetUnits())
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
	c.users.records.At(r.user).units += e.units * int64(r.count)
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

// addHold adds the fields of a hold record to a claim.
func (c *claims) addHold(claim *Claim, d *holdRecord, due int) {
	owed := c.owed.byClaim[d.claim]
	claim.Owed, claim.RefundsDue = len(owed), slices.Clip(owed[max(0, len(owed)-due):])
	claim.HeldUntilUs, claim.GraceUs, claim.Extended, claim.Retired = d.heldUntil, d.grace, d.extended, d.retired
	claim.Payment, claim.Who, claim.Reason = c.text.get(d.payment), c.text.get(d.who), c.text.get(d.reason)
	if d.settled != 0 {
		claim.SettledUs = c.times[d.settled-1]
	}
}
