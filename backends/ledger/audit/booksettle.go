package audit

import (
	"slices"
	"sort"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// This file accounts for holds, payments and refunds in a book. For each op it checks the state that
// must precede it, and records a fault otherwise. The reducer, in contrast, has rules for what may
// follow.

// bookClaim is a claim in a book: there are millions.
type bookClaim struct {
	first int64  // unit; the others follow it, or are in scattered
	index uint32 // among the ops of the commit
	user  uint32 // of the accounts
	count uint32 // of units
}

// bookPayment is a payment that is owed back for a claim.
type bookPayment struct {
	claim   uint32
	payment string
}

// claimHistory is the history of a claim that was held or refunded.
type claimHistory struct {
	state    string // name of its ClaimState
	since    int64  // time of the commit that began the hold
	until    int64  // the deadline
	grace    int64
	extended bool
	paid     string
	owed     []string // payments that bought nothing, or whose purchase was refunded
	returned []string // those of owed that were paid back
}

// enroll adds a claim or an entry to the records, and returns its index.
func (b *Book) enroll(at place, user uint32, op *pb.Claim) (n uint32) {
	units, attributes := op.GetUnits(), 0
	record := bookClaim{index: at.index, user: user, count: uint32(len(units))}
	if len(units) > 0 {
		record.first = units[0]
	}
	n = b.claims.Add(record)
	if !adjacent(units) {
		b.scattered[n] = slices.Clone(units)
	}
	if len(b.settings.GetRules()) > 0 {
		attributes = ledger.AttributesLen
	}
	if len(op.GetAttributes()) != attributes {
		b.fault("a claim with %d bytes of attributes in a sale whose rule set is %x", len(op.GetAttributes()), b.settings.GetRules())
	}
	return n
}

// assign moves the units of a claim or award to those held for the term in force, or to those sold if
// there is none.
func (b *Book) assign(what string, c *pb.Commit, n uint32, history *claimHistory, op interface {
	GetHeldUntilUs() int64
	GetGraceUs() int64
}) {
	pay, held := b.settings.GetPayment(), op.GetHeldUntilUs() != 0
	if term := op.GetHeldUntilUs() - c.GetTimeUs(); held != (pay != nil) || held && (term != pay.GetHoldForUs() || op.GetGraceUs() != pay.GetGraceUs()) {
		b.fault("%s held until %d, for %d us and %d of grace, in a sale whose payment is %v", what, op.GetHeldUntilUs(), term, op.GetGraceUs(), pay)
	}
	to := &b.sold
	history.state, history.since, history.until, history.grace = "sold", c.GetTimeUs(), op.GetHeldUntilUs(), op.GetGraceUs()
	if held {
		history.state, to = "held", &b.held
		b.outcomes.OpenHolds++
	}
	b.carry(n, &b.free, to)
}

// adjacent reports whether units have consecutive numbers.
func adjacent(units []int64) bool {
	for i, unit := range units {
		if unit != units[0]+int64(i) {
			return false
		}
	}
	return true
}

// find returns the index of the claim at a place.
func (r *claimRecords) find(at place) (uint32, bool) {
	if at.slot >= uint64(len(r.slots)) {
		return 0, false
	}
	from, end := int(r.slots[at.slot]), r.claims.Len()
	if at.slot+1 < uint64(len(r.slots)) {
		end = int(r.slots[at.slot+1])
	}
	n := from + sort.Search(end-from, func(i int) bool { return r.claims.At(uint32(from+i)).index >= at.index })
	return uint32(n), n < end && r.claims.At(uint32(n)).index == at.index
}

func (r *claimRecords) units(n uint32) []int64 {
	if units, ok := r.scattered[n]; ok {
		return units
	}
	claim := r.claims.At(n)
	units := make([]int64, claim.count)
	for i := range units {
		units[i] = claim.first + int64(i)
	}
	return units
}

func (b *Book) settle(c *pb.Commit, op *pb.Settle) {
	n, ok := b.find(place{op.GetSlot(), op.GetIndex()})
	if !ok {
		b.fault("a settle of slot %d, op %d, where no claim is", op.GetSlot(), op.GetIndex())
		return
	}
	history, known := b.claimHistories[n]
	if !known {
		history.state = "sold"
		if b.claims.At(n).count == 0 {
			history.state = "entered"
		}
	}
	was := history.state
	switch op.GetHow() {
	case pb.Settle_CONFIRM, pb.Settle_CANCEL, pb.Settle_EXPIRE, pb.Settle_EXTEND:
		if was != "held" {
			return // it has ended before
		}
		b.endHold(c, n, &history, op)
	case pb.Settle_AWARD:
		if was != "entered" {
			return // repeated: counts once
		}
		b.award(c, n, &history, op)
	case pb.Settle_REFUND:
		if was == "refunded" {
			return // repeated: counts once
		}
		b.refund(n, &history, op)
	case pb.Settle_RESELL:
		if was == "sold" && !paidOtherwise(history, op) {
			return
		}
		b.resell(n, &history, op)
	case pb.Settle_REFUND_DUE:
		bought := !paidOtherwise(history, op)
		refunded := was == "refunded" && bought // its refund has recorded the payment
		if was == "sold" && bought || !refunded && b.owes(n, op.GetPayment()) {
			return
		}
		if was == "held" || refunded {
			b.fault("a payment is owed back for a claim that is %s", was)
		}
		b.owe(n, &history, op.GetPayment())
	case pb.Settle_RETURNED:
		if slices.Contains(history.returned, op.GetPayment()) {
			return // repeated: counts once
		}
		if !b.owes(n, op.GetPayment()) {
			b.fault("payment %q is paid back, which is not owed for a claim that is %s", op.GetPayment(), was)
		}
		history.returned = append(history.returned, op.GetPayment())
		b.outcomes.Returned++
	}
	b.claimHistories[n] = history
}

// owe records a payment that is owed back for a claim.
func (b *Book) owe(n uint32, history *claimHistory, payment string) {
	history.owed = append(history.owed, payment)
	b.owed[bookPayment{n, payment}] = struct{}{}
	b.outcomes.RefundsDue++
}

// owes reports whether a payment is owed back for a claim, or was.
func (r *claimRecords) owes(n uint32, payment string) bool {
	_, ok := r.owed[bookPayment{n, payment}]
	return ok
}

// paidOtherwise reports whether a payment other than that of op has bought a claim, or none
// was needed.
func paidOtherwise(history claimHistory, op *pb.Settle) bool {
	return op.GetPayment() != "" && history.paid != op.GetPayment() && (history.paid != "" || history.until == 0)
}

// endHold ends a hold, or extends it to a later deadline.
func (b *Book) endHold(c *pb.Commit, n uint32, history *claimHistory, op *pb.Settle) {
	over := c.GetTimeUs() >= history.until+history.grace
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		if history.extended && !over {
			return // repeated: counts once
		}
		by := op.GetHeldUntilUs() - history.until
		if over || by <= 0 || by != b.settings.GetPayment().GetExtendByUs() {
			b.fault("a hold until %d is extended to %d at %d, by the settings by %d",
				history.until, op.GetHeldUntilUs(), c.GetTimeUs(), b.settings.GetPayment().GetExtendByUs())
		}
		history.until, history.extended = op.GetHeldUntilUs(), true
		return
	case pb.Settle_CONFIRM:
		if over {
			b.fault("a hold until %d and %d us of grace is paid at %d", history.until, history.grace, c.GetTimeUs())
		}
		history.paid = op.GetPayment()
		b.change(n, history, "sold", &b.outcomes.Confirmed, &b.held, &b.sold)
	case pb.Settle_CANCEL:
		b.change(n, history, "cancelled", &b.outcomes.Cancelled, &b.held, &b.free)
	case pb.Settle_EXPIRE:
		if !over {
			b.fault("a hold until %d and %d us of grace expires at %d", history.until, history.grace, c.GetTimeUs())
		}
		b.change(n, history, "expired", &b.outcomes.Expired, &b.held, &b.free)
	}
	if history.state != "sold" {
		b.forget(n)
		b.unpaid[b.claims.At(n).user]++
	}
	b.outcomes.OpenHolds--
	b.ended = append(b.ended, endedHold{c.GetTimeUs() - history.since, int64(b.claims.At(n).count)})
}

