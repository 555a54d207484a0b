package sim

import (
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/shard"
)

// link is the way from one executor to another, which carries what they say to each other
// in order, or is cut. It is executor.Link.
type link struct {
	from, to         *server
	fromLife, toLife int
	peer             executor.Peer // it leads to
	visit            visit         // takes in what it carries; nil: nothing has come yet
	open             bool
	arrives          [2]time.Duration // virtual: when what was last said there, and back, arrives
	waits            [2][]func()      // what has arrived and was not taken in, as its end is paused
}

type visit = func(now clock.Now, e shard.Errand, answered func(executor.Answer), bounced func(shard.Route))

// The ways of a link.
const (
	there = iota
	back
)

// connect makes the links that an executor wants, and ends others.
func (e *server) connect() {
	hang, dial := e.s.Peers()
	for _, id := range hang {
		if l := e.links[id]; l != nil {
			l.open, l.fromLife = false, -1
			delete(e.links, id)
		}
	}
	for _, p := range dial {
		if e.links[p.ID] == nil {
			e.links[p.ID] = &link{from: e, fromLife: e.life, peer: p}
			e.dialAgain(e.links[p.ID], 0)
		}
	}
}

// redial is how long an executor waits before it makes a link again.
const redial = 150 * time.Millisecond

// dialAgain makes a link after a while.
func (e *server) dialAgain(l *link, after time.Duration) {
	w := e.w
	w.after(after+w.random.peers.between(200*time.Microsecond, 3*time.Millisecond), func() {
		if !e.alive || e.life != l.fromLife || e.links[l.peer.ID] != l {
			return
		}
		to := w.serverAt(l.peer.Address)
		if to == nil || w.net.cut[e.host][to.host] || w.net.cut[to.host][e.host] || w.net.parts(e.host, to.host) {
			e.dialAgain(l, redial)
			return
		}
		l := &link{from: e, fromLife: e.life, to: to, toLife: to.life, peer: l.peer, open: true}
		e.links[l.peer.ID] = l
		l.carry(there, "hears hello", func(clock.Now) {
			if l.visit = to.s.Accept(e.s.Me().ID, l.peer.ID); l.visit == nil {
				l.cut()
			}
		})
		e.event("link", func(now clock.Now) {
			if l.open {
				e.s.Linked(now, l.peer.ID, l)
			}
		})
	})
}

// serverAt returns the executor that lives at an address, whether or not whoever asks knows
// that it was started anew.
func (w *world) serverAt(address string) *server {
	for _, e := range w.executors {
		if e.alive && e.name == address {
			return e
		}
	}
	return nil
}

// carry has something arrive at one end, after all that was said before. false: the link
// is cut.
func (l *link) carry(way int, what string, do func(now clock.Now)) bool {
	if !l.open {
		return false
	}
	w, end, other, life := l.from.w, l.to, l.from, l.toLife
	if way == back {
		end, other, life = l.from, l.to, l.fromLife
	}
	if w.net.cut[other.host][end.host] || w.net.parts(l.from.host, l.to.host) || w.random.peers.chance(usualLoss/4+w.net.loss/8) && w.fault("network", "link cut") {
		l.cut()
		return true // whoever says something learns later that it was lost
	}
	delay := w.random.peers.between(50*time.Microsecond, 800*time.Microsecond)
	if w.random.peers.chance(usualSlow) {
		delay = w.random.peers.spread(time.Millisecond, w.slowest()/2)
	}
	if w.net.slow > 0 && !w.calm {
		delay += w.random.peers.between(0, w.net.slow)
	}
	l.arrives[way] = max(l.arrives[way], w.now+delay)
	w.at(l.arrives[way], func() {
		if !l.open || end.life != life {
			return
		}
		l.waits[way] = append(l.waits[way], func() { do(end.now()) })
		if len(l.waits[way]) > 1 {
			return // the end is paused: all is taken in together
		}
		end.event(what, func(clock.Now) {
			waits := l.waits[way]
			l.waits[way] = nil
			for _, take := range waits {
				if l.open {
					take()
				}
			}
		})
	})
	return true
}

// cut ends the link: what is under way is lost, and its maker learns of it after a while.
func (l *link) cut() {
	if !l.open {
		return
	}
	l.open = false
	w, e, life := l.from.w, l.from, l.fromLife
	if w.note("network", "cuts a link", e.name, nil); e.life != life {
		return
	}
	w.after(w.random.peers.spread(time.Millisecond, 2*time.Second), func() {
		if e.life != life || !e.alive || e.links[l.peer.ID] != l {
			return
		}
		e.event("link is cut", func(now clock.Now) {
			e.s.Cut(now, l.peer.ID)
			e.dialAgain(l, redial)
		})
	})
}

// unlink cuts the links of an executor that lives no more.
func (e *server) unlink() {
	for _, other := range e.w.executors {
		for _, id := range slices.Sorted(maps.Keys(other.links)) {
			l := other.links[id]
			if l.to == e && l.toLife != e.life || l.from == e {
				l.cut()
			}
		}
	}
}

// Ask is executor.Link's.
func (l *link) Ask(x shard.Errand) bool {
	ended := func() {}
	if x.Claim != nil && l.open {
		ended = l.from.w.history.Forwarded(l.from.w.now, l.to.name, x.Claim.User, x.Claim.Key)
	}
	return l.carry(there, "visit", func(now clock.Now) {
		if x.Claim != nil {
			l.to.w.note(l.to.name, "is visited", x.Claim.User+" "+x.Claim.Key, nil)
		}
		l.visit(now, x, func(a executor.Answer) {
			l.carry(back, "is answered", func(now clock.Now) {
				ended()
				l.from.s.Answered(now, x.ID, a)
			})
		}, func(r shard.Route) {
			l.carry(back, "is bounced", func(now clock.Now) {
				ended()
				l.from.s.Bounced(now, x.ID, r)
			})
		})
	})
}

// Tell is executor.Link's.
func (l *link) Tell(t *executor.Tell) bool {
	from := l.from.s.Me().ID
	return l.carry(there, "hears a peer", func(now clock.Now) { l.to.s.Hear(now, from, t) })
}
