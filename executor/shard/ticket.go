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
	answer Answer
	op     int    // of the claim granted, in the commit under way
	want   int64  // units that it waits for, while it is short
	asked  bool   // a node was asked for it, and may have given it something
	minted bool   // its key is of this process, and nobody else has it
	fill   uint64 // of the list that gave it something

	// Of a request that came with a key, while it is among its shard's underway,
	// which guards older.
	home   *Shard // nil: it came without a key, and nobody can ask for it again
	hash   uint64
	number uint64 // in the order of entering
	older  *Ticket

	state atomic.Int32
	done  chan struct{} // holds one signal
	told  func()        // called in place of the signal, if set
	pool  *sync.Pool    // where it goes when it is free
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

// withdraw gives the request up; false: it is being decided.
func (t *Ticket) withdraw() bool { return t.state.CompareAndSwap(ticketWaiting, ticketWithdrawn) }

// withdrawn says whether it was given up.
func (t *Ticket) withdrawn() bool { return t.state.Load() == ticketWithdrawn }

// NewTicket takes the ticket of a request to a shard from a pool, or makes one that
// goes there when it is free. mint makes the key of a request that has none.
func NewTicket(pool *sync.Pool, s *Shard, r Request, mint func() string, now time.Duration) *Ticket {
	t := newTicket(pool, now)
	t.Request, t.want, t.minted = r, r.Quantity, r.Key == ""
	if t.minted {
		t.Key = mint()
	} else {
		t.home = s
	}
	return t
}

// LetIn says how the rules have let the request in.
func (t *Ticket) LetIn(by *Admittance) { t.by = by }

// priority is that of the request; a settlement has none.
func (t *Ticket) priority() (p rules.Priority) {
	if t.by != nil {
		p = t.by.Priority
	}
	return p
}

// NewSettlement is NewTicket for what is asked of a claim.
func NewSettlement(pool *sync.Pool, x Settlement, now time.Duration) *Ticket {
	t := newTicket(pool, now)
	t.settles = &x
	return t
}

func newTicket(pool *sync.Pool, now time.Duration) *Ticket {
	t, ok := pool.Get().(*Ticket)
	if !ok {
		t = &Ticket{done: make(chan struct{}, 1), pool: pool}
	}
	t.queuedAt, t.op, t.asked, t.minted, t.answer = now, 0, false, false, Answer{}
	t.state.Store(ticketWaiting)
	return t
}

// enter puts the ticket among those under way. Whoever queues it does so under the
// queue's lock: those of one key are answered in the order in which they have entered.
func (t *Ticket) enter() {
	if t.home != nil {
		t.home.underway.enter(t)
	}
}

// tell says that the answer is there.
func (t *Ticket) tell() {
	if t.told != nil {
		t.told()
		return
	}
	t.done <- struct{}{}
}

// Free gives back a ticket that nobody else refers to.
func (t *Ticket) Free() {
	t.Request, t.by, t.settles, t.told, t.home = Request{}, nil, nil, nil, nil
	t.pool.Put(t)
}

// OnAnswer has f called when the answer is there, in place of wait's signal.
func (t *Ticket) OnAnswer(f func()) { t.told = f }

// Wait returns the answer, or gives up when ctx ends.
func (t *Ticket) Wait(ctx context.Context) Answer {
	if ctx.Done() == nil { // the usual case within a process, and cheaper
		<-t.done
		return t.Finish()
	}
	select {
	case <-t.done:
		return t.Finish()
	case <-ctx.Done():
		return t.GiveUp()
	}
}

// GiveUp is the answer for somebody who waits no longer: if the request can
// still be withdrawn it surely was not accepted.
func (t *Ticket) GiveUp() Answer {
	if t.withdraw() {
		a := Answer{Outcome: api.Overloaded, RetryAfter: time.Second, Message: "nobody had time to decide on this request"}
		if t.home == nil { // nobody else asks for it
			return a
		}
		t.home.underway.leave(t)
		return t.home.Refuse(t.Request, a)
	}
	select {
	case <-t.done:
		return t.Finish()
	default:
		if t.home != nil {
			t.home.keepInDoubt(t.User, t.Key)
		}
		return Undecided
	}
}

// Undecided is said while nobody knows what becomes of a claim.
var Undecided = Answer{Outcome: api.Unknown, RetryAfter: time.Second}

// Finish returns the answer, which is there, and is done with the ticket.
func (t *Ticket) Finish() Answer {
	a := t.answer
	t.Free()
	return a
}