// change moves the units of a claim from one set to another, with its state and a number of outcomes.
func (b *Book) change(n uint32, history *claimHistory, state string, outcome *int64, from, to *ledger.Units) {
	history.state = state
	*outcome++
	b.carry(n, from, to)
}

func (b *Book) refund(n uint32, history *claimHistory, op *pb.Settle) {
	if history.state != "sold" {
		b.fault("a claim that is %s is refunded", history.state)
	}
	if op.GetPayment() != history.paid {
		b.fault("a refund of payment %q of a claim that payment %q has bought", op.GetPayment(), history.paid)
	}
	if history.paid != "" {
		b.owe(n, history, history.paid)
	}
	to := &b.free
	if op.GetRetire() {
		to = &b.removed
	}
	b.change(n, history, "refunded", &b.outcomes.Refunded, &b.sold, to)
	b.forget(n)
}

func (b *Book) resell(n uint32, history *claimHistory, op *pb.Settle) {
	claim := b.claims.At(n)
	if history.state != "expired" || b.settings.GetPayment().GetLate() != pb.Payment_RESELL || b.owes(n, op.GetPayment()) {
		b.fault("a claim that is %s is resold, late payments: %v, owed back: %q", history.state, b.settings.GetPayment().GetLate(), history.owed)
	}
	if len(op.GetUnits()) != int(claim.count) {
		b.fault("a claim of %d units is resold with %d", claim.count, len(op.GetUnits()))
	}
	b.scattered[n] = slices.Clone(op.GetUnits())
	history.paid = op.GetPayment()
	b.change(n, history, "sold", &b.outcomes.Resold, &b.free, &b.sold)
	has := b.accounts.At(claim.user)
	has.units += int64(len(op.GetUnits()))
	b.unpaid[claim.user]--
	if limit := b.settings.GetPerUserLimit(); has.units > limit {
		b.fault("a claim is resold to a user who has %d units then, more than the limit of %d", has.units, limit)
	}
}

