// Package peers connects the processes of a sale, and forwards requests between them.
//
// A process makes a link to each of its peers. It sends its own requests and updates on it and receives the
// answers there, so there are two links between two processes. Links use the stream protocol of clients: they
// carry requests marked as forwarded, and each ownership.PeerUpdate as JSON (codec.go, streams.go).
//
// # Guarantees
//
// A Remote represents one shard that another process owns. It forwards requests to the owner in the order of
// their arrival, and no request overtakes an earlier one. A request whose owner has not answered is sent
// again with its key, to the same owner or to the next, so that one that was accepted is answered from the
// log. An answer that would deny a claim which another process may have accepted becomes request.Undecided.
//
// # What callers do
//
// Callers record owners as they discover them (SetOwner, ClearOwner), report the end of links
// (HandleLinkEnd), and advance the time (Tick). A forwarded request is never forwarded again: the process
// that receives it answers it, or returns it with the owner known to it.
package peers

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/request"
)

// Remote represents a shard that another process owns. It forwards requests to the owner, and passes the
// owner's answers back. While no owner is known, or the owner does not serve the shard yet, requests wait for
// up to OwnerTimeout. All methods are safe for concurrent use.
type Remote struct {
	*request.Pending // its Underway is shared with the shard of this process
	cfg              RemoteConfig
	cancel           func(*request.Ticket) // the method Cancel
	ticketCount      atomic.Int64          // tickets; written under mu

	mu          sync.Mutex
	route       ownership.Route
	pausedUntil time.Duration     // monotonic: no request is sent to the owner before
	probing     bool              // the owner did not serve the shard yet: one request at a time is sent to find out
	queue       []*request.Ticket // not sent, in order
	sent        []*request.Ticket // sent to one process and not answered, in order
	sentTo      string            // id of that process, or of the last one
	lastID      uint64            // id of a forwarded request
	turns       uint64            // turn of the newest ticket
	closed      *request.Answer
}

// OwnerTimeout is how long a request waits for an owner that serves the shard, and how long a query waits for
// its answer.
const OwnerTimeout = time.Second

// ownerPause is the pause before the next request to an owner that does not serve its shard yet.
const ownerPause = 5 * time.Millisecond

// RemoteConfig configures a Remote. All fields but Notify are required.
type RemoteConfig struct {
	Shard    int
	UID      string // of the run
	Doubts   *request.Doubts
	Clock    clock.Clock
	MaxQueue func() int // how many requests may wait
	Me       string     // the id of this process
	IDBase   uint64     // the first forwarded request has the id after it, so that ids of two sessions differ
	// Send sends a message to the process of that id, and does not wait. It returns false if the
	// process cannot be reached now, or cannot take more.
	Send func(owner string, m *streampb.Request) bool
	// OfferLocal queues a ticket on the shard of this process, or sets the answer to a query. If it cannot, it
	// returns false, and the ticket stays with the Remote.
	OfferLocal func(now clock.Now, t *request.Ticket) bool
	// Refusal returns the answer to requests that have waited for OwnerTimeout without an answer.
	Refusal func() request.Answer
	// Notify is called when requests begin to wait, so that Tick is due earlier than it returned. It must
	// return at once, and is called from any goroutine; nil: the caller of Tick calls it often.
	Notify func()
}

// NewRemote returns a Remote with no known owner.
func NewRemote(c RemoteConfig) *Remote {
	r := &Remote{cfg: c, lastID: c.IDBase}
	r.cancel = r.Cancel
	r.Pending = &request.Pending{
		Decider: elsewhere{}, Number: c.Shard, UID: c.UID, Underway: new(request.Underway), Doubts: c.Doubts, Clock: c.Clock,
	}
	return r
}

// elsewhere is the Decider of a shard that another process owns. It cannot look up claims.
type elsewhere struct{}

func (elsewhere) Recall(clock.Now, request.Request) (a request.Answer, ok bool) { return a, false }
func (elsewhere) Serves() bool                                                  { return false }
func (elsewhere) May(clock.Now) bool                                            { return false }
func (elsewhere) MayHave(string) bool                                           { return false }

