package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
)

// This file handles two obstacles to requests: a ledger that is far behind, and a node that
// gives nothing though its list is on.

// refuseBlocked refuses the queued requests of a shard while this process may not append to it. While
// the backlog is full, it refuses all but those that may have a unit from an earlier call.
func (g *NodeBatcher) refuseBlocked(now clock.Now, gs *shardQueue) {
	switch {
	case !gs.shard.May(now): // its clock may be the reason
		g.refuse(gs, request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second})
	case gs.backlog.full():
		asked := slices.DeleteFunc(slices.Clone(gs.queue), func(t *request.Ticket) bool { return !t.SentToList })
		gs.queue = slices.DeleteFunc(gs.queue, func(t *request.Ticket) bool { return t.SentToList })
		g.refuse(gs, request.Answer{Outcome: api.Overloaded, RetryAfter: time.Second})
		gs.queue = asked
	}
}

// failure is why a node's calls for a list that is on fail, since when, and the time of the last one.
type failure struct {
	since, last clock.Now
	err         error // nil: they do not
}

// record records a failed call.
func (f *failure) record(now clock.Now, err error) {
	if f.err == nil {
		f.since = now
	}
	f.last, f.err = now, err
}

// Stall returns since when and why the node's calls fail. It returns nil after 2*StallAfter without a
// call: only a new request can show whether the node replies again.
func (gs *shardQueue) Stall(now clock.Now) *Stall {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	f := gs.failed
	if f.err == nil || now.Since(f.last) > 2*StallAfter {
		return nil
	}
	return &Stall{Since: f.since.Wall, Error: OneLine(f.err), Node: true}
}
