package request

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/rules"
)

// Ticket is one request that waits for its answer. The requester may withdraw the request until the deciding
// shard takes the ticket (Take).
type Ticket struct {
	Request
	Admittance *Admittance   // decision of the rules that admitted the request; nil: no rules were applied
	QueuedAt   time.Duration // monotonic

	Answer Answer // belongs to the deciding shard until Complete, and to the waiter from then on
	Decision
	keyEntry
	Forwarding

	keyless    bool         // the request came without a key, and has one that this process made
	fromPeer   bool         // a peer forwarded the request, and forwards it to another process if this one does not decide it
	superseded *atomic.Bool // true: the peer has sent the request again, and this ticket is not decided any more; may be nil

	state  atomic.Int32
	done   chan struct{} // holds one signal
	waiter Waiter        // called in place of the signal; nil: none
	pool   *sync.Pool    // where Free puts the ticket
}

// Decision is the progress of a ticket towards its answer. It belongs to the deciding shard until the
// ticket is completed.
type Decision struct {
	Op           int     // index of the granted claim among the ops of the commit under way
	Want         int64   // units that the request waits for, while the shard has too few
	Search       *Search // of other shards, for the units that the request chooses; nil: none began
	FirstRequest uint64  // number of the first request for units that the shard sent after the ticket began to wait: replies to earlier ones prove nothing for it; 0: none was sent
	SentToList   bool    // a list node may have given the user units
	Fill         uint64  // fill of the list under which the node granted a unit, or reported an earlier one
}

// Search is the progress of the search in other shards for the units that one waiting claim chooses.
type Search struct {
	None           map[int]bool // shards that have replied without fitting units
	RequestedShard int          // the shard with a request for adjacent units for the claim, +1; 0: none
}

// keyEntry belongs to a request that came with a key, while it is in the table Underway of its shard.
// The table's lock guards it.
type keyEntry struct {
	holder atomic.Pointer[Pending] // the Pending that entered the ticket last; nil: the request came without a key; may change while the requester stops waiting
	hash   uint64                  // of user and key
	number uint64                  // in the order of entering
	next   *Ticket                 // in the same list of Underway; nil: none

	retained  bool // it stays in the table although it has an answer: its request is decided again
	abandoned bool // the requester has gone, though the request may be accepted
}

// Forwarding belongs to a request that waits for the process that owns its shard. The lock of its forwarder
// guards it, except cancel.
type Forwarding struct {
	ForwardID    uint64        // id of the request at the owner; 0: it was never forwarded
	Turn         uint64        // position in the order in which requests are forwarded
	WaitsSince   time.Duration // monotonic: when the request began to wait for an owner
	MaybeDecided bool          // another process may have decided it
	Cancelled    bool          // the requester stopped waiting while the request was forwarded: it is forwarded to no other process

	cancel atomic.Pointer[func(*Ticket)] // see OnCancel; nil: it was not forwarded
}

// OnCancel records that the ticket was forwarded: cancel is called if its requester stops waiting.
func (f *Forwarding) OnCancel(cancel *func(*Ticket)) { f.cancel.Store(cancel) }

// Held reports whether the ticket has a holder. A ticket that came without a key has none.
func (t *Ticket) Held() bool { return t.holder.Load() != nil }

// The states of a ticket.
const (
	ticketWaiting int32 = iota
	ticketTaken         // being decided or appended
	ticketWithdrawn
)

// Take reserves the ticket for a decision. It returns false if the ticket was withdrawn.
func (t *Ticket) Take() bool { return t.state.CompareAndSwap(ticketWaiting, ticketTaken) }

// PutBack ends a reservation by Take: the ticket waits again, and may be withdrawn.
func (t *Ticket) PutBack() { t.state.Store(ticketWaiting) }

// Withdrawn reports whether the ticket was withdrawn.
func (t *Ticket) Withdrawn() bool { return t.state.Load() == ticketWithdrawn }

// NewTicket returns a ticket for a request, from a pool to which Free returns it. newKey makes the key of a
// claim that has none.
func NewTicket(pool *sync.Pool, r Request, newKey func() string, now time.Duration) *Ticket {
	t, ok := pool.Get().(*Ticket)
	if !ok {
		t = &Ticket{done: make(chan struct{}, 1)}
	}
	done := t.done
	*t = Ticket{}
	t.Request, t.QueuedAt, t.Want, t.done, t.pool, t.keyless = r, now, r.Quantity, done, pool, r.Key == "" && r.IsClaim()
	if t.keyless {
		t.Key = newKey()
	}
	return t
}

// Received returns the request as it came: without a key that NewTicket has made.
func (t *Ticket) Received() Request {
	r := t.Request
	if t.keyless {
		r.Key = ""
	}
	return r
}

