package request

import (
	"time"

	"salectl/api"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

// Answer is the answer to a request.
type Answer struct {
	Outcome api.Outcome // "" if a Query found what it requested
	// Claim is set if Outcome is Accepted, and in answers that report the state of a claim.
	Claim Claim
	// Replayed means that the request had been accepted before, or that another request of the same
	// key had: the answer is that request's.
	Replayed bool
	// Claims are the newest of the user's, for LimitReached, and Count is how many the user has.
	// They answer a Query for a user's claims.
	Claims []Claim
	Count  int
	// Next is, of a page of a user's claims, the cursor of the next; "": it is the last.
	Next string
	// RefundDue means that the payment of a settlement bought nothing, and that the ledger has
	// recorded it as a refund due.
	RefundDue bool
	// OtherRules means, with NotChecked, that the rules in force are not those that admitted the
	// request: the rules in force are to decide it.
	OtherRules bool
	// Elsewhere means that this process has not decided, because another process owns the shard or
	// is about to. Outcome is the answer to a requester that cannot be forwarded there. With
	// Unknown the request may have been decided here.
	Elsewhere bool
	// Rule and Reason are, for NotEligible, the name of the rule that has refused the
	// request, and why, as rules.Reason has it.
	Rule, Reason string
	// OpensAt is when the sale opens, for NotOpen.
	OpensAt time.Time
	// RetryAfter is the delay after which a retry may succeed; 0: none will, or one at once may.
	RetryAfter time.Duration
	// Message explains the answer to people, where there is more to explain.
	Message string
}

// Accepted reports whether the claim has units, or is an entry that may be given some.
func (a Answer) Accepted() bool { return a.Outcome.Accepted() }

// Denies reports whether the answer implies that the claim is not accepted. Such an answer is wrong
// while an earlier request of the same key can still be accepted. SoldOut is among them: more units may
// come before that request is decided.
func (a Answer) Denies() bool { return a.Outcome.Denies() }

// Undecided is the answer while the outcome of a claim is unknown.
var Undecided = Answer{Outcome: api.Unknown, RetryAfter: time.Second}

// Refusal returns a refusal that every other process would return too.
func Refusal(why api.Outcome) Answer { return Answer{Outcome: why, RetryAfter: time.Second} }

// Elsewhere returns a refusal of a request that another process may accept.
func Elsewhere(why api.Outcome) Answer {
	return Answer{Outcome: why, RetryAfter: time.Second, Elsewhere: true}
}

// Undecide replaces a refusal by unknown. It keeps Elsewhere, so that a peer forwards the request to
// the process that may decide it.
func (a *Answer) Undecide() {
	elsewhere := a.Elsewhere
	*a = Undecided
	a.Elsewhere = elsewhere
}

// isFinalForUser reports whether an answer also is the answer to all requests of its user that are in
// doubt: a user who has the limit, by the log or the list, gets nothing by any other request, and
// nobody does when all is sold. That stays true if the shard is handed over before the answer is
// sent.
func (a *Answer) isFinalForUser() bool { return a.Outcome == api.SoldOut || a.reachesLimit() }

// reachesLimit reports whether an answer lists claims that reach the user's limit. The refusal of a
// request for more than the limit proves nothing about other requests.
func (a *Answer) reachesLimit() bool { return a.Outcome == api.LimitReached && len(a.Claims) > 0 }

// Claim is an accepted claim, as its log has it.
type Claim struct {
	ID        ClaimID
	User      string
	Units     []int64
	Requested int64       // units requested, where fewer were given; else 0
	State     api.Outcome // Sold, Held, Expired, Cancelled, Refunded, Entered or NotDrawn
	At        time.Time
	// HeldUntil is the deadline to pay by; zero: it was never held.
	HeldUntil time.Time

	// Books is set in the answer to a query of a claim that was held or refunded.
	Books *api.Books

	// Packets is what the units are worth, nil if they are no packets of money. It
	// is set in what Service returns.
	Packets *spec.Packets

	// Payloads is what the units are, nil where they are numbers or are not published yet.
	// Undelivered means that they could not be read. They are set in what Service returns.
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
		for _, r := range b.Returned {
			n += 72 + len(r.Payment) + len(r.Who) + len(r.Why)
		}
	}
	return int64(n)
}

// ClaimID names a claim.
type ClaimID = api.ClaimID

// IsFinal reports whether only a refund can change the state that a claim was answered with. The later state of a hold
// or of an entry is known only to a process that has read the log to its end.
func (c Claim) IsFinal() bool { return c.HeldUntil.IsZero() && c.State == api.Sold }
