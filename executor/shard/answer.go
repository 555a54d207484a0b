package shard

import (
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/rules"
	"salectl/spec"
)

// Request is what a client or a peer requests of a sale: a claim, unless Settle or Query is set.
type Request struct {
	Settle *Settlement // confirms, extends, cancels or refunds a claim
	Query  *Query      // reads claims

	User     string // 1 to api.MaxUser bytes
	Key      string // identifies the request together with User, at most api.MaxKey bytes; "" is a new request
	Quantity int64  // units wanted, 1 to api.MaxQuantity; all or nothing, unless the sale has partial

	// Where the sale lets buyers choose; who does gets all or nothing. One of both at most.
	Units    []int64 // the numbers of the units wanted, ascending and distinct, as many as Quantity; nil: any
	Adjacent bool    // the units are to lie side by side

	// Names of units are what Executor makes Units of. No shard knows them.
	Names []string

	before *Ticket // its own, which is under way still; nil: there is none. See Ticket.Again
}

// Query requests a claim, or a page of a user's claims.
type Query struct {
	Claim ClaimID  // or
	User  string   // whose claims are requested
	Page  api.Page // of the user's claims, or of the claim's refunds due
}

// IsClaim reports whether the request is a claim.
func (r *Request) IsClaim() bool { return r.Settle == nil && r.Query == nil }

// Home returns the shard that answers the request, of that many. It returns false if the request is
// about a claim that none of them can have.
func (r *Request) Home(shards int) (shard int, ok bool) {
	switch {
	case r.Settle != nil:
		shard = r.Settle.Claim.Shard
	case r.Query != nil && r.Query.User == "":
		shard = r.Query.Claim.Shard
	case r.Query != nil:
		return spec.HomeShard(r.Query.User, shards), true
	default:
		return spec.HomeShard(r.User, shards), true
	}
	return shard, shard >= 0 && shard < shards
}

// Chooses reports whether the request is for particular units, or for adjacent ones.
func (r *Request) Chooses() bool { return r.Adjacent || r.Units != nil }

// Admittance is what the rules have decided on a request that they let in.
type Admittance struct {
	Ruling   ledger.Ruling
	Priority rules.Priority // among those that wait: the highest is decided first
}

// Answer is what a claim gets.
type Answer struct {
	Outcome api.Outcome // "" if a Query found what it requested
	// Claim is set where that is Accepted, and for all that says what became of a claim.
	Claim Claim
	// Replayed says that the request had been accepted before, or that another
	// request of the same key is the one that was: this is the same answer again.
	Replayed bool
	// Claims are the newest of the user's, for LimitReached, and Count is how many the user has.
	// They answer a Query for a user's claims.
	Claims []Claim
	Count  int
	// Next is, of a page of a user's claims, the cursor of the next; "": it is the last.
	Next string
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

// Accepted reports whether the claim has units, or is an entry that may be given some.
func (a Answer) Accepted() bool { return a.Outcome.Accepted() }

// Denies reports whether whoever gets the answer takes it that the claim is not
// accepted, and would be wrong if an earlier request of the same key still can be.
// SoldOut is among them: more units may come before that one is decided.
func (a Answer) Denies() bool { return a.Outcome.Denies() }