// Busy reports whether requests wait here, or for an answer of the owner. Later requests must wait behind
// them, even if this process owns the shard by now.
func (r *Remote) Busy() bool { return r.ticketCount.Load() > 0 }

// Route returns the owner of the shard as far as is known.
func (r *Remote) Route() ownership.Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.route
}

// SetOwner records the owner of the shard, unless a newer one is known.
func (r *Remote) SetOwner(now clock.Now, to ownership.Route) {
	r.update(func() []*request.Ticket {
		r.updateRoute(to)
		return r.sendQueued(now)
	})
}

// updateRoute sets the route if it has an owner, and the present one has none or an older epoch. mu is held.
func (r *Remote) updateRoute(to ownership.Route) {
	if to.Owner != "" && (to.Epoch > r.route.Epoch || r.route.Owner == "") {
		r.route, r.pausedUntil, r.probing = to, 0, false
	}
}

// ClearOwner records that a process does not own the shard any more.
func (r *Remote) ClearOwner(owner string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.route.Owner == owner {
		r.route.Owner = ""
	}
}

// Offer queues a ticket, or returns why it cannot.
func (r *Remote) Offer(now clock.Now, t *request.Ticket) (refused api.Outcome) {
	r.update(func() []*request.Ticket {
		switch {
		case r.closed != nil:
			refused = r.closed.Outcome
			return nil
		case len(r.queue) >= r.cfg.MaxQueue():
			refused = api.Overloaded
			return nil
		}
		r.enter(now, t, offered)
		r.queue = append(r.queue, t)
		return r.sendQueued(now)
	})
	return refused
}

// OfferFirst queues tickets of this process's own shard, which is ending: it has not
// decided them or, where their answer is Unknown, may have. They are queued before all tickets that were
// offered to the Remote. From now on the owner is unknown, if it was this process.
func (r *Remote) OfferFirst(now clock.Now, ts []*request.Ticket) {
	r.update(func() []*request.Ticket {
		if r.route.Owner == r.cfg.Me {
			r.route.Owner = ""
		}
		for _, t := range ts {
			t.MaybeDecided = t.MaybeDecided || t.Answer.Outcome == api.Unknown
			r.enter(now, t, 0)
			if !t.MaybeDecided { // no process has decided, so the requester may withdraw it
				t.PutBack()
			}
		}
		r.insert(ts...)
		if r.closed != nil {
			return r.refuseLate(now)
		}
		return r.sendQueued(now)
	})
}

// offered is added to the turns of offered tickets, so that those of the shard of this process come first.
const offered = 1 << 63

// enter registers a ticket that begins to wait here, in the next turn from first on. mu is held.
func (r *Remote) enter(now clock.Now, t *request.Ticket, first uint64) {
	r.turns++
	t.WaitsSince, t.Turn = now.Mono, first+r.turns
	r.Hold(t)
}

// insert queues tickets of consecutive turns in their turn. mu is held.
func (r *Remote) insert(ts ...*request.Ticket) {
	at, _ := slices.BinarySearchFunc(r.queue, ts[0], func(a, b *request.Ticket) int { return cmp.Compare(a.Turn, b.Turn) })
	r.queue = slices.Insert(r.queue, at, ts...)
}

// update calls do under the lock, and completes the tickets that do returns. It calls Notify if the queue was
// empty and is not any more.
func (r *Remote) update(do func() []*request.Ticket) {
	r.mu.Lock()
	waited := len(r.queue)
	completed := do()
	r.ticketCount.Store(int64(len(r.queue) + len(r.sent)))
	if r.cfg.Notify != nil && waited == 0 && len(r.queue) > 0 {
		r.cfg.Notify()
	}
	r.mu.Unlock()
	for _, t := range completed {
		t.Complete()
	}
}

