package executor

import (
	"context"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/draw"
	"salectl/executor/ownership"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/spec"
)

// Service is a sale as its buyers see it. Executor is one.
type Service interface {
	// Sale is the name.
	Sale() string
	// Do answers one request. It returns when the answer is durable, or when ctx has ended: then
	// with Unknown if a claim may yet be accepted, or a settlement may yet be done. To repeat a
	// settlement is safe, and a claim with its key.
	//
	// A settlement has the outcome How.Done if it is done, now or, with Replayed, before. A query
	// that finds what it requests has the outcome ""; the claims of a user are in the order of
	// acceptance. A query has BadRequest if its cursor is invalid.
	Do(ctx context.Context, r Request) Answer
	// Decline answers a request that is not to be let in, with why; but with
	// Unknown, or with the claim, if an earlier request of the same user and key may
	// yet be accepted, or was.
	Decline(r Request, why api.Outcome) Answer
	// Begin is Do without a wait: answered is called once, from any goroutine, perhaps before Begin
	// returns. It must not block, nor begin another request. giveUp stands for the end of Do's
	// context, and does nothing after the answer.
	Begin(r Request, answered func(Answer)) (giveUp func())
	// Place says where a user's claims are decided, and PlaceOf where those of a shard are.
	Place(user string) Place
	PlaceOf(shard int) Place
	// Status is what this process knows of the sale.
	Status() Status
	// Ready returns nil while this process can sell on every shard.
	Ready() error
}

// Status is a sale as the process that serves it sees it.
type Status struct {
	Sale       string
	Away       api.Outcome // why this process cannot tell of the whole sale; then some of the rest is zero, and shards may be Unknown. "": it can
	UID        string
	Run        int64 // as the sale's log says; 0: it is not known
	Generation uint64
	Phase      string // in the ledger: open, paused, closed; and sealed or destroyed, while this process is away
	Sells      bool   // or would, if it is open: some shard can be written, as far as is known
	OpensAt    time.Time
	ClosesAt   time.Time
	PerUser    int64
	Partial    bool
	RedPacket  *spec.RedPacket // nil: units are no packets of money
	Commitment ledger.Hash     // to its amounts
	Draw       *draw.Status    // nil: it is no draw
	Shards     []ShardStatus
	Nodes      []NodeStatus
	Members    []MemberStatus   // the processes of the sale, as far as is known
	Moves      []MoveStatus     // shards that are not where they should be, or about to
	Problems   []status.Problem // of this process, as it compiled them last
}

// Requests and answers, as a shard has them.
type (
	Request     = shard.Request
	Settlement  = shard.Settlement
	Query       = shard.Query
	Answer      = shard.Answer
	Claim       = shard.Claim
	ClaimID     = shard.ClaimID
	Hold        = shard.Hold
	ShardStatus = shard.Status
	Stall       = shard.Stall
)

// What is known of lock nodes, processes and the owners of shards.
type (
	NodeStatus   = ownership.NodeStatus
	MemberStatus = ownership.ProcessStatus
	MoveStatus   = ownership.MoveStatus
	Traffic      = ownership.Traffic
	Share        = ownership.Share
)
