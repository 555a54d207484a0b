package executor

import (
	"context"

	"salectl/api/streampb"
	"salectl/executor/ownership"
	"salectl/executor/process"
	"salectl/executor/request"
	"salectl/executor/shard"
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
	// Refuse returns the answer to a request that is refused with a: a; Unknown, if an earlier request
	// of the same user and key may yet be accepted; or the claim, if one was accepted.
	Refuse(r Request, a Answer) Answer
	// Begin is Do without a wait: answered is called once, from any goroutine, perhaps before Begin
	// returns. It must not block, nor begin another request. cancel is like the end of Do's
	// context, and does nothing after the answer.
	Begin(r Request, answered func(Answer)) (cancel func())
	// Place returns where a user's claims are decided, and PlaceOf where those of a shard are.
	Place(user string) Place
	PlaceOf(shard int) Place
	// Status is the state of the sale as known to this process.
	Status() Status
	// Ready returns nil while this process can sell on every shard.
	Ready() error
	// Accept takes the stream of another process of the sale, or refuses it with handle nil, such as one to a
	// process that had this address before. handle is called with each message, one after the other, and may
	// keep it; it ends the stream by returning false. While the peer reads too little of what was sent,
	// handle is not called. gone is called once, after the last message. send sends a message and never
	// waits: an error means that the stream is over.
	Accept(hello *streampb.Hello, send func(*streampb.Reply) error) (handle func(*streampb.Request) bool, gone func())
}

// What processes and their shells share.
type (
	Status    = process.Status
	Place     = process.Place
	HoldsSeen = process.HoldsSeen
	OpenUsers = process.OpenUsers
)

// Requests and answers, as a shard has them.
type (
	Request     = request.Request
	Settlement  = request.Settlement
	Query       = request.Query
	Answer      = request.Answer
	Claim       = request.Claim
	ClaimID     = request.ClaimID
	Hold        = shard.Hold
	ShardStatus = shard.Status
	Stall       = shard.Stall
)

// NodeStatus is what is known of a lock node.
type NodeStatus = ownership.NodeStatus