// forget subtracts the units of a claim from its user's account.
func (b *Book) forget(n uint32) {
	b.accounts.At(b.claims.At(n).user).units -= int64(len(b.units(n)))
}

// compareClaims compares the history of each claim with the claim of the reducer.
func (b *Book) compareClaims(r *Report) {
	for n, history := range b.claimHistories {
		c := b.reducer.Claim(int(n))
		if c.State.String() != history.state || c.HeldUntilUs != history.until || c.Payment != history.paid ||
			!slices.Equal(c.RefundsDue, history.owed) || !sameReturned(c.Returned, history.returned) {
			r.Problem("claim %s folds to %v until %d, paid by %q, owing %q, of which %v was paid back; its commits have %s until %d, by %q, owing %q, %q paid back",
				c.ID(b.shard), c.State, c.HeldUntilUs, c.Payment, c.RefundsDue, c.Returned, history.state, history.until, history.paid, history.owed, history.returned)
		}
	}
}

// sameReturned reports whether the payments of the reducer, which has them in the order of the debts, are those
// of the book.
func sameReturned(folded []ledger.Returned, returned []string) bool {
	return len(folded) == len(returned) && !slices.ContainsFunc(folded, func(r ledger.Returned) bool { return !slices.Contains(returned, r.Payment) })
}
