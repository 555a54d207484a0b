package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/shard"
	"salectl/spec"
)

// links are the ways to peers, by id. It is safe for concurrent use.
type links struct {
	// Errands that ask for a decision: those that were sent, and what became of them.
	sent, answered, bounced, lost atomic.Uint64

	mu  sync.RWMutex
	all map[string]Link
}

func (l *links) set(id string, to Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[string]Link)
	}
	if to == nil {
		delete(l.all, id)
		return
	}
	l.all[id] = to
}

func (l *links) to(id string) Link {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[id]
}

// any says whether any peer can be reached.
func (l *links) any() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.all) > 0
}

// ask hands an errand to a peer.
func (l *links) ask(id string, e shard.Errand) bool {
	to := l.to(id)
	if to == nil || !to.Ask(e) {
		return false
	}
	if !IsLook(e.ID) && !e.GiveUp {
		l.sent.Add(1)
	}
	return true
}

func (l *links) tell(id string, t *Tell) bool {
	to := l.to(id)
	return to != nil && to.Tell(t)
}

// visitors are the peers whose links lead here, by id.
type visitors struct {
	mu  sync.Mutex
	all map[string]*visitor
}

// visitor is one of their links. What it has brought counts as long as the peer has made
// no other: then it has asked again for what was not answered, and a copy that is decided
// later than the other might be granted what that was denied.
type visitor struct {
	over atomic.Bool

	mu       sync.Mutex
	underway map[uint64]underVisit // what has no answer yet, by errand
}

// underVisit is an errand that was queued, and what takes its answer.
type underVisit struct {
	ticket   *shard.Ticket
	answered func(Answer)
}

// begin takes down an errand that is about to be queued, and end one that has its answer.
func (v *visitor) begin(errand uint64, x underVisit) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.underway[errand] = x
}

func (v *visitor) end(errand uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.underway, errand)
}

// giveUp has an errand not be decided, if it is not being decided yet, since nobody waits for
// the answer.
func (v *visitor) giveUp(errand uint64) {
	v.mu.Lock()
	x, ok := v.underway[errand]
	if !ok {
		v.mu.Unlock()
		return
	}
	a, ok := x.ticket.Withdraw() // under the lock: it is not freed before end
	if ok {
		delete(v.underway, errand)
	}
	v.mu.Unlock()
	if ok {
		x.answered(a)
	}
}

// enter begins a link of a peer, and ends the one before.
func (v *visitors) enter(id string) *visitor {
	fresh := &visitor{underway: make(map[uint64]underVisit)}
	v.mu.Lock()
	if v.all == nil {
		v.all = make(map[string]*visitor)
	}
	defer v.mu.Unlock()
	if before := v.all[id]; before != nil {
		before.over.Store(true)
	}
	v.all[id] = fresh
	return fresh
}

// leave ends a link.
func (v *visitors) leave(id string, x *visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all[id] == x {
		delete(v.all, id)
	}
}

// visit takes in an errand of a peer. It is answered if this process owns the shard;
// otherwise bounced says who does, as far as is known: nothing that a peer sends is sent
// on. One of both is called, once, and must not wait; neither is for an errand that gives
// another up.
func (d *admission) visit(ctx context.Context, now clock.Now, by *visitor, e shard.Errand, answered func(Answer), bounced func(shard.Route)) {
	if e.GiveUp {
		by.giveUp(e.ID)
		return
	}
	t := d.tenure.Load()
	if t == nil {
		bounced(shard.Route{})
		return
	}
	if e.Claim != nil {
		e.Shard = spec.HomeShard(e.Claim.User, len(t.shards))
	} else if e.Settle != nil {
		e.Shard = e.Settle.Claim.Shard
	}
	if e.Shard < 0 || e.Shard >= len(t.shards) {
		answered(Answer{Outcome: api.NoSuchClaim})
		return
	}
	if e.Claim == nil && e.Settle == nil {
		answered(d.visitLook(now, e))
		return
	}
	if by.over.Load() {
		return // the peer has asked again
	}
	bounce := func() { bounced(t.remotes[e.Shard].Route()) }
	s := t.local(e.Shard)
	if s == nil || !s.Serves() || !s.May(now) {
		bounce()
		return
	}
	var a Answer
	var ticket *shard.Ticket
	if e.Settle != nil {
		a, ticket = d.admitSettlementTo(now, t, s, *e.Settle)
	} else {
		a, ticket = d.admitTo(ctx, now, t, s, *e.Claim)
	}
	if ticket == nil {
		answered(a)
		return
	}
	ticket.Visits(&by.over)
	by.begin(e.ID, underVisit{ticket, answered})
	ticket.OnAnswer(shard.WaiterFunc(func() {
		by.end(e.ID)
		a := ticket.Finish()
		if a.Elsewhere && a.Outcome != api.Unknown {
			bounce()
			return
		}
		t.price(&a)
		answered(a)
	}))
	if refused := s.Offer(now, ticket); refused == api.Standby {
		by.end(e.ID)
		ticket.Free()
		bounce()
	} else if refused != "" {
		by.end(e.ID)
		a := t.refuse(s, ticket.Request, Answer{Outcome: refused, RetryAfter: time.Second})
		ticket.Free()
		answered(a)
	}
}
