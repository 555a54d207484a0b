package process

import (
	"sync"
	"testing"

	"salectl/executor/request"
)

// TestGivenUpBeforeQueued gives requests up before they are queued, and when they have their
// answer: only the first are withdrawn, once they wait.
func TestGivenUpBeforeQueued(t *testing.T) {
	v := new(Machine).Accept("peer", "", nil)
	ticket := func() *request.Ticket {
		return request.NewTicket(new(sync.Pool), request.Request{User: "ann", Key: "key", Quantity: 1}, nil, 0)
	}
	v.Register(1)
	if v.giveUp(1) != nil {
		t.Error("what is not queued yet has a ticket")
	}
	if !v.queued(1, ticket()) {
		t.Error("it waits, though it was given up before")
	}
	v.Register(2)
	v.end(2)
	if v.queued(2, ticket()) || v.giveUp(2) != nil {
		t.Error("what has its answer is withdrawn")
	}
	v.Register(3)
	if third := ticket(); v.queued(3, third) || v.giveUp(3) != third || v.giveUp(3) != nil {
		t.Error("what waits is withdrawn once, when it is given up")
	}
}
