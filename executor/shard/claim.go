package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

// This file defines accepted claims, as a shard reports them, and their names.

// Claim is an accepted claim, as its log has it.
type Claim struct {
	ID    ClaimID
	User  string
	Units []int64
	Asked int64       // units requested, where fewer were given; else 0
	State api.Outcome // Sold, Held, Expired, Cancelled, Refunded, Entered or NotDrawn
	At    time.Time
	// HeldUntil is the deadline to pay by; zero: it was never held.
	HeldUntil time.Time

	// Books is set in the answer to a look-up of a claim that was held or refunded.
	Books *Books

	// Packets is what the units are worth, nil if they are no packets of money. It
	// is set in what Service returns.
	Packets *spec.Packets

	// Payloads is what the units are, nil where they are numbers or are not published yet.
	// Undelivered says that it could not be read. They are set in what Service returns.
	Payloads    []payload.Fields
	Undelivered bool
}

// Books is what the ledger has of a claim that was held or refunded, beyond what its
// buyer is told when it is made.
type Books struct {
	SettledAt  time.Time // when it came to its state; zero: it is as it was made
	Who, Why   string    // of a cancel or refund
	Payment    string    // that bought it
	Extended   bool
	Retired    bool     // its units went out of the sale by its refund
	RefundsDue []string // the newest payments that bought nothing
	Owed       int      // how many there are
	Next       string   // the cursor of older ones, the first of RefundsDue; "": there are none
}

// PageBytes is how many bytes the claims of a page have, unless it is one claim.
const PageBytes = 1 << 20

// Size returns about how many bytes of memory a claim takes.
func (c *Claim) Size() int64 {
	n := 512 + 24*len(c.Units)
	for _, p := range c.Payloads {
		for _, v := range p.Values {
			n += 32 + len(v)
		}
	}
	if b := c.Books; b != nil {
		n += len(b.Who) + len(b.Why) + len(b.Payment)
		for _, payment := range b.RefundsDue {
			n += 16 + len(payment)
		}
	}
	return int64(n)
}

// ClaimID names a claim.
type ClaimID = api.ClaimID

// IsFinal reports whether only a refund can change the state that a claim was answered with. The later state of a hold
// or of an entry is known only to a process that has read the log to its end.
func (c Claim) IsFinal() bool { return c.HeldUntil.IsZero() && c.State == api.Sold }

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
func granted(shard int, t *Ticket, slot uint64, c *pb.Commit) Claim {
	op := c.GetOps()[t.op].GetClaim()
	return Claim{
		ID:   ClaimID{Shard: shard, Slot: slot, Index: t.op},
		User: t.User, Units: op.GetUnits(), Asked: int64(op.GetAsked()), State: t.answer.Outcome,
		At: time.UnixMicro(c.GetTimeUs()), HeldUntil: ledger.Time(op.GetHeldUntilUs()),
	}
}

// claimOf returns a claim of the log.
func claimOf(shard int, c ledger.Claim) Claim {
	id := ClaimID{Shard: shard, Slot: c.Slot, Index: c.Index}
	if c.Grabbed {
		id = ClaimID{Shard: shard, Unit: c.Units[0]}
	}
	return Claim{
		ID: id, User: c.User, Units: c.Units, Asked: c.Asked,
		State: api.Outcome(c.State.String()), At: time.UnixMicro(c.TimeUs),
		HeldUntil: ledger.Time(c.HeldUntilUs),
	}
}

// claimWithBooks returns a claim of the log with its Books.
func claimWithBooks(shard int, c ledger.Claim) Claim {
	claim := claimOf(shard, c)
	if c.HeldUntilUs != 0 || c.SettledUs != 0 || len(c.RefundsDue) > 0 {
		claim.Books = &Books{
			SettledAt: ledger.Time(c.SettledUs), Who: c.Who, Why: c.Reason, Payment: c.Payment,
			Extended: c.Extended, Retired: c.Retired, RefundsDue: c.RefundsDue, Owed: c.Owed,
		}
		if c.Owed > len(c.RefundsDue) {
			claim.Books.Next = c.RefundsDue[0]
		}
	}
	return claim
}

// withFinalState returns a claim with its state in s. An entry that has no unit when its sale is closed
// for good has won nothing.
func withFinalState(s *ledger.State, c Claim) Claim {
	if c.State == api.Entered && s.Phase == ledger.PhaseClosed {
		c.State = api.NotDrawn
	}
	return c
}

// overLimit returns the answer to a user who may have no more claims. It lists the user's newest claims,
// at most api.MaxListed, which have at most api.MaxQuantity units together or are one.
func overLimit(shard int, s *ledger.State, user string) Answer {
	newest, count := s.Newest(user, api.MaxListed)
	a, units := Answer{Outcome: api.LimitReached, Count: count}, 0
	for i, c := range slices.Backward(newest) {
		if units += len(c.Units); units > api.MaxQuantity && i < len(newest)-1 {
			break
		}
		a.Claims = append(a.Claims, withFinalState(s, claimOf(shard, c)))
	}
	slices.Reverse(a.Claims)
	return a
}
