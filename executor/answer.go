package executor

import (
	"context"
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/spec"
)

// Outcome is what became of a claim. What each means to whoever asked is said by
// api.Outcomes.
type Outcome = api.Outcome

// Every claim has one of these outcomes.
const (
	Sold         = api.Sold
	Held         = api.Held
	SoldOut      = api.SoldOut
	NoneNow      = api.NoneNow
	LimitReached = api.LimitReached
	NotOpen      = api.NotOpen
	Paused       = api.Paused
	Closed       = api.Closed
	NotEligible  = api.NotEligible
	BadRequest   = api.BadRequest
	KeyReused    = api.KeyReused
	NoSuchSale   = api.NoSuchSale
	Unknown      = api.Unknown
	Overloaded   = api.Overloaded
	NoQuorum     = api.NoQuorum
	Standby      = api.Standby
	Draining     = api.Draining
)

// Request is one claim as it reaches the executor.
type Request struct {
	User     string // 1 to api.MaxUser bytes
	Key      string // identifies the request together with User, at most api.MaxKey bytes; "" is a new request
	Quantity int64  // units wanted, 1 to api.MaxQuantity; all or nothing
}

// Claim is an accepted claim, as its log has it.
type Claim struct {
	ID    ClaimID
	User  string
	Units []int64
	State Outcome // Sold or Held
	At    time.Time

	// Packets is what the units are worth, nil if they are no packets of money. It
	// is set in what Service returns.
	Packets *spec.Packets
}

// ClaimID names a claim by its place in the ledger, or, where a node gave it from
// a list before it had one, by its unit. Its text form is that of ledger.Claim.
type ClaimID struct {
	Shard int
	Slot  uint64
	Index int   // among the ops of the commit
	Unit  int64 // 0, or the unit of a grab; then Slot and Index are not set
}

func (id ClaimID) String() string {
	if id.Unit != 0 {
		return ledger.GrabID(id.Shard, id.Unit)
	}
	return fmt.Sprintf("%d-%d-%d", id.Shard, id.Slot, id.Index)
}

// Answer is what a claim gets.
type Answer struct {
	Outcome Outcome
	// Claim is set for Sold and Held.
	Claim Claim
	// Replayed says that the request had been accepted before, or that another
	// request of the same key is the one that was: this is the same answer again.
	Replayed bool
	// Claims are all of the user's, for LimitReached.
	Claims []Claim
	// OpensAt is when the sale opens, for NotOpen.
	OpensAt time.Time
	// RetryAfter is when asking again may help; 0: it will not, or at once.
	RetryAfter time.Duration
	// Message says more, for people, where there is more to say.
	Message string
}

// Accepted says whether the claim has units.
func (a Answer) Accepted() bool { return a.Outcome.Accepted() }

// denies says whether whoever gets the answer takes it that the claim is not
// accepted, and would be wrong if an earlier request of the same key still can be.
// SoldOut is among them: more units may come before that one is decided.
func (a Answer) denies() bool {
	switch a.Outcome {
	case Sold, Held, KeyReused, BadRequest, Unknown:
		return false
	}
	return true
}

// Service is a sale as its buyers see it. Executor is one.
type Service interface {
	// Sale is the name.
	Sale() string
	// Claim answers one request. It returns when the answer is durable, or
	// when ctx has ended: then with Unknown if the claim may yet be accepted.
	Claim(ctx context.Context, r Request) Answer
	// Decline answers a request that is not to be let in, with why; but with
	// Unknown, or with the claim, if an earlier request of the same user and key may
	// yet be accepted, or was.
	Decline(r Request, why Outcome) Answer
	// User returns a user's claims, in the order of acceptance; an Outcome other
	// than "" says why they cannot be told now.
	User(user string) ([]Claim, Outcome)
	// Status is what this process knows of the sale.
	Status() Status
	// Ready returns nil while this process can sell on every shard.
	Ready() error
}

// Status is a sale as the process that serves it sees it.
type Status struct {
	Sale       string
	Away       Outcome // why this process cannot tell; then only Sale is set. "": it can
	UID        string
	Generation uint64
	Phase      string // open, paused, closed
	OpensAt    time.Time
	ClosesAt   time.Time
	PerUser    int64
	RedPacket  *spec.RedPacket // nil: units are no packets of money
	Shards     []ShardStatus
	Nodes      []NodeStatus
}

// ShardStatus is one shard as its owner has it.
type ShardStatus struct {
	Shard      int
	Slot       uint64 // of the last commit
	Epoch      uint64
	Generation uint64
	Limit      int64 // units added minus removed; transfers do not change the sum
	Available  int64
	Held       int64
	Sold       int64
	InFlight   int64
	Bytes      int64  // size of the log
	Queue      int    // requests waiting
	Listed     bool   // its units lie in a list on a node
	ListOn     bool   // which gives them
	Undrained  int64  // grabs that the list gave and the log does not have yet
	Owned      bool   // this process may append
	Stall      *Stall // nil: it does not
}
