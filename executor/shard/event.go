package shard

import (
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/executor/request"
)

// Event is a change in a shard's environment, other than the arrival of requests. It is a value that has
// the same effect on a sequencer of the same state at the same time. Only events change the ledger's state.
type Event interface {
	happen(now clock.Now, q *sequencer)
}

// Events of the shard itself. Message (from another shard) and Rights are others.
type (
	// Ticked is the arrival of the time Effects.Wake, or a later one.
	Ticked struct{}
	// replied is the reply to the request of the store that is under way.
	replied struct{ ledger.Reply }
	// Planned has all generations of the sale's log, from the first, as far as they change this shard.
	Planned []*pb.Generation
	// Ranked has the ranks of this shard's entries, the lowest first. It is posted once the sale's log
	// has all ranks of its draw.
	Ranked []Award
	// Halt stops a shard. Refusal is the outcome of its undecided requests. Gentle lets the shard
	// decide first what is queued. Elsewhere means that another process may decide the undecided
	// requests, as in Answer.
	Halt struct {
		Why       error
		Refusal   api.Outcome
		Gentle    bool
		Elsewhere bool
	}
)

// answer returns the answer to the undecided requests.
func (h Halt) answer() request.Answer {
	if h.Elsewhere {
		return request.Elsewhere(h.Refusal)
	}
	return request.Refusal(h.Refusal)
}

func (Ticked) happen(now clock.Now, q *sequencer)    { q.tick(now) }
func (r replied) happen(now clock.Now, q *sequencer) { q.storeReplied(now, r.Reply) }
func (p Planned) happen(_ clock.Now, q *sequencer)   { q.generations = p }
func (r Ranked) happen(_ clock.Now, q *sequencer) {
	if len(q.awards.all) == 0 { // they do not change
		q.awards.all = r
	}
}
func (r Rights) happen(now clock.Now, q *sequencer) { q.setRights(now, r) }
func (m Message) happen(_ clock.Now, q *sequencer)  { q.transfers.handle(m) }

// happen ends the sequencer once the outcome of the commit under way is known. If h is gentle, the sequencer ends
// only once no request waits for a decision either.
func (h Halt) happen(now clock.Now, q *sequencer) {
	if !h.Gentle || q.mode != serving {
		q.stop(h.Why, h.answer())
		return
	}
	q.gentleHalt = &h
	if q.list != nil {
		q.list.list.ScheduleDrain(now, 0)
	}
}

// Events of a shard whose units are in a list.
type (
	// listReplied is the reply to the call of the list's node that is under way.
	listReplied struct{ lists.Reply }
	// DrainRequested requests that the grabs of the list be drained at once.
	DrainRequested struct{}
	// FillLost reports that the node has lost, or may have lost, the grabs of a fill.
	FillLost struct{ Fill uint64 }
	// GrabsDone is the result of one batch of a call to the list's node.
	GrabsDone struct {
		At         clock.Now
		Fill       uint64            // under which the node was called
		CalledAt   time.Duration     // monotonic: time of the call
		FillLost   bool              // the list has another fill now
		Unanswered bool              // the call got no reply, and may have given units
		DrainNow   bool              // the grabs of the list are to be drained at once
		Entry      uint64            // number of the stream's entry that the batch has written; 0: it was given nothing
		Grabs      []ledger.Grab     // of that entry
		Unlogged   []*request.Ticket // got units, and are answered when the ledger has them
		Short      []*request.Ticket // got nothing, because the list is empty
	}
)

func (r listReplied) happen(now clock.Now, q *sequencer)  { q.list.list.Done(now, r.Reply) }
func (DrainRequested) happen(now clock.Now, q *sequencer) { q.list.list.ScheduleDrain(now, 0) }
func (l FillLost) happen(now clock.Now, q *sequencer)     { q.list.list.Lost(now, l.Fill) }
