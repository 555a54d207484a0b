package executor

import (
	"context"
	"time"

	"salectl/api"
	"salectl/executor/shard"
	"salectl/spec"
)

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
	Decline(r Request, why api.Outcome) Answer
	// Settle confirms, extends, cancels or refunds a claim. The outcome is How.Done if
	// that is done, now or, with Replayed, before; else it says what forbids it. It
	// returns when the answer is durable, or when ctx has ended: then with Unknown if it
	// may yet be done. To ask again is safe.
	Settle(ctx context.Context, s Settlement) Answer
	// User returns a user's claims, in the order of acceptance; an Outcome other
	// than "" says why they cannot be told now.
	User(user string) ([]Claim, api.Outcome)
	// Find returns one claim by its id; an Outcome other than "" says why it cannot be told
	// now, or that there is none. A claim that a node gave is found by its user alone.
	Find(id ClaimID) (Claim, api.Outcome)
	// Status is what this process knows of the sale.
	Status() Status
	// Ready returns nil while this process can sell on every shard.
	Ready() error
}

// Status is a sale as the process that serves it sees it.
type Status struct {
	Sale       string
	Away       api.Outcome // why this process cannot tell; then only Sale is set. "": it can
	UID        string
	Generation uint64
	Phase      string // open, paused, closed
	OpensAt    time.Time
	ClosesAt   time.Time
	PerUser    int64
	Partial    bool
	RedPacket  *spec.RedPacket // nil: units are no packets of money
	Shards     []ShardStatus
	Nodes      []NodeStatus
}

// What is asked and answered, as a shard has it.
type (
	Request     = shard.Request
	Answer      = shard.Answer
	Settlement  = shard.Settlement
	Claim       = shard.Claim
	ClaimID     = shard.ClaimID
	Hold        = shard.Hold
	ShardStatus = shard.Status
	Stall       = shard.Stall
)
