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

	// Units and Adjacent choose units, where the sale allows it: all of them are granted, or none.
	// At most one of the two is set.
	Units    []int64 // numbers of the units wanted, ascending and distinct, as many as Quantity; nil: any
	Adjacent bool    // the units are to be adjacent

	// Names are names of units, which Executor resolves to Units. Shards do not use them.
	Names []string

	before *Ticket // its earlier ticket, which is still under way; nil: there is none. See Ticket.Repeat
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

func (r *Request) demand() ledger.Demand { return ledger.Demand{Units: r.Units, Adjacent: r.Adjacent} }

// Admittance is the decision of the rules on a request that they admit.
type Admittance struct {
	Ruling   ledger.Ruling
	Priority rules.Priority // among the requests that wait; the highest is decided first
}

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
