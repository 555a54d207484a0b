package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/rules"
)

// Ticket is one request on its way through a sequencer. Whoever waits for it
// may withdraw it, until the sequencer takes it to decide.
type Ticket struct {
	Request
	by       *Admittance   // how the rules have let it in; nil: there are none
	settles  *Settlement   // what it asks of a claim; nil: it asks for units
	queuedAt time.Duration // monotonic

	// answer and op belong to the sequencer until done is signalled, and to the
	// waiter from then on.
	answer   Answer
	op       int          // of the claim granted, in the commit under way
	want     int64        // units that it waits for, while it is short
	search   *search      // of other shards, for the units that it chooses; nil: none began
	asked    bool         // a node was asked for it, and may have given it something
	minted   bool         // its key is of this process, and nobody else has it
	fromPeer bool         // another process sent it, and asks elsewhere by itself
	void     *atomic.Bool // it is not decided any more when that is true; nil: it is
	fill     uint64       // of the list that gave it something

	// Of a request that came with a key, while it is among its shard's underway, wherever it waits,
	// which guards what follows but hash.
	in     atomic.Pointer[place] // nil: it came without a key, and nobody can ask for it again; it may move while whoever waits gives up
	hash   uint64
	number uint64 // in the order of entering
	older  *Ticket

	stays    bool // it is among them although it has an answer: its request is to be decided again
	forsaken bool // nobody waits for it any more, though it may be accepted

	// While another process is to decide; a Remote's lock guards them.
	forwardID uint64        // by which it is asked for there; 0: it never was
	turn      uint64        // in the order of coming
	parkedAt  time.Duration // monotonic: since when it waits for somebody to ask
	tried     bool          // it may have been decided
	moved     bool          // a shard of this process had it first
	gone      bool          // nobody waits for it any more

	passedBy atomic.Pointer[Remote] // by whom it was sent to another process; nil: it was not

	state atomic.Int32
	done  chan struct{} // holds one signal
	told  Waiter        // told in place of the signal; nil: nobody is
	pool  *sync.Pool    // where it goes when it is free
}

// place is where a ticket is under way: a shard of this process, or the stand-in of one
// of another.
type place interface {
	// left says that nobody waits for the ticket any more, which is not decided.
	left(t *Ticket)
	// abandoned says that nobody waits for it any more, though it may be accepted.
	abandoned(t *Ticket)
	Refuse(r Request, a Answer) Answer
	// surely says whether it is known here what became of a claim on which another process
	// may have decided: Refuse says so.
	surely() bool
}

