package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/rules"
)

// Ticket is one request that waits for its answer. The requester may withdraw it until the sequencer
// takes it for a decision.
type Ticket struct {
	Request
	admittance *Admittance   // how the rules have admitted it; nil: there are none
	queuedAt   time.Duration // monotonic

	// answer and op belong to the sequencer until done is signalled, and to the
	// waiter from then on.
	answer       Answer
	op           int          // index of the granted claim among the ops of the commit under way
	want         int64        // units that it waits for, while it is short
	search       *search      // of other shards, for the units that it chooses; nil: none began
	firstRequest uint64       // number of the first unitRequest sent after this request began to wait: replies to earlier ones prove nothing for it; 0: none was sent
	sentToList   bool         // a list node may have given it units
	keyless      bool         // it came without a key, and has one of this process
	fromPeer     bool         // a peer sent it, and forwards it to another by itself
	superseded   *atomic.Bool // if true, the peer has repeated it, and this one is not decided any more
	fill         uint64       // fill of the list under which the node gave a unit, or reported an earlier one

	keyEntry
	forwarding

	state  atomic.Int32
	done   chan struct{} // holds one signal
	waiter Waiter        // called in place of the signal; nil: none
	pool   *sync.Pool    // where it goes when it is free
}

// keyEntry belongs to a request that came with a key, while it is in the table underway of its shard.
// The table's lock guards it, except hash.
type keyEntry struct {
	holder       atomic.Pointer[holder] // nil: it came without a key, and cannot be repeated; it may change while the requester gives up
	hash         uint64
	number       uint64 // in the order of entering
	nextInBucket *Ticket

	retained  bool // it stays in the table although it has an answer: its request is decided again
	abandoned bool // the requester has gone, though it may be accepted
}

// forwarding belongs to a request that waits for the owner of its shard. The lock of its Remote guards
// it, except forwardedBy.
type forwarding struct {
	forwardID    uint64        // its id there; 0: it was never forwarded
	turn         uint64        // in the order of arrival
	waitsSince   time.Duration // monotonic: since when it waits for an owner
	maybeDecided bool          // another process may have decided it
	fromShard    bool          // it was queued on a shard of this process before
	cancelled    bool          // the requester gave up while the request was forwarded: it is forwarded to no other process

	forwardedBy atomic.Pointer[Remote] // the Remote that has forwarded it, which cancel notifies; nil: none
}

// holder is what holds a ticket until its answer: a shard of this process, or a Remote.
type holder interface {
	// withdrawn is called when a ticket was withdrawn, and will not be decided.
	withdrawn(t *Ticket)
	// abandoned is called when the requester has gone, though the ticket may be accepted.
	abandoned(t *Ticket)
	// Refuse returns the answer to a request that is refused with a: a itself, unless that would deny a claim
	// that was accepted or may be yet.
	Refuse(r Request, a Answer) Answer
	// knowsOutcome reports whether this process knows the outcome of claims that other processes have
	// decided. If so, Refuse returns the claim of a request that was accepted.
	knowsOutcome() bool
}

// heldBy returns the holder of the ticket; nil: it came without a key.
func (t *Ticket) heldBy() holder {
	if in := t.holder.Load(); in != nil {
		return *in
	}
	return nil
}

// The states of a ticket.
const (
	ticketWaiting int32 = iota
	ticketTaken         // being decided or appended
	ticketWithdrawn
)

// take reserves the ticket for a decision. It returns false if the ticket was withdrawn.
func (t *Ticket) take() bool { return t.state.CompareAndSwap(ticketWaiting, ticketTaken) }

// putBack allows withdrawing again.
func (t *Ticket) putBack() { t.state.Store(ticketWaiting) }

// withdrawn reports whether the ticket was withdrawn.
func (t *Ticket) withdrawn() bool { return t.state.Load() == ticketWithdrawn }

// NewTicket takes a ticket from a pool, or makes one that Free puts there. mint makes the key of a
// claim that has none.
func NewTicket(pool *sync.Pool, r Request, mint func() string, now time.Duration) *Ticket {
	t := newTicket(pool, now)
	t.Request, t.want, t.search, t.firstRequest, t.keyless = r, r.Quantity, nil, 0, r.Key == "" && r.IsClaim()
	if t.keyless {
		t.Key = mint()
	}
	return t
}

// Received returns the request as it came: without a key that mint has made.
func (t *Ticket) Received() Request {
	r := t.Request
	if t.keyless {
		r.Key = ""
	}
	return r
}

// keyed reports whether the request came with a key, by which it may be repeated before its answer.
// Only claims have keys.
func (t *Ticket) keyed() bool { return t.Key != "" && !t.keyless }

// forRequester returns an answer as the requester may see it. The key of a keyless request belongs to
// it alone. If the log has the key, this process or a peer has decided the request twice: it is no
// repetition by the requester.
func (t *Ticket) forRequester(a Answer) Answer {
	a.Replayed = a.Replayed && !t.keyless
	return a
}

// MarkFromPeer records that a peer has forwarded the request: if this process does not decide it, the peer
// forwards it to another. Once superseded is true the peer has sent the request again, and this ticket is
// refused if it is not decided yet. It is called before the ticket is queued.
func (t *Ticket) MarkFromPeer(superseded *atomic.Bool) { t.fromPeer, t.superseded = true, superseded }

// isSuperseded reports whether the peer that forwarded the request has sent it again.
func (t *Ticket) isSuperseded() bool { return t.superseded != nil && t.superseded.Load() }

