package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
)

// What keeps requests from nodes that keep lists: a ledger that is far behind, and
// a node that gives nothing though its list is on.

// turnAway refuses those who wait on a shard that this process may not give units of, and
// while the ledger is as far behind as it may be all but those who may have been given
// something.
func (g *NodeBatcher) refuseBlocked(now clock.Now, gs *shardQueue) {
	switch {
	case !gs.shard.May(now): // its clock may be the reason
		g.refuse(gs, Answer{Outcome: api.NoQuorum, RetryAfter: time.Second})
	case gs.backlog.full():
		asked := slices.DeleteFunc(slices.Clone(gs.queue), func(t *Ticket) bool { return !t.sentToList })
		gs.queue = slices.DeleteFunc(gs.queue, func(t *Ticket) bool { return t.sentToList })
		g.refuse(gs, Answer{Outcome: api.Overloaded, RetryAfter: time.Second})
		gs.queue = asked
	}
}

// failure is since when and why a node gives nothing from a list that is on, and
// when it last said so.
type failure struct {
	since, last clock.Now
	err         error // nil: it does
}

func (f *failure) record(now clock.Now, err error) {
	if f.err == nil {
		f.since = now
	}
	f.last, f.err = now, err
}

// stall says since when and why the node gives nothing from a shard's list, as long
// as that is news: somebody must ask to find out that it does again.
func (gs *shardQueue) stall(now clock.Now) *Stall {
	gs.node.mu.Lock()
	defer gs.node.mu.Unlock()
	f := gs.failed
	if f.err == nil || now.Since(f.last) > 2*StallAfter {
		return nil
	}
	return &Stall{Since: f.since.Wall, Error: OneLine(f.err), Node: true}
}
