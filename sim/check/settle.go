package check

import (
	"slices"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
)

// terms holds a new claim against how the settings in force have claims paid.
func (st *stock) terms(s *slot, c *claim) {
	var deadline, grace int64
	if p := c.settings.GetPayment(); p != nil {
		deadline, grace = s.commit.GetTimeUs()+p.GetHoldForUs(), p.GetGraceUs()
	}
	if c.deadline != deadline || c.grace != grace {
		st.bad("%v is held until %d and %d us of grace, by the settings until %d and %d", c, c.deadline, c.grace, deadline, grace)
	}
}

// settle books what has become of a claim.
func (st *stock) settle(s *slot, op *pb.Settle) {
	sh := st.shards[s.log.shard]
	c := sh.claims[spot{op.GetSlot(), op.GetIndex()}]
	if c == nil {
		st.bad("%v settles a claim at slot %d, op %d, where there is none", s, op.GetSlot(), op.GetIndex())
		return
	}
	before := c.state
	late := s.commit.GetTimeUs() >= c.deadline+c.grace
	now := map[pb.Settle_How]string{
		pb.Settle_CONFIRM: "sold", pb.Settle_CANCEL: "cancelled", pb.Settle_EXPIRE: "expired",
		pb.Settle_REFUND: "refunded", pb.Settle_RESELL: "sold", pb.Settle_AWARD: "sold",
	}[op.GetHow()]
	switch op.GetHow() {
	case pb.Settle_CONFIRM, pb.Settle_CANCEL, pb.Settle_EXPIRE:
		if before != "held" {
			return // the first end counts
		}
		if late != (op.GetHow() == pb.Settle_EXPIRE) && op.GetHow() != pb.Settle_CANCEL {
			st.bad("%v ends %v by %v at %d us, its deadline is %d and the grace %d", s, c, op.GetHow(), s.commit.GetTimeUs(), c.deadline, c.grace)
		}
	case pb.Settle_EXTEND:
		st.extend(s, c, op, late)
		return
	case pb.Settle_REFUND_DUE:
		if before == "held" || slices.Contains(c.owed, op.GetPayment()) || c.payment != "" && c.payment == op.GetPayment() {
			st.bad("%v owes payment %q back for %v, which is %s by payment %q", s, op.GetPayment(), c, before, c.payment)
		}
		c.owed = append(c.owed, op.GetPayment())
		c.bookings = append(c.bookings, booking{c, op.GetPayment(), true, s})
		sh.owe(c, op.GetPayment(), s)
		return
	case pb.Settle_RETURNED:
		d := c.debt(op.GetPayment())
		if d == nil || d.returned != nil {
			st.bad("%v pays payment %q back for %v, which owes %+v", s, op.GetPayment(), c, c.debts)
			return
		}
		d.returned = &paidBack{op.GetPayment(), timeText(s.commit.GetTimeUs()), op.GetWho(), op.GetReason()}
		d.back = s.Seq
		sh.Returned++
		return
	case pb.Settle_REFUND:
		if before != "sold" || op.GetPayment() != c.payment {
			st.bad("%v refunds %v, which is %s by payment %q, for payment %q", s, c, before, c.payment, op.GetPayment())
			return
		}
		if c.payment != "" {
			sh.owe(c, c.payment, s)
		}
	case pb.Settle_RESELL:
		if before != "expired" || sh.settings.GetPayment().GetLate() != pb.Payment_RESELL || slices.Contains(c.owed, op.GetPayment()) {
			st.bad("%v resells %v, which is %s, to payment %q", s, c, before, op.GetPayment())
			return
		}
		if had := sh.users[c.user]; had+int64(len(op.GetUnits())) > sh.settings.GetPerUserLimit() {
			st.bad("%v resells %v to a user who has %d units", s, c, had)
		}
	case pb.Settle_AWARD:
		if !st.award(s, c, op) {
			return
		}
		if c.deadline != 0 {
			now = "held"
		}
	default:
		st.bad("%v settles %v by %v", s, c, op.GetHow())
		return
	}
	sh.count(before, now)
	switch {
	case op.GetHow() == pb.Settle_RESELL:
		sh.unpaid[c.user]--
	case now == "cancelled" || now == "expired":
		sh.unpaid[c.user]++
	}
	st.relocate(s, c, op, before, now)
	c.become(now, s)
	c.settled, c.who, c.why, c.retired = s.commit.GetTimeUs(), op.GetWho(), op.GetReason(), op.GetRetire()
	switch us := s.commit.GetTimeUs(); {
	case now == "held":
		c.heldFrom = us
	case before == "held":
		c.heldTo = us
	}
	switch now {
	case "sold":
		c.payment = op.GetPayment()
		if c.payment != "" {
			c.bookings = append(c.bookings, booking{c, c.payment, false, s})
		}
	case "cancelled":
		c.cancelled = s
	}
}

// extend books a later deadline.
func (st *stock) extend(s *slot, c *claim, op *pb.Settle, late bool) {
	if c.state != "held" {
		return
	}
	by := st.shards[s.log.shard].settings.GetPayment().GetExtendByUs()
	if c.extended || late || by == 0 || op.GetHeldUntilUs() != c.deadline+by {
		st.bad("%v extends %v from %d to %d at %d us, extended before: %v", s, c, c.deadline, op.GetHeldUntilUs(), s.commit.GetTimeUs(), c.extended)
	}
	c.extended, c.deadline = true, op.GetHeldUntilUs()
}

