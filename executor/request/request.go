// Package request has the requests that a process of a sale answers, from their arrival until their answer,
// and decides what may be answered while the outcome of a claim is unknown. It makes no call and starts no
// goroutine.
//
// A Request is a claim, a settlement or a query, whether it comes by HTTP, by a stream or from a peer. A
// Ticket is a Request that waits for its Answer:
//
//	waiting   -> taken      Take: a shard decides it, or it is forwarded to a peer
//	taken     -> waiting    PutBack: it waits on, for units or for another process
//	taken     -> completed  Complete, once Answer is set
//	waiting   -> withdrawn  Withdraw: the requester has gone, and the request is not decided
//
// # Guarantees
//
// A request that was accepted, or may yet be accepted, is not denied to a repetition of it. Requests that came
// with a key are in the table Underway from their queueing until their answer. Requests that were answered
// with Unknown are in Doubts until this process has read the shard's log behind everything that it ever sent
// there. Pending replaces by Undecided each denial that these two do not allow.
//
// # What callers do
//
// A shard, or the stand-in for a shard that another process owns, has a Pending that holds its tickets. It
// enters tickets under the lock of its queue, so that they are answered in the order of entering. It passes
// answered tickets to Pending.Conclude or Underway.Conclude before it completes them. The caller of Cancel or
// Finish must not use the ticket afterwards, since it returns to its pool.
package request

import (
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

	// Names are names of units, which package executor resolves to Units. Shards do not use them.
	Names []string

	before *Ticket // its earlier ticket, which is still under way; nil: there is none. See Ticket.Repeat
}

// Query requests a claim, or a page of a user's claims.
type Query struct {
	Claim ClaimID  // or
	User  string   // whose claims are requested
	Page  api.Page // of the user's claims, or of the claim's refunds due
}

// Settlement is a request to change an accepted claim. Its texts are within their bounds.
type Settlement struct {
	Claim ClaimID
	How   api.How
	api.Settlement
}

// IsClaim reports whether the request is a claim.
func (r *Request) IsClaim() bool { return r.Settle == nil && r.Query == nil }

// IsRefund reports whether the request is for a refund, by which a sold unit comes back.
func (r *Request) IsRefund() bool { return r.Settle != nil && r.Settle.How == api.Refund }

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

// MinUnits returns how many units a shard must have to receive a request of another shard for a claim.
func (r *Request) MinUnits() int64 {
	if r.Adjacent {
		return r.Quantity
	}
	return 1
}

// Demand returns the units that a claim chooses.
func (r *Request) Demand() ledger.Demand { return ledger.Demand{Units: r.Units, Adjacent: r.Adjacent} }

// Admittance is the decision of the rules on a request that they admit.
type Admittance struct {
	Ruling   ledger.Ruling
	Priority rules.Priority // among the requests that wait; the highest is decided first
}
