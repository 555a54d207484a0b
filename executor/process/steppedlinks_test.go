package process_test

import (
	"maps"
	"slices"
	"time"

	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor/ownership"
)

// steppedLink is the way from one process of a steppedWorld to another. What goes over it
// arrives in order; what would be lost ends it.
type steppedLink struct {
	from, to *steppedProcess
	id       string // of the process that it leads to
	open     bool
	serve    func(clock.Now, *streampb.Request)
	arrives  [2]time.Duration // what was said last, there and back; on the world's time
}

const (
	linkThere = iota
	linkBack
)

// redial is how long a process waits before it makes a link again.
const redial = 100 * time.Millisecond

// connect makes and ends the links that the process wants.
func (s *steppedProcess) connect() {
	hang, dial := s.p.Peers()
	for _, id := range hang {
		if l := s.links[id]; l != nil {
			l.open = false
			delete(s.links, id)
		}
	}
	for _, p := range dial {
		if s.links[p.ID] == nil {
			l := &steppedLink{from: s, id: p.ID}
			s.links[p.ID] = l
			l.dial()
		}
	}
}

// dial makes the link, as soon as the other can be reached.
func (l *steppedLink) dial() {
	w := l.from.w
	w.after(w.delay(), func() {
		if l.from.p == nil || l.from.links[l.id] != l {
			return
		}
		for _, s := range w.processes {
			if s.p != nil && !s.gone && s.p.Me().ID == l.id {
				next := &steppedLink{from: l.from, to: s, id: l.id, open: true}
				next.serve = s.p.Accept(l.from.p.Me().ID, l.id, next.reply)
				l.from.links[l.id] = next
				l.from.input(func() {
					if next.open {
						l.from.p.Linked(l.from.now(), l.id, next)
					}
				})
				return
			}
		}
		w.after(redial, l.dial)
	})
}

// cut ends the link. Its maker notices after a while, and makes it again.
func (l *steppedLink) cut() {
	if !l.open {
		return
	}
	l.open = false
	w := l.from.w
	w.tell("the link of %s to %s is cut", l.from.name, l.to.name)
	w.after(w.delay(), func() {
		if l.from.p == nil || l.from.links[l.id] != l {
			return
		}
		l.from.input(func() { l.from.p.Cut(l.from.now(), l.id) })
		l.dial()
	})
}

// unlink cuts the links from and to a process.
func (s *steppedProcess) unlink() {
	for _, other := range s.w.processes {
		for _, id := range slices.Sorted(maps.Keys(other.links)) {
			if l := other.links[id]; l.from == s || l.to == s {
				l.cut()
			}
		}
	}
}

// carry has something arrive at one end, after all that was said before. false: the link is
// cut.
func (l *steppedLink) carry(way int, do func()) bool {
	if !l.open {
		return false
	}
	w, end := l.from.w, l.to
	if way == linkBack {
		end = l.from
	}
	if w.random.Float64() < w.loss/10 {
		l.cut()
		return true
	}
	l.arrives[way] = max(l.arrives[way], w.at+w.delay()/4)
	w.after(l.arrives[way]-w.at, func() {
		end.input(func() {
			if l.open {
				do()
			}
		})
	})
	return true
}

// Forward is peers.Link's.
func (l *steppedLink) Forward(m *streampb.Request) bool {
	return l.carry(linkThere, func() {
		l.serve(l.to.now(), m)
	})
}

// reply sends the reply to a forwarded request back.
func (l *steppedLink) reply(id uint64, a Answer, owner ownership.Route) {
	l.carry(linkBack, func() { l.from.p.Replied(l.from.now(), id, a, owner) })
}

// Update is peers.Link's.
func (l *steppedLink) Update(t *ownership.PeerUpdate) bool {
	return l.carry(linkThere, func() { l.to.p.ReceiveUpdate(l.to.now(), l.from.p.Me().ID, t) })
}
