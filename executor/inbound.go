package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// links are the links that this process has made, by the id of the peer. It is safe for concurrent
// use.
type links struct {
	// The results of forwarded claims and settlements. A request is answered once, however often it
	// is sent.
	answered, bounced, lost atomic.Uint64

	mu   sync.RWMutex
	all  map[string]Link
	some atomic.Bool // there are any; each request reads it
}

func (l *links) set(id string, to Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[string]Link)
	}
	if to == nil {
		delete(l.all, id)
	} else {
		l.all[id] = to
	}
	l.some.Store(len(l.all) > 0)
}

func (l *links) to(id string) Link {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[id]
}

// any reports whether any peer can be reached.
func (l *links) any() bool { return l.some.Load() }

// forward sends a request to a peer.
func (l *links) forward(id string, e shard.ForwardedRequest) bool {
	to := l.to(id)
	return to != nil && to.Forward(e)
}

func (l *links) sendUpdate(id string, t *ownership.PeerUpdate) bool {
	to := l.to(id)
	return to != nil && to.Update(t)
}

// inboundLinks are the links that peers have made to this process, by the id of the peer.
type inboundLinks struct {
	me  string // the id of this process
	mu  sync.Mutex
	all map[string]*inboundLink
}

// inboundLink is a link that a peer has made. Its requests are decided as long as the peer has made
// no other link. On a new one the peer repeats the requests that have no answer, and a copy that is
// decided after the repetition might be granted what that was denied.
type inboundLink struct {
	over atomic.Bool

	mu       sync.Mutex
	underway map[uint64]*inboundRequest // by id
}

// inboundRequest is a request of a peer that has no answer yet.
type inboundRequest struct {
	ticket *shard.Ticket // under which it waits; nil: it is not queued yet
	gone   bool          // nobody waits for the answer any more
}

// begin registers a request, unless it is registered.
func (v *inboundLink) begin(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.underway[id] == nil {
		v.underway[id] = new(inboundRequest)
	}
}

// end forgets a request that has its answer.
func (v *inboundLink) end(id uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.underway, id)
}

// queued notes the ticket of a request, unless the request has been answered already: then the
// ticket may be another's by now.
func (v *inboundLink) queued(id uint64, t *shard.Ticket) (withdrawn bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.underway[id]
	if x == nil {
		return false
	}
	x.ticket = t
	return x.gone && v.withdraw(id, x)
}

// giveUp takes in that nobody waits for the answer to a request any more. It returns the
// ticket that has been withdrawn for that; nil: none is yet, or it is being decided.
func (v *inboundLink) giveUp(id uint64) *shard.Ticket {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.underway[id]
	if x == nil {
		return nil
	}
	if x.gone = true; x.ticket == nil || !v.withdraw(id, x) {
		return nil
	}
	return x.ticket
}

// withdraw withdraws a request that is not being decided yet. mu is held, so that the
// ticket is not given back meanwhile; no other lock is taken under it.
func (v *inboundLink) withdraw(id uint64, x *inboundRequest) bool {
	if !x.ticket.Withdraw() {
		return false
	}
	delete(v.underway, id)
	return true
}

// enter begins a link of a peer, and ends the one before. It returns nil if the link was made to
// another process. A process that was killed is among the members until its lease has run out, and
// one that was started at its address meanwhile is reached by either id. If it took both
// links, the later would end the earlier, on which the peer goes on waiting for answers.
func (v *inboundLinks) enter(id, to string) *inboundLink {
	if to != "" && to != v.me {
		return nil
	}
	fresh := &inboundLink{underway: make(map[uint64]*inboundRequest)}
	v.mu.Lock()
	if v.all == nil {
		v.all = make(map[string]*inboundLink)
	}
	defer v.mu.Unlock()
	if before := v.all[id]; before != nil {
		before.over.Store(true)
	}
	v.all[id] = fresh
	return fresh
}

// leave ends a link.
func (v *inboundLinks) leave(id string, x *inboundLink) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all[id] == x {
		delete(v.all, id)
	}
}

// servePeer takes in a forwarded request. If this process owns the shard it calls answered,
// otherwise bounced, with the owner as far as it is known: a forwarded request is not forwarded
// again. It calls one of both, once; neither may wait. A request with GiveUp has the id of the one
// that it withdraws, and is answered in place of that or not at all.
func (d *admission) servePeer(ctx context.Context, now clock.Now, by *inboundLink, e shard.ForwardedRequest, answered func(Answer), bounced func(shard.Route)) {
	if e.GiveUp {
		if ticket := by.giveUp(e.ID); ticket != nil {
			answered(ticket.WithdrawnAnswer())
		}
		return
	}
	by.begin(e.ID)
	d.servePeerRequest(ctx, now, by, e, func(a Answer) {
		by.end(e.ID)
		answered(a)
	}, func(to shard.Route) {
		by.end(e.ID)
		bounced(to)
	})
}

// servePeerRequest serves a request that is not given up yet.
func (d *admission) servePeerRequest(ctx context.Context, now clock.Now, by *inboundLink, e shard.ForwardedRequest, answered func(Answer), bounced func(shard.Route)) {
	t := d.serving.Load()
	// A process that has not heard yet that a sale was begun anew would take what is decided here
	// for the run before: an entry for one that was not drawn then.
	if t == nil || e.UID != "" && e.UID != t.uid {
		bounced(shard.Route{})
		return
	}
	i, ok := e.Home(len(t.shards))
	if !ok {
		answered(Answer{Outcome: api.NoSuchClaim})
		return
	}
	if by.over.Load() {
		return // the peer has sent it again
	}
	bounce := func() { bounced(t.remotes[i].Route()) }
	s := t.local(i)
	if s == nil || !s.Serves() || !s.May(now) {
		bounce()
		return
	}
	if e.Query != nil {
		if a, ok := d.lookup(now, t, i, e.Query); ok {
			answered(a)
		} else {
			bounce()
		}
		return
	}
	a, ticket := d.admitTo(ctx, now, t, s, e.Request)
	if ticket == nil {
		answered(a)
		return
	}
	ticket.FromPeer(&by.over)
	ticket.OnAnswer(shard.WaiterFunc(func() {
		by.end(e.ID) // before the ticket may be another's
		a := ticket.Finish()
		if a.Elsewhere && a.Outcome != api.Unknown {
			bounce()
			return
		}
		t.completeAnswer(&a)
		answered(a)
	}))
	switch refused := s.Offer(now, ticket); {
	case refused == api.Standby:
		ticket.Free()
		bounce()
	case refused != "":
		a := t.refuse(s, ticket.Received(), Answer{Outcome: refused, RetryAfter: time.Second})
		ticket.Free()
		answered(a)
	case by.queued(e.ID, ticket):
		answered(ticket.WithdrawnAnswer())
	}
}
