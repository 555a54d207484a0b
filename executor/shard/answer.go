package shard

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/rules"
	"salectl/spec"
)

// Request is one claim as it reaches the executor.
type Request struct {
	User     string // 1 to api.MaxUser bytes
	Key      string // identifies the request together with User, at most api.MaxKey bytes; "" is a new request
	Quantity int64  // units wanted, 1 to api.MaxQuantity; all or nothing, unless the sale has partial

	// Where the sale lets buyers choose; who does gets all or nothing. One of both at most.
	Units    []int64 // the numbers of the units wanted, ascending and distinct, as many as Quantity; nil: any
	Adjacent bool    // the units are to lie side by side

	// Names of units are what Executor makes Units of. No shard knows them.
	Names []string
}

// Chooses says whether the request is for particular units, or for adjacent ones.
func (r *Request) Chooses() bool { return r.Adjacent || r.Units != nil }

// Admittance is what the rules have decided on a request that they let in.
type Admittance struct {
	Ruling   ledger.Ruling
	Priority rules.Priority // among those that wait: the highest is decided first
}

// Claim is an accepted claim, as its log has it.
type Claim struct {
	ID    ClaimID
	User  string
	Units []int64
	Asked int64       // units that were asked for, where fewer were given; else 0
	State api.Outcome // Sold, Held, Expired, Cancelled, Refunded, Entered or NotDrawn
	At    time.Time
	// HeldUntil is the deadline to pay by; zero: it was never held.
	HeldUntil time.Time

	// Books is set for whoever looks a claim up that was held or refunded.
	Books *Books

	// Packets is what the units are worth, nil if they are no packets of money. It
	// is set in what Service returns.
	Packets *spec.Packets

	// Payloads is what the units are, nil where they are numbers or it is not told yet.
	// Undelivered says that it could not be read. They are set in what Service returns.
	Payloads    []ledger.Payload
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
	RefundsDue []string // payments that bought nothing
}

// ClaimID names a claim by its place in the ledger, or, where a node gave it from
// a list before it had one, by its unit. Its text form is that of ledger.Claim.
type ClaimID struct {
	Shard int
	Slot  uint64
	Index int   // among the ops of the commit
	Unit  int64 // 0, or the unit of a grab; then Slot and Index are not set
}

// ParseClaimID reads a ClaimID's text form.
func ParseClaimID(s string) (id ClaimID, ok bool) {
	if n, err := fmt.Sscanf(s, "%d-u%d", &id.Shard, &id.Unit); n != 2 || err != nil {
		id = ClaimID{}
		if n, err := fmt.Sscanf(s, "%d-%d-%d", &id.Shard, &id.Slot, &id.Index); n != 3 || err != nil {
			return ClaimID{}, false
		}
	}
	return id, id.Shard >= 0 && id.Index >= 0 && id.Unit >= 0 && id.String() == s
}

func (id ClaimID) String() string {
	if id.Unit != 0 {
		return ledger.GrabID(id.Shard, id.Unit)
	}
	return fmt.Sprintf("%d-%d-%d", id.Shard, id.Slot, id.Index)
}

// Settlement is what is asked of a claim that was accepted. Its texts are within their
// bounds.
type Settlement struct {
	Claim ClaimID
	How   api.How
	api.Settlement
}

// Answer is what a claim gets.
type Answer struct {
	Outcome api.Outcome
	// Claim is set for Sold, Held and Entered, and for all that says what became of a claim.
	Claim Claim
	// Replayed says that the request had been accepted before, or that another
	// request of the same key is the one that was: this is the same answer again.
	Replayed bool
	// Claims are all of the user's, for LimitReached.
	Claims []Claim
	// RefundDue says that the payment of a settlement bought nothing, and that the ledger
	// has it for the books.
	RefundDue bool
	// OtherRules says, with NotChecked, that the rules in force are not those that had let
	// the request in: it is to be decided by the others.
	OtherRules bool
	// Elsewhere says that this process has not decided, since the shard is another's
	// now or about to be: Outcome is what to tell whoever does not ask there. With
	// Unknown the request may have been decided here.
	Elsewhere bool
	// Rule and Reason are, for NotEligible, the name of the rule that has refused the
	// request, and why, as rules.Reason has it.
	Rule, Reason string
	// OpensAt is when the sale opens, for NotOpen.
	OpensAt time.Time
	// RetryAfter is when asking again may help; 0: it will not, or at once.
	RetryAfter time.Duration
	// Message says more, for people, where there is more to say.
	Message string
}

// Stays says whether a claim is as it was answered for as long as it is not refunded. What
// becomes of a hold or of an entry only who reads the log to its end can tell.
func (c Claim) Stays() bool { return c.HeldUntil.IsZero() && c.State == api.Sold }

// Accepted says whether the claim has units, or is an entry that may be given some.
func (a Answer) Accepted() bool { return a.Outcome.Accepted() }

// Denies says whether whoever gets the answer takes it that the claim is not
// accepted, and would be wrong if an earlier request of the same key still can be.
// SoldOut is among them: more units may come before that one is decided.
func (a Answer) Denies() bool {
	switch a.Outcome {
	case api.Sold, api.Held, api.Entered, api.NotDrawn, api.Expired, api.Cancelled, api.Refunded, api.KeyReused, api.BadRequest, api.Unknown:
		return false
	}
	return true
}