// sendQueued sends the queued requests, if their owner is known and may be called. It returns the tickets that
// it has answered. mu is held.
func (r *Remote) sendQueued(now clock.Now) (completed []*request.Ticket) {
	to := r.route.Owner
	switch {
	case to == "" || len(r.queue) == 0 || now.Mono < r.pausedUntil || len(r.sent) > 0 && r.sentTo != to:
		return nil
	case to == r.cfg.Me:
		return r.offerLocal(now)
	}
	n := 0
	for _, t := range r.queue {
		if r.probing && len(r.sent) > 0 {
			break
		}
		if !r.takeForDecision(t) {
			n++
			continue
		}
		t.OnCancel(&r.cancel)
		r.lastID++
		t.ForwardID = uint64(r.cfg.Shard)<<forwardBits | r.lastID&(1<<forwardBits-1)
		if !r.cfg.Send(to, EncodeRequest(r.cfg.UID, t)) {
			if !t.MaybeDecided {
				t.PutBack()
			}
			break
		}
		n++
		r.sentTo, r.sent = to, append(r.sent, t)
	}
	r.queue = slices.Delete(r.queue, 0, n)
	return nil
}

// offerLocal queues the waiting requests on the shard of this process, which owns it. It returns the
// answered queries. mu is held.
func (r *Remote) offerLocal(now clock.Now) (completed []*request.Ticket) {
	n := 0
	for _, t := range r.queue {
		if !r.takeForDecision(t) {
			n++
			continue
		}
		query := t.Query != nil // the shard may free a claim's ticket as soon as it has it
		if !r.cfg.OfferLocal(now, t) {
			if !t.MaybeDecided {
				t.PutBack()
			}
			break
		}
		if n++; query {
			completed = append(completed, t)
		}
	}
	r.queue = slices.Delete(r.queue, 0, n)
	return completed
}

// takeForDecision takes a waiting ticket for a decision. It returns false if the ticket was withdrawn. mu
// is held.
func (r *Remote) takeForDecision(t *request.Ticket) bool {
	if t.Cancelled {
		r.drop(t)
		return false
	}
	return t.MaybeDecided || t.Take()
}

// Cancel records that the requester of a forwarded ticket has gone. The ticket is forwarded to no other process.
// The owner of a claim is notified, so that it does not decide the claim if it has not yet.
func (r *Remote) Cancel(t *request.Ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Cancelled = true
	if t.IsClaim() && slices.Contains(r.sent, t) {
		r.cfg.Send(r.sentTo, encodeCancel(r.cfg.UID, t)) // a courtesy: it may be lost
	}
}

// forwardBits is the number of low bits of a forwarded request's id that number the requests of one shard.
// The bits above are the shard.
const forwardBits = 44

// ShardOf returns the shard of a forwarded request by its id.
func ShardOf(id uint64) int { return int(id >> forwardBits) }

// HandleReply handles the answer to a forwarded request. After an answer that is Elsewhere the request waits
// again, before all later ones; owner is the owner known to the peer.
func (r *Remote) HandleReply(now clock.Now, id uint64, a request.Answer, owner ownership.Route) {
	r.update(func() []*request.Ticket {
		i := slices.IndexFunc(r.sent, func(t *request.Ticket) bool { return t.ForwardID == id })
		if i < 0 {
			return nil
		}
		t := r.sent[i]
		r.sent = slices.Delete(r.sent, i, i+1)
		if a.Elsewhere {
			t.MaybeDecided = t.MaybeDecided || a.Outcome == api.Unknown // the peer has stopped without knowing the outcome
			if r.route.Owner == r.sentTo {
				r.pausedUntil, r.probing = now.Mono+ownerPause, true
			}
			r.updateRoute(owner)
			r.requeue(t)
			completed := r.sendQueued(now) // before refusals: the new owner may be known by now
			return append(completed, r.refuseLate(now)...)
		}
		r.answer(t, a)
		completed := []*request.Ticket{t}
		if r.probing || len(r.sent) == 0 {
			r.probing = false
			completed = append(completed, r.sendQueued(now)...)
		}
		return completed
	})
}

// answer sets the answer to a ticket: a, or Undecided if a would deny a claim that this or an earlier request
// of its key may yet get, or may have got. mu is held.
func (r *Remote) answer(t *request.Ticket, a request.Answer) {
	undecided := a.Outcome.Row().Retry == api.Again   // the owner has not read the outcome of earlier ones
	if undecided && t.MaybeDecided && !a.OtherRules { // nor of this one, if it was sent before
		a = request.Undecided
	}
	t.Answer = t.ForRequester(a)
	if !t.Held() {
		return
	}
	earlier := r.Underway.Conclude(t)
	if a.Denies() && (earlier || undecided && r.Doubts.Has(t.User, t.Key)) {
		t.Answer = request.Undecided
	}
	if a.Outcome == api.Unknown {
		r.AddDoubt(t)
	}
}