// count counts a claim that goes from one state to another.
func (sh *shard) count(before, now string) {
	if before == "held" {
		sh.OpenHolds--
	}
	switch {
	case now == "held":
		sh.OpenHolds++
	case before == "entered":
	case now == "sold" && before == "held":
		sh.Confirmed++
	case now == "sold":
		sh.Resold++
	case now == "cancelled":
		sh.Cancelled++
	case now == "expired":
		sh.Expired++
	case now == "refunded":
		sh.Refunded++
	}
}

// relocate moves the units of a claim that goes from one state to another.
func (st *stock) relocate(s *slot, c *claim, op *pb.Settle, before, now string) {
	sh, here := st.shards[s.log.shard], s.log.shard
	places := map[string]place{"held": {kind: held, shard: here}, "sold": {kind: sold, shard: here}}
	from, had := places[before]
	if !had {
		from = place{kind: free, shard: here}
	}
	to, gets := places[now]
	if !gets {
		to = place{kind: free, shard: here}
	}
	if op.GetRetire() && now == "refunded" {
		to.kind = removed
	}
	if now == "sold" && before == "expired" {
		c.units = op.GetUnits()
		if len(c.units) != len(c.first) {
			st.bad("%v resells %d units of %v, which had %d", s, len(c.units), c, len(c.first))
		}
	}
	n := int64(len(c.units))
	for _, unit := range c.units {
		st.move(s, unit, from, to)
	}
	for kind, by := range map[placeKind]int64{from.kind: -n, to.kind: n} {
		switch kind {
		case held:
			sh.held += by
		case sold:
			sh.sold += by
		case free:
			sh.available += by
		case removed:
			sh.limit -= by
		}
	}
	if has(before) {
		sh.users[c.user] -= n
	}
	if has(now) {
		sh.users[c.user] += n
	}
}

// settlements judges the answers to settlements, and that no payment
// is lost: it has bought its claim, or is owed back.
func settlements(e *evidence, bad fault) {
	requested := make(map[string]uint64) // payments, and when each was first reported
	if s := e.h.Service; s != nil {
		for _, x := range slices.Backward(s.Calls) {
			requested[x.Reference] = x.Seq
		}
	}
	for i, o := range e.all(SettleInvoked) {
		q := o.invoked
		if at, known := requested[q.Payment]; q.How != api.Returned && (!known || q.Seq < at) {
			requested[q.Payment] = q.Seq
		}
		if !o.answered() {
			continue
		}
		a := o.returned.Answer
		if !slices.ContainsFunc(e.named(q.Claim), func(c *claim) bool { return c.settledAs(o) }) && !e.elsewhere(q.Claim, a.Outcome) {
			bad("operation %d (%s of claim %s by payment %q) was answered %q, refund due: %v; that was not so then",
				i, q.How, q.Claim, q.Payment, a.Outcome, a.RefundDue)
		}
	}
	for _, c := range e.claims {
		for _, payment := range append(slices.Clone(c.owed), c.payment) {
			if at, known := requested[payment]; payment != "" && (!known || at > c.states[len(c.states)-1].seq && !slices.Contains(c.owed, payment)) {
				bad("%v has payment %q, of which nobody has told", c, payment)
			}
		}
	}
}

// settledAs reports whether a claim allows the answer about it.
func (c *claim) settledAs(o *operation) bool {
	q, a := o.invoked, o.returned.Answer
	if q.How == api.Returned {
		d := c.debt(q.Payment)
		switch a.Outcome {
		case api.Returned:
			return d != nil && d.returned != nil && d.back < o.returned.Seq
		case api.NotDue:
			return d == nil || d.from >= c.at.log.known(q.Seq)
		}
		return false
	}
	was := func(state api.Outcome) bool { return c.was(string(state), q.Seq, o.returned.Seq) }
	pays := q.How == api.Sold
	if a.RefundDue != (pays && slices.Contains(c.owed, q.Payment)) {
		return false
	}
	switch a.Outcome {
	case q.How:
		return was(a.Outcome) && (!pays || c.payment == q.Payment) && (q.How != api.Held || c.extended)
	case api.Expired:
		return (was(api.Expired) || q.How == api.Held && was(api.Held)) && a.RefundDue == pays
	case api.Cancelled:
		return was(a.Outcome) && a.RefundDue == pays
	case api.Refunded: // the payment that had bought it is not due once more
		return was(a.Outcome) && a.RefundDue == (pays && c.payment != q.Payment)
	case api.NotDrawn:
		return was(api.Entered) && a.RefundDue == pays
	case api.NotHeld:
		return was(api.Sold) && q.How != api.Refunded && a.RefundDue == pays
	case api.NotSold:
		return was(api.Held) && q.How == api.Refunded
	case api.NoExtension:
		return q.How == api.Held
	}
	return false
}

// elsewhere reports whether an answer has nothing of a claim: the process has not read it,
// or the run of the claim is not the one that it serves.
func (e *evidence) elsewhere(id string, outcome api.Outcome) bool {
	switch outcome {
	case api.NoSuchClaim:
		return len(e.runs) > 1 || len(e.named(id)) == 0
	case api.Standby, api.Overloaded, api.NoQuorum, api.Draining, api.NoSuchSale, api.NotOpen, api.Closed:
		return true
	}
	return len(e.runs) > 1 && len(e.named(id)) == 0
}