// place is where the ticket is under way; nil: it came without a key.
func (t *Ticket) place() place {
	if in := t.in.Load(); in != nil {
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

// take reserves the ticket for a decision; false: nobody waits for it any more.
func (t *Ticket) take() bool { return t.state.CompareAndSwap(ticketWaiting, ticketTaken) }

// putBack allows withdrawing again.
func (t *Ticket) putBack() { t.state.Store(ticketWaiting) }

// withdrawn says whether it was given up.
func (t *Ticket) withdrawn() bool { return t.state.Load() == ticketWithdrawn }

// NewTicket takes the ticket of a request from a pool, or makes one that
// goes there when it is free. mint makes the key of a request that has none.
func NewTicket(pool *sync.Pool, r Request, mint func() string, now time.Duration) *Ticket {
	t := newTicket(pool, now)
	t.Request, t.want, t.search, t.minted = r, r.Quantity, nil, r.Key == ""
	if t.minted {
		t.Key = mint()
	}
	return t
}

// Received returns the request as it came: without a key that was minted here.
func (t *Ticket) Received() Request {
	r := t.Request
	if t.minted {
		r.Key = ""
	}
	return r
}

// keyed says whether the request came with a key, by which it may be asked for again while it
// is under way. What is asked of a claim has none.
func (t *Ticket) keyed() bool { return t.Key != "" && !t.minted }

// own returns an answer as whoever asks may see it. A key that was minted here is of this
// request alone: that it is found in the log says that the request was decided again, by
// this process or another that it was sent to, and not that somebody had asked before.
func (t *Ticket) own(a Answer) Answer {
	a.Replayed = a.Replayed && !t.minted
	return a
}

// FromPeer marks the request as one that a peer has sent: where this one does not decide,
// that one is told so. When void is true it is not decided any more, since that process has
// asked again.
func (t *Ticket) FromPeer(void *atomic.Bool) { t.fromPeer, t.void = true, void }

func (t *Ticket) isVoid() bool { return t.void != nil && t.void.Load() }

// LetIn says how the rules have let the request in.
func (t *Ticket) LetIn(by *Admittance) { t.by = by }

// priority is that of the request; a settlement has none.
func (t *Ticket) priority() (p rules.Priority) {
	if t.by != nil {
		p = t.by.Priority
	}
	return p
}

func newTicket(pool *sync.Pool, now time.Duration) *Ticket {
	t, ok := pool.Get().(*Ticket)
	if !ok {
		t = &Ticket{done: make(chan struct{}, 1), pool: pool}
	}
	t.queuedAt, t.op, t.asked, t.minted, t.fromPeer, t.answer = now, 0, false, false, false, Answer{}
	t.forwardID, t.turn, t.parkedAt, t.tried, t.moved, t.gone = 0, 0, 0, false, false, false
	t.stays, t.forsaken = false, false
	t.passedBy.Store(nil)
	t.state.Store(ticketWaiting)
	return t
}

// enter puts the ticket among those under way on a shard. Whoever queues it does so under
// the queue's lock: those of one key are answered in the order in which they have entered.
func (t *Ticket) enter(s *Shard) {
	if t.keyed() {
		if t.in.Load() == nil { // else it is there already
			s.underway.enter(t)
		}
		t.in.Store(&s.self)
	}
	t.state.CompareAndSwap(ticketTaken, ticketWaiting) // as one that waited for a peer was: it may be withdrawn from here on
}

// tell says that the answer is there.
func (t *Ticket) tell() {
	if t.told != nil {
		t.told.Answered()
		return
	}
	t.done <- struct{}{}
}

// Free gives back a ticket that nobody else refers to.
func (t *Ticket) Free() {
	t.Request, t.by, t.settles, t.told, t.void = Request{}, nil, nil, nil, nil
	t.in.Store(nil)
	t.pool.Put(t)
}

// Waiter is told that an answer is there, once. It must not block.
type Waiter interface{ Answered() }

// WaiterFunc is a Waiter that is called.
type WaiterFunc func()

// Answered is Waiter's.
func (f WaiterFunc) Answered() { f() }

// OnAnswer has w told when the answer is there, in place of wait's signal.
func (t *Ticket) OnAnswer(w Waiter) { t.told = w }

// Wait returns the answer, or gives up when ctx ends.
func (t *Ticket) Wait(ctx context.Context) Answer {
	if t.Await(ctx) {
		return t.Finish()
	}
	return t.GiveUp()
}

// Await says whether the answer is there before ctx ends.
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

// GiveUp is the answer for somebody who waits no longer: if the request can
// still be withdrawn it surely was not accepted, unless another process had it before.
func (t *Ticket) GiveUp() Answer {
	if t.Withdraw() {
		return t.WithdrawnAnswer()
	}
	select {
	case <-t.done:
		return t.Finish()
	default:
		if in := t.place(); in != nil {
			in.abandoned(t)
		}
		if by := t.passedBy.Load(); by != nil {
			by.forsake(t)
		}
		return Undecided
	}
}

// Withdraw gives the request up, so that nobody decides on it; false: it is being decided,
// and will be answered.
func (t *Ticket) Withdraw() bool { return t.state.CompareAndSwap(ticketWaiting, ticketWithdrawn) }

// WithdrawnAnswer is what whoever has withdrawn a request is to be told. It is called once.
func (t *Ticket) WithdrawnAnswer() Answer {
	a := Answer{Outcome: api.Overloaded, RetryAfter: time.Second, Message: "nobody had time to decide on this request"}
	in := t.place()
	switch {
	case in == nil && t.tried:
		return Undecided
	case in == nil: // nobody else asks for it
		return a
	}
	in.left(t)
	if t.tried && !in.surely() {
		in.abandoned(t)
		return Undecided
	}
	return in.Refuse(t.Request, a)
}

// Undecided is said while nobody knows what becomes of a claim.
var Undecided = Answer{Outcome: api.Unknown, RetryAfter: time.Second}

// OtherRules says whether the answer, which is there, has it.
func (t *Ticket) OtherRules() bool { return t.answer.OtherRules }

// Again returns the request of a ticket with the answer OtherRules, to be decided again. It
// stays under way, so that no other of its key is denied what this one may yet get, until its
// next ticket takes its place or Finish is called, which is to be called in any case.
func (t *Ticket) Again() Request {
	r := t.Received()
	if t.stays {
		r.before = t
	}
	return r
}

// Finish returns the answer, which is there, and is done with the ticket.
func (t *Ticket) Finish() Answer {
	a := t.answer
	if t.stays {
		t.place().left(t)
	}
	t.Free()
	return a
}
