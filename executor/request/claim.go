package request

import (
	"time"

	"salectl/api"
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
	Books *api.Books

	// Packets is what the units are worth, nil if they are no packets of money. It
	// is set in what Service returns.
	Packets *spec.Packets

	// Payloads is what the units are, nil where they are numbers or are not published yet.
	// Undelivered says that it could not be read. They are set in what Service returns.
	Payloads    []payload.Fields
	Undelivered bool
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
		for _, payment := range b.RefundDue {
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
