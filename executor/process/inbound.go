package process

import (
	"context"
	"sync"
	"sync/atomic"

	"salectl/api"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
)

// Inbound serves the requests that arrive by a link of a peer. Its requests are decided as long as the
// peer has made no other link. On a new one the peer repeats the requests that have no answer, and a
// copy that is decided after the repetition might be granted what that was denied. All methods are safe
// for concurrent use.
type Inbound struct {
	d    *Admission
	from string
	back peers.Replies
	over atomic.Bool

	mu       sync.Mutex
	underway map[uint64]*request.Ticket // by id: requests without an answer; nil: not queued yet
}

// givenUp is the ticket of a request that was given up before it was queued.
var givenUp = new(request.Ticket)

// Register registers a request that Serve will decide later, so that it can be given up before.
func (v *Inbound) Register(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, known := v.underway[id]; !known {
		v.underway[id] = nil
	}
}

// end forgets a request that has its answer.
func (v *Inbound) end(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.underway, id)
}

// queued notes the ticket of a request, unless the request has been answered already: then the
// ticket may be another's by now.
func (v *Inbound) queued(id uint64, t *request.Ticket) (withdrawn bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before, ok := v.underway[id]
	if !ok {
		return false
	}
	v.underway[id] = t
	return before == givenUp && v.withdraw(id, t)
}

// giveUp gives up a request. It returns the ticket that has been withdrawn for that; nil: there is none
// yet, or it is being decided.
func (v *Inbound) giveUp(id uint64) *request.Ticket {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch t, ok := v.underway[id]; {
	case !ok || t == givenUp:
	case t == nil:
		v.underway[id] = givenUp
	case v.withdraw(id, t):
		return t
	}
	return nil
}

// withdraw withdraws a request that is not being decided yet. mu is held, so that the
// ticket is not given back meanwhile; no other lock is taken under it.
func (v *Inbound) withdraw(id uint64, t *request.Ticket) bool {
	if !t.Withdraw() {
		return false
	}
	delete(v.underway, id)
	return true
}

// Accept begins to serve a link that the peer with the id from has made to the process with the id to;
// "": the peer names none. Replies go to back. Accept ends the link that the peer made before. It
// returns nil if the link was made to another process. A process that was killed is among the members
// until its lease has run out, and one that was started at its address meanwhile is reached by either
// id. If it took both links, the later would end the earlier, on which the peer goes on waiting for
// answers.
func (m *Machine) Accept(from, to string, back peers.Replies) *Inbound {
	if to != "" && to != m.me.ID {
		return nil
	}
	fresh := &Inbound{d: &m.Admission, from: from, back: back, underway: make(map[uint64]*request.Ticket)}
	if before, ok := m.inbound.Swap(from, fresh); ok {
		before.(*Inbound).over.Store(true)
	}
	return fresh
}

// Over reports whether another link of the peer has been accepted since. Requests of this one are
// not decided any more, so the caller cuts it. The peer has left it, unless the first message of an
// older link was held up until now: then the peer makes a new link, instead of waiting here for ever.
func (v *Inbound) Over() bool { return v.over.Load() }

// Gone ends the link.
func (v *Inbound) Gone() { v.d.inbound.CompareAndDelete(v.from, v) }

// Serve decides a forwarded request. If this process owns the shard it is answered, otherwise bounced:
// a forwarded request is not forwarded again. It has one reply, before Serve returns or later; none, if
// the peer has made another link since. A request with Cancel has the id of the one that it withdraws,
// and is answered in place of that or not at all. ctx bounds the reads of the sale's rules.
func (v *Inbound) Serve(ctx context.Context, e peers.ForwardedRequest) {
	if e.Cancel {
		if ticket := v.giveUp(e.ID); ticket != nil {
			v.back.Answered(e.ID, ticket.WithdrawnAnswer())
		}
		return
	}
	v.Register(e.ID)
	d, now := v.d, v.d.clock()
	t := d.serving.Load()
	// A process that does not know yet that a sale was begun anew would take what is decided here
	// for the run before: an entry for one that was not drawn then.
	if t == nil || e.UID != "" && e.UID != t.uid {
		v.end(e.ID)
		v.back.Bounced(e.ID, ownership.Route{})
		return
	}
	i, ok := e.Home(len(t.shards))
	reply := func(a request.Answer) {
		v.end(e.ID)
		if a.Elsewhere && a.Outcome != api.Unknown {
			v.back.Bounced(e.ID, t.remotes[i].Route())
			return
		}
		v.back.Answered(e.ID, a)
	}
	if !ok {
		reply(request.Answer{Outcome: api.NoSuchClaim})
		return
	}
	if v.over.Load() {
		return // the peer has sent it again
	}
	s := t.local(i)
	switch {
	case s == nil || !s.Serves() || !s.May(now):
		reply(request.Answer{Elsewhere: true})
		return
	case e.Query != nil:
		a, ok := t.lookup(now, i, e.Query)
		a.Elsewhere = !ok
		reply(a)
		return
	}
	var a request.Answer
	ticket := d.admitLocal(ctx, now, t, s, &e.Request, &a)
	if ticket == nil {
		reply(a)
		return
	}
	ticket.MarkFromPeer(&v.over)
	ticket.OnAnswer(request.WaiterFunc(func() {
		v.end(e.ID) // before the ticket may be another's
		a := ticket.Finish()
		t.completeAnswer(&a)
		reply(a)
	}))
	switch refused := s.Offer(now, ticket); {
	case refused == api.Standby:
		ticket.Free()
		reply(request.Answer{Elsewhere: true})
	case refused != "":
		r := ticket.Received()
		ticket.Free()
		reply(t.refuse(s, &r, request.Refusal(refused)))
	case v.queued(e.ID, ticket):
		v.back.Answered(e.ID, ticket.WithdrawnAnswer())
	}
}