// SetAdmittance sets how the rules have admitted the request.
func (t *Ticket) SetAdmittance(by *Admittance) { t.admittance = by }

// priority is that of the request; a settlement has none.
func (t *Ticket) priority() (p rules.Priority) {
	if t.admittance != nil {
		p = t.admittance.Priority
	}
	return p
}

func newTicket(pool *sync.Pool, now time.Duration) *Ticket {
	t, ok := pool.Get().(*Ticket)
	if !ok {
		t = &Ticket{done: make(chan struct{}, 1), pool: pool}
	}
	t.queuedAt, t.op, t.sentToList, t.keyless, t.fromPeer, t.answer = now, 0, false, false, false, Answer{}
	t.forwardID, t.turn, t.waitsSince, t.maybeDecided, t.fromShard, t.cancelled = 0, 0, 0, false, false, false
	t.retained, t.abandoned = false, false
	t.forwardedBy.Store(nil)
	t.state.Store(ticketWaiting)
	return t
}

// enter adds the ticket to the table underway of a shard. The caller holds the queue's lock: tickets of
// one key are answered in the order in which they have entered.
func (t *Ticket) enter(p *pending) {
	if t.keyed() {
		if t.holder.Load() == nil { // else it is there already
			p.underway.enter(t)
		}
		t.holder.Store(&p.self)
	}
	t.state.CompareAndSwap(ticketTaken, ticketWaiting) // one that has waited for a peer was taken: it may be withdrawn again
}

// complete signals that the ticket has its answer.
func (t *Ticket) complete() {
	if t.waiter != nil {
		t.waiter.Answered()
		return
	}
	t.done <- struct{}{}
}

// Free puts a ticket back into its pool. Nobody else may refer to it.
func (t *Ticket) Free() {
	t.Request, t.admittance, t.waiter, t.superseded = Request{}, nil, nil, nil
	t.holder.Store(nil)
	t.pool.Put(t)
}

// Waiter is called once when a ticket has its answer. It must not block.
type Waiter interface{ Answered() }

// WaiterFunc is a function that implements Waiter.
type WaiterFunc func()

// Answered implements Waiter.
func (f WaiterFunc) Answered() { f() }

// OnAnswer sets w to be called when the ticket has its answer, instead of the signal for Wait.
func (t *Ticket) OnAnswer(w Waiter) { t.waiter = w }

// Wait returns the answer, or gives up when ctx ends.
func (t *Ticket) Wait(ctx context.Context) Answer {
	if t.Await(ctx) {
		return t.Finish()
	}
	return t.GiveUp()
}

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

// GiveUp returns the answer to a requester that stops waiting, after Await returned false. It withdraws the
// request if that is still possible, and returns the answer if there is one by now. Otherwise the claim may
// yet be accepted, and the answer is Undecided; that of a query is Standby. The caller must not use the
// ticket afterwards.
func (t *Ticket) GiveUp() Answer {
	if t.Withdraw() {
		return t.WithdrawnAnswer()
	}
	select {
	case <-t.done:
		return t.Finish()
	default:
		if in := t.heldBy(); in != nil {
			in.abandoned(t)
		}
		if by := t.forwardedBy.Load(); by != nil {
			by.cancel(t)
		}
		if t.Query != nil {
			return refuseHere(api.Standby)
		}
		return Undecided
	}
}

// Withdraw withdraws the request, so that it is not decided. It returns false if the request is being
// decided, and will be answered.
func (t *Ticket) Withdraw() bool { return t.state.CompareAndSwap(ticketWaiting, ticketWithdrawn) }

// WithdrawnAnswer returns the answer to a withdrawn request: Overloaded, unless the claim was accepted
// before or may be yet; that of a query is Standby. The caller of a successful Withdraw calls it, once.
func (t *Ticket) WithdrawnAnswer() Answer {
	a := Answer{Outcome: api.Overloaded, RetryAfter: time.Second, Message: "nobody had time to decide on this request"}
	in := t.heldBy()
	switch {
	case t.Query != nil:
		return refuseHere(api.Standby)
	case in == nil && t.maybeDecided:
		return Undecided
	case in == nil: // it cannot be repeated
		return a
	}
	in.withdrawn(t)
	if t.maybeDecided && !in.knowsOutcome() {
		in.abandoned(t)
		return Undecided
	}
	return t.forRequester(in.Refuse(t.Request, a))
}

// Undecided is the answer while the outcome of a claim is unknown.
var Undecided = Answer{Outcome: api.Unknown, RetryAfter: time.Second}

// OtherRules reports whether the request was refused because the rules in force are not those that admitted
// it: the caller has the rules in force decide on it and repeats it; see Repeat. The ticket must have its
// answer.
func (t *Ticket) OtherRules() bool { return t.answer.OtherRules }

// Repeat returns the request of a ticket with the answer OtherRules, to be decided again. The ticket
// stays in the table underway, so that no other request of its key is denied what this one may yet
// get, until the next ticket replaces it or Finish is called. The caller calls Finish in any case.
func (t *Ticket) Repeat() Request {
	r := t.Received()
	if t.retained {
		r.before = t
	}
	return r
}

// Finish returns the answer and frees the ticket. The ticket must have its answer.
func (t *Ticket) Finish() Answer {
	a := t.answer
	if t.retained {
		t.heldBy().withdrawn(t)
	}
	t.Free()
	return a
}
