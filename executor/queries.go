package executor

import (
	"sync"

	"salectl/backends/clock"
	"salectl/executor/shard"
	"salectl/spec"

	"salectl/api"
)

// queries are requests to peers that change nothing: for a user's claims, or for one claim. A query
// is sent once, and does not wait for a shard that moves. It is safe for concurrent use.
type queries struct {
	mu      sync.Mutex
	last    uint64
	pending map[uint64]query
}

type query struct {
	of       string // the peer
	answered func(Answer)
}

// queryBit is set in the id of a forwarded request that is a query.
const queryBit = 1 << 63

// IsQuery reports whether the id of a forwarded request is that of a query.
func IsQuery(id uint64) bool { return id&queryBit != 0 }

// send sends a query to a peer. answered is called once, unless forget is called before. ok is false
// if the peer cannot be reached; then answered is not called.
func (l *queries) send(links *links, of string, e shard.ForwardedRequest, answered func(Answer)) (forget func(), ok bool) {
	l.mu.Lock()
	l.last++
	e.ID = l.last | queryBit
	if l.pending == nil {
		l.pending = make(map[uint64]query)
	}
	l.pending[e.ID] = query{of, answered}
	l.mu.Unlock()
	if !links.forward(of, e) {
		if _, unanswered := l.take(e.ID); unanswered { // else cut has answered it: the link ended meanwhile
			return nil, false
		}
	}
	return func() { l.take(e.ID) }, true
}

func (l *queries) take(id uint64) (query, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.pending[id]
	delete(l.pending, id)
	return x, ok
}

func (l *queries) answered(id uint64, a Answer) {
	if x, ok := l.take(id); ok {
		x.answered(a)
	}
}

// cut answers the queries to a peer whose link is cut.
func (l *queries) cut(of string, why api.Outcome) {
	l.mu.Lock()
	var over []query
	for id, x := range l.pending {
		if x.of == of {
			delete(l.pending, id)
			over = append(over, x)
		}
	}
	l.mu.Unlock()
	for _, x := range over {
		x.answered(Answer{Outcome: why})
	}
}

// queryUser queries the owner of a user's shard for a page of the user's claims. answered gets them
// in Claims, or in Outcome why they are unknown. It may be called before queryUser returns.
func (d *admission) queryUser(user string, p api.Page, answered func(Answer)) (forget func()) {
	t := d.serving.Load()
	if t == nil {
		answered(Answer{Outcome: d.notHere()})
		return func() {}
	}
	i := spec.HomeShard(user, len(t.shards))
	return d.queryOwner(t, i, shard.ForwardedRequest{Shard: i, User: user, Page: p}, answered)
}

// queryClaim queries the owner of a claim's shard for the claim. answered gets it in Claim.
func (d *admission) queryClaim(id ClaimID, p api.Page, answered func(Answer)) (forget func()) {
	t := d.serving.Load()
	if t == nil {
		answered(Answer{Outcome: d.notHere()})
		return func() {}
	}
	return d.queryOwner(t, id.Shard, shard.ForwardedRequest{Shard: id.Shard, Find: &id, Page: p}, answered)
}

func (d *admission) queryOwner(t *session, i int, e shard.ForwardedRequest, answered func(Answer)) (forget func()) {
	e.UID = t.uid
	forget, ok := d.queries.send(&d.links, t.remotes[i].Route().Owner, e, answered)
	if !ok { // no link leads to the owner
		answered(Answer{Outcome: d.notHere()})
		return func() {}
	}
	return forget
}

// servePeerQuery answers a query of a peer.
func (d *admission) servePeerQuery(now clock.Now, e shard.ForwardedRequest) Answer {
	if e.Find != nil {
		c, why, here := d.find(now, *e.Find, e.Page)
		if why == "" && !here {
			why = api.Standby
		}
		return Answer{Outcome: why, Claim: c}
	}
	a, _ := d.claims(now, e.User, e.Page)
	return a
}
