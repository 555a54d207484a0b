package shard

import (
	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
)

// NodeQueue is the queue of the requests that a shard's list node serves without the sequencer. Package
// listengine implements it. All its methods but ApplyEffects are safe for concurrent use.
type NodeQueue interface {
	// Offer queues a ticket, or returns why it cannot.
	Offer(now clock.Now, t *request.Ticket) api.Outcome
	// ApplyEffects applies the condition of the list, and the effects of the sequencer on the queue. The
	// goroutine that runs the shard calls it within each Act.
	ApplyEffects(now clock.Now, e ListEffects)
	// ShutDown refuses all requests from now on.
	ShutDown(refusal request.Answer)

	// MayHave reports whether a user has, or may have, a unit that the log lacks.
	MayHave(user string) bool
	// Drain has all grabs so far appended to the log, and returns a channel that is closed when
	// the log has them.
	Drain() <-chan struct{}
	// State returns the present state.
	State(now clock.Now) NodeState
}

// NodeState is the state of a NodeQueue.
type NodeState struct {
	Waiting  int    // requests
	On       bool   // the list gives units
	Unlogged int64  // grabs that the log lacks
	Stall    *Stall // since when and why no units are given although they should be; nil: they are
}

// Idle reports whether no request waits for the node, and the log has all grabs.
func (s NodeState) Idle() bool { return s.Waiting == 0 && s.Unlogged == 0 }

// ListEffects is the condition of a shard's list, and the effects of the sequencer on the requests that
// wait for it.
type ListEffects struct {
	Fill        uint64            // under which the list gives units; 0: it gives none
	LoggedUsers []string          // users whose grabs the log has now
	Requeued    []*request.Ticket // tickets that got no unit before, after units have been added to the list

	// Refusal answers a request with its claim, or the reason why it has none. nil: the list is on, or the log may
	// lack some of its grabs.
	Refusal func(*request.Ticket) request.Answer
}