// requeue queues a sent ticket again in its turn. mu is held.
func (r *Remote) requeue(t *request.Ticket) {
	if !t.MaybeDecided {
		t.PutBack()
	}
	r.insert(t)
}

// takeBack queues all sent requests again, as of now. Their owner may have decided all but the queries. mu is held.
func (r *Remote) takeBack(now clock.Now) {
	for _, t := range r.sent {
		if t.MaybeDecided = t.Query == nil; t.MaybeDecided {
			t.WaitsSince = now.Mono
		}
		r.requeue(t)
	}
	r.sent = nil
}

// HandleLinkEnd handles the end of the link to a process: its unanswered requests, which it may have decided, are
// sent again, to it or to another owner. HandleLinkEnd returns how many there are.
func (r *Remote) HandleLinkEnd(now clock.Now, owner string) (unanswered int) {
	r.update(func() []*request.Ticket {
		if r.sentTo == owner {
			unanswered = len(r.sent)
			r.takeBack(now)
		}
		return r.sendQueued(now)
	})
	return unanswered
}

// Tick advances the time. It returns the monotonic time at which it is due again; 0: not before another
// call.
func (r *Remote) Tick(now clock.Now) (wake time.Duration) {
	r.update(func() []*request.Ticket {
		completed := append(r.refuseLate(now), r.sendQueued(now)...)
		for _, t := range r.queue {
			wake = clock.Soonest(wake, t.WaitsSince+OwnerTimeout)
		}
		for _, t := range r.sent {
			if t.Query != nil {
				wake = clock.Soonest(wake, t.WaitsSince+OwnerTimeout)
			}
		}
		if len(r.queue) > 0 && r.pausedUntil > now.Mono {
			wake = clock.Soonest(wake, r.pausedUntil)
		}
		return completed
	})
	return wake
}

// refuseLate refuses the requests that have waited for OwnerTimeout, or all that wait once the Remote is
// closed. mu is held.
func (r *Remote) refuseLate(now clock.Now) (completed []*request.Ticket) {
	late := func(t *request.Ticket) bool { return r.closed != nil || now.Mono >= t.WaitsSince+OwnerTimeout }
	r.sent = slices.DeleteFunc(r.sent, func(t *request.Ticket) bool {
		if t.Query == nil || !late(t) {
			return false
		}
		t.PutBack()
		return r.refuse(t, &completed)
	})
	r.queue = slices.DeleteFunc(r.queue, func(t *request.Ticket) bool {
		return late(t) && r.refuse(t, &completed)
	})
	return completed
}

// refuse answers a ticket that is not sent again, and appends it to completed. A ticket that was cancelled or
// withdrawn gets no answer. refuse returns true in any case, for slices.DeleteFunc. mu is held.
func (r *Remote) refuse(t *request.Ticket, completed *[]*request.Ticket) bool {
	a := request.Undecided
	switch {
	case t.Cancelled:
		r.drop(t)
		return true
	case t.MaybeDecided:
	case !t.Take():
		return true // it was withdrawn
	case r.closed != nil:
		a = *r.closed
	default:
		a = r.cfg.Refusal()
	}
	r.answer(t, a)
	*completed = append(*completed, t)
	return true
}

// Close refuses all waiting and all later requests.
func (r *Remote) Close(why request.Answer) {
	r.update(func() []*request.Ticket {
		r.closed = &why
		r.takeBack(clock.Now{})
		return r.refuseLate(clock.Now{})
	})
}

// drop removes a ticket whose requester has gone. mu is held.
func (r *Remote) drop(t *request.Ticket) {
	if !t.Held() {
		return
	}
	if t.MaybeDecided { // perhaps set after the requester had gone
		r.AddDoubt(t)
	}
	r.Underway.Leave(t)
}
