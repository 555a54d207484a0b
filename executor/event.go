package executor

import (
	"fmt"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
)

// event is something that happens to a shard, other than that requests come. It is a
// value: it can be printed, and has the same effect on a sequencer of the same state
// at the same time. Only events change the ledger's state.
type event interface {
	happen(now clock.Now, q *sequencer)
	fmt.Stringer
}

// Events of the shard itself. message (from another shard), halt and rights are others.
type (
	// ticked: it is the time that effects named, or later.
	ticked struct{}
	// replied: the reply to the request of the store that is under way.
	replied struct{ ledger.Reply }
	// planned: all generations of the sale's log, from the first, as far as they change
	// this shard.
	planned []*pb.Generation
)

func (ticked) happen(now clock.Now, q *sequencer)    { q.tick(now) }
func (r replied) happen(now clock.Now, q *sequencer) { q.done(now, r.Reply) }
func (p planned) happen(_ clock.Now, q *sequencer)   { q.pending = p }
func (h halt) happen(_ clock.Now, q *sequencer)      { q.halt(h) }
func (r rights) happen(_ clock.Now, q *sequencer)    { q.rights = r }
func (m message) happen(_ clock.Now, q *sequencer)   { q.transfers.hear(m) }

func (ticked) String() string    { return "tick" }
func (r replied) String() string { return fmt.Sprintf("reply of the store: %v", orOK(r.Err)) }
func (p planned) String() string { return fmt.Sprintf("planned: %d generations", len(p)) }
func (h halt) String() string    { return fmt.Sprintf("stop: %v", h.why) }
func (r rights) String() string  { return fmt.Sprintf("may append until %v", r.lease.Until()) }

// Events of a shard whose units lie in a list.
type (
	// listReplied: the reply to the call of the list's node that is under way.
	listReplied struct{ lists.Reply }
	// hurried: somebody waits for the ledger to have what the list gave.
	hurried struct{}
	// fillLost: the node does not have what it gave in a fill, or nobody knows.
	fillLost struct{ fill uint64 }
	// grabbed: a call of the node has come back.
	gave struct {
		at    clock.Now
		fill  uint64        // under which the node was asked
		begun time.Duration // monotonic: when it was asked
		lost  bool          // that fill is not the list's any more
		soon  bool          // what the list gave is to be drained at once
		owed  []*ticket     // given something, to be answered when the ledger has it
		short []*ticket     // given nothing, for the list is empty
	}
)

func listOf(q *sequencer) *listGives { return q.engine.(*listGives) }

func (r listReplied) happen(now clock.Now, q *sequencer) { listOf(q).list.Done(now, r.Reply) }
func (hurried) happen(_ clock.Now, q *sequencer)         { q.engine.hurry() }
func (l fillLost) happen(now clock.Now, q *sequencer)    { listOf(q).list.Lost(now, l.fill) }

func (g gave) happen(_ clock.Now, q *sequencer) {
	e := listOf(q)
	if g.lost {
		e.list.Lost(g.at, g.fill)
	}
	e.given(g.at, g.owed, g.soon)
	if len(g.short) > 0 {
		e.list.Dry(g.at, g.fill, g.begun)
	}
	q.claims(g.short)
}

func (r listReplied) String() string { return fmt.Sprintf("reply of the list's node: %v", orOK(r.Err)) }
func (hurried) String() string       { return "drain at once" }
func (l fillLost) String() string    { return fmt.Sprintf("fill %d is lost", l.fill) }
func (g gave) String() string {
	return fmt.Sprintf("fill %d gave %d, had nothing for %d, lost: %v", g.fill, len(g.owed), len(g.short), g.lost)
}

func orOK(err error) any {
	if err == nil {
		return "ok"
	}
	return err
}
