package executor

import (
	"sync"

	"salectl/backends/clock"
	"salectl/executor/shard"
	"salectl/spec"

	"salectl/api"
)

// looks are questions to peers that change nothing: what claims a user has, and what
// became of a claim. Nothing is asked twice, and none waits for a shard that moves. It is
// safe for concurrent use.
type looks struct {
	mu    sync.Mutex
	last  uint64
	asked map[uint64]look
}

type look struct {
	of       string // the peer
	answered func(Answer)
}

// lookErrand marks the number of an errand that is a look.
const lookErrand = 1 << 63

// IsLook says whether the number of an errand is that of a question which changes nothing.
func IsLook(errand uint64) bool { return errand&lookErrand != 0 }

// ask asks a peer; answered is called once, unless forget is called before. false: the peer
// cannot be reached, and answered is not called.
func (l *looks) ask(links *links, of string, e shard.Errand, answered func(Answer)) (forget func(), ok bool) {
	l.mu.Lock()
	l.last++
	e.ID = l.last | lookErrand
	if l.asked == nil {
		l.asked = make(map[uint64]look)
	}
	l.asked[e.ID] = look{of, answered}
	l.mu.Unlock()
	if !links.ask(of, e) {
		if _, unanswered := l.take(e.ID); unanswered { // else cut has answered it: the link ended meanwhile
			return nil, false
		}
	}
	return func() { l.take(e.ID) }, true
}

func (l *looks) take(errand uint64) (look, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.asked[errand]
	delete(l.asked, errand)
	return x, ok
}

func (l *looks) answered(errand uint64, a Answer) {
	if x, ok := l.take(errand); ok {
		x.answered(a)
	}
}

// cut answers what a peer was asked that does not answer any more.
func (l *looks) cut(of string, why api.Outcome) {
	l.mu.Lock()
	var over []look
	for errand, x := range l.asked {
		if x.of == of {
			delete(l.asked, errand)
			over = append(over, x)
		}
	}
	l.mu.Unlock()
	for _, x := range over {
		x.answered(Answer{Outcome: why})
	}
}

// askUser asks the owner of a user's shard for a page of the user's claims; answered gets them in
// Claims, or an Outcome that says why they cannot be told. It may be called before askUser
// returns.
func (d *admission) askUser(user string, p api.Page, answered func(Answer)) (forget func()) {
	t := d.serving.Load()
	if t == nil {
		answered(Answer{Outcome: d.notHere()})
		return func() {}
	}
	i := spec.HomeShard(user, len(t.shards))
	return d.askOwner(t, i, shard.Errand{Shard: i, User: user, Page: p}, answered)
}

// askClaim asks the owner of a claim's shard for it; answered gets it as Claim.
func (d *admission) askClaim(id ClaimID, p api.Page, answered func(Answer)) (forget func()) {
	t := d.serving.Load()
	if t == nil {
		answered(Answer{Outcome: d.notHere()})
		return func() {}
	}
	return d.askOwner(t, id.Shard, shard.Errand{Shard: id.Shard, Find: &id, Page: p}, answered)
}

func (d *admission) askOwner(t *session, i int, e shard.Errand, answered func(Answer)) (forget func()) {
	e.UID = t.uid
	forget, ok := d.looks.ask(&d.links, t.remotes[i].Route().Owner, e, answered)
	if !ok { // no link leads to the owner
		answered(Answer{Outcome: d.notHere()})
		return func() {}
	}
	return forget
}

// visitLook answers a look of a peer.
func (d *admission) servePeerQuery(now clock.Now, e shard.Errand) Answer {
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