// Keyed reports whether the request came with a key, by which it may be repeated before its answer.
// Only claims have keys.
func (t *Ticket) Keyed() bool { return t.Key != "" && !t.keyless }

// ForRequester returns an answer as the requester may see it: not as Replayed, if the request came without a
// key. Only that request has the key that this process made: if the log has the key already, processes have
// decided the request twice, and the requester has not repeated it.
func (t *Ticket) ForRequester(a Answer) Answer {
	a.Replayed = a.Replayed && !t.keyless
	return a
}

// MarkFromPeer records that a peer has forwarded the request under an id: if this process does not decide it,
// the peer forwards it to another. Once superseded is true the peer has sent the request again, and this
// ticket is refused if it is not decided yet. MarkFromPeer is called before the ticket is queued.
func (t *Ticket) MarkFromPeer(id uint64, superseded *atomic.Bool) {
	t.ForwardID, t.fromPeer, t.superseded = id, true, superseded
}

// IsSuperseded reports whether the peer that forwarded the request has sent it again.
func (t *Ticket) IsSuperseded() bool { return t.superseded != nil && t.superseded.Load() }

// Priority returns the request's priority by the rules, zero without rules and for a settlement.
func (t *Ticket) Priority() (p rules.Priority) {
	if t.Admittance != nil {
		p = t.Admittance.Priority
	}
	return p
}

// Complete signals that the ticket has its answer.
func (t *Ticket) Complete() {
	if t.waiter != nil {
		t.waiter.Answered()
		return
	}
	t.done <- struct{}{}
}

// Free puts a ticket back into its pool. Nobody else may refer to it.
func (t *Ticket) Free() {
	t.Request, t.Admittance, t.waiter, t.superseded = Request{}, nil, nil, nil
	t.holder.Store(nil)
	t.pool.Put(t)
}

// Waiter is called once when a ticket has its answer. It must not block.
type Waiter interface{ Answered() }

// WaiterFunc is a function that implements Waiter.
type WaiterFunc func()

// Answered implements Waiter.
func (f WaiterFunc) Answered() { f() }

// OnAnswer sets w to be called when the ticket has its answer, instead of the signal for Await.
func (t *Ticket) OnAnswer(w Waiter) { t.waiter = w }

// Await waits for the answer, and returns false if ctx ends first.
func (t *Ticket) Await(ctx context.Context) bool {
	if ctx.Done() == nil { // the usual case within a process, and cheaper
		<-t.done
		return true
	}
	select {
	case <-t.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Cancel returns the answer to a requester that stops waiting, after Await returned false. It withdraws the
// request if that is still possible, and returns the answer if there is one by now. Otherwise the claim may
// yet be accepted, and the answer is Undecided; for a query it is Standby. The caller must not use the
// ticket afterwards.
func (t *Ticket) Cancel() Answer {
	if t.Withdraw() {
		return t.WithdrawnAnswer()
	}
	select {
	case <-t.done:
		return t.Finish()
	default:
		if in := t.holder.Load(); in != nil {
			in.Abandoned(t)
		}
		if cancel := t.cancel.Load(); cancel != nil {
			(*cancel)(t)
		}
		if t.Query != nil {
			return Refusal(api.Standby)
		}
		return Undecided
	}
}

// Withdraw withdraws the request, so that it is not decided. It returns false if the request is being
// decided, and will be answered.
func (t *Ticket) Withdraw() bool { return t.state.CompareAndSwap(ticketWaiting, ticketWithdrawn) }

// WithdrawnAnswer returns the answer to a withdrawn request: Overloaded, unless the claim was accepted
// before or may be yet; for a query it is Standby. It is called once, after a successful Withdraw.
func (t *Ticket) WithdrawnAnswer() Answer {
	a := Answer{Outcome: api.Overloaded, RetryAfter: time.Second, Message: "the request was not decided in time"}
	in := t.holder.Load()
	switch {
	case t.Query != nil:
		return Refusal(api.Standby)
	case in == nil && t.MaybeDecided:
		return Undecided
	case in == nil: // it cannot be repeated
		return a
	}
	in.Underway.Leave(t)
	if t.MaybeDecided && !in.OutcomeKnown() {
		in.Abandoned(t)
		return Undecided
	}
	return t.ForRequester(in.Refuse(t.Request, a))
}

// Repeat returns the request of a ticket with the answer OtherRules, for another decision. Until the next
// ticket replaces this one or Finish is called, it stays in the table Underway, so that no other request of
// the key is denied what this request may yet get. The caller calls Finish in any case.
func (t *Ticket) Repeat() Request {
	r := t.Received()
	if t.retained {
		r.before = t
	}
	return r
}

// Finish returns the answer and frees the ticket. The ticket must have its answer.
func (t *Ticket) Finish() Answer {
	a := t.Answer
	if t.retained {
		t.holder.Load().Underway.Leave(t)
	}
	t.Free()
	return a
}
