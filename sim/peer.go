package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/ownership"
	"salectl/executor/peers"
)

// link is the way from one executor to another, which carries their messages to each other
// in order, or is cut. It is peers.Link. What it carries are the messages of a stream,
// byte for byte, within the limits of one.
type link struct {
	from, to         *server
	fromLife, toLife int
	peer             ownership.Process // it leads to
	id               string            // by which the one that made it names itself
	serve            serveFunc         // takes in what it carries; nil: nothing has come yet
	open             bool
	closed           bool              // by whoever made it: earlier messages arrive still
	arrives          [2]time.Duration  // virtual: when the last message there, and back, arrives
	waits            [2][]func()       // what has arrived and was not taken in, as its end is paused
	unread           [2]int            // bytes that have not arrived
	pending          map[uint64]func() // by the id of a forwarded claim: called when it comes back
}

type serveFunc = func(now clock.Now, m *streampb.Request)

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
			l.closed = l.open
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
		l := &link{from: e, fromLife: e.life, to: to, toLife: to.life, peer: l.peer, open: true, pending: make(map[uint64]func())}
		e.links[l.peer.ID] = l
		l.send(there, "hears hello", streampb.Append(nil, peers.EncodeHello(e.s.Me(), l.peer)))
		e.event("link", func(now clock.Now) {
			if l.open {
				e.s.Linked(now, l.peer.ID, l)
				w.beset(linkMade, l)
			}
		})
	})
}

// serverAt returns the executor that lives at an address, whether or not the caller knows
// that it was started anew.
func (w *world) serverAt(address string) *server {
	for _, e := range w.executors {
		if e.alive && e.name == address {
			return e
		}
	}
	return nil
}

// send has a message arrive at one end, after all earlier messages. false: the link is
// cut, or full.
func (l *link) send(way int, what string, message []byte) bool {
	w, limits := l.from.w, &l.from.w.peering
	switch {
	case !l.open || way == there && l.unread[there] > limits.unsent:
		return false
	case way == back && l.unread[back] > limits.unread: // whoever reads too little loses the link
		w.hit("link full")
		l.cut()
		return false
	}
	l.post(way, what, len(message), func(now clock.Now) { l.take(way, now, message) })
	return true
}

// post is send of a message for which there is room. The sender learns later that it
// was lost.
func (l *link) post(way int, what string, size int, take func(now clock.Now)) {
	w := l.from.w
	if !l.open {
		return
	}
	end, other, life := l.to, l.from, l.toLife
	if way == back {
		end, other, life = l.from, l.to, l.fromLife
	}
	if w.net.cut[other.host][end.host] || w.net.parts(l.from.host, l.to.host) || w.random.peers.chance(usualLoss/4+w.net.loss/8) && w.fault("network", "link cut") {
		l.cut()
		return
	}
	delay := w.random.peers.between(50*time.Microsecond, 800*time.Microsecond)
	if w.random.peers.chance(usualSlow) {
		delay = w.random.peers.spread(time.Millisecond, w.slowest()/2)
	}
	if w.net.slow > 0 && !w.calm {
		delay += w.random.peers.between(0, w.net.slow)
	}
	l.unread[way] += size
	l.arrives[way] = max(l.arrives[way], w.now+delay)
	w.at(l.arrives[way], func() {
		l.unread[way] -= size
		if !l.carries(way) || end.life != life {
			return
		}
		l.waits[way] = append(l.waits[way], func() { take(end.now()) })
		if len(l.waits[way]) > 1 {
			return // the end is paused: all is taken in together
		}
		if what == "request" {
			w.beset(requestThere, l)
		}
		end.event(what, func(clock.Now) {
			waits := l.waits[way]
			l.waits[way] = nil
			for _, take := range waits {
				if l.carries(way) {
					take()
				}
			}
		})
	})
}

// carries reports whether messages of one way arrive.
func (l *link) carries(way int) bool { return l.open || way == there && l.closed }

// take takes in a message at its end.
func (l *link) take(way int, now clock.Now, message []byte) {
	most := l.from.w.peering.message
	if way == back {
		most = streampb.MaxReply
	}
	body, rest, err := streampb.Cut(message, most)
	switch {
	case err != nil:
	case body == nil || len(rest) > 0:
		err = fmt.Errorf("%d bytes are no message", len(message))
	case way == back:
		var r *streampb.Reply
		if r, err = new(streampb.Decoder).Reply(body); err == nil {
			peers.ReceiveReply(r, func(id uint64, a executor.Answer, owner ownership.Route) {
				l.back(id)
				l.from.s.Replied(now, id, a, owner)
			})
		}
	default:
		var r *streampb.Request
		if r, err = new(streampb.Decoder).Request(body); err == nil {
			err = l.request(now, r)
		}
	}
	if err != nil {
		l.from.w.history.Stuck(fmt.Sprintf("what %s and %s say to each other cannot be read: %v", l.from.name, l.to.name, err))
		l.cut()
	}
}

// request takes in a message of the one that made the link.
func (l *link) request(now clock.Now, r *streampb.Request) error {
	if hello := r.GetHello(); hello != nil {
		if l.closed { // no stream is opened without an answer of the peer
			return nil
		}
		l.id = hello.GetPeerId()
		if l.serve = l.to.s.Accept(l.id, hello.GetToId(), l.reply); l.serve == nil {
			l.cut()
		}
		return nil
	}
	if l.serve == nil {
		return nil // the link was closed before
	}
	return peers.ReceiveRequest(r, func(m *streampb.Request, x *executor.Request) {
		if m.GetClaim() != nil {
			l.to.w.note(l.to.name, "is visited", x.User+" "+x.Key, nil)
		}
		l.serve(now, m)
	}, func(t *ownership.PeerUpdate) { l.to.s.ReceiveUpdate(now, l.id, t) })
}

// reply sends the reply to a forwarded request to the maker of the link.
func (l *link) reply(id uint64, a executor.Answer, owner ownership.Route) {
	what := "is answered"
	if a.Elsewhere && a.Outcome != api.Unknown {
		what = "is bounced"
	}
	l.send(back, what, streampb.Append(nil, peers.EncodeReply(id, a, owner)))
}

// back takes in that a forwarded request has come back.
func (l *link) back(id uint64) {
	if ended := l.pending[id]; ended != nil {
		delete(l.pending, id)
		ended()
	}
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

// Forward is peers.Link's.
func (l *link) Forward(m *streampb.Request) bool {
	sent := l.send(there, "request", streampb.Append(nil, m))
	if x := m.GetClaim(); sent && x != nil {
		l.pending[m.GetId()] = l.from.w.history.Forwarded(l.from.w.now, l.to.name, x.GetUser(), x.GetKey())
	}
	return sent
}

// Update is peers.Link's.
func (l *link) Update(t *ownership.PeerUpdate) bool {
	w := l.from.w
	if !l.open || l.unread[there] > w.peering.unsent {
		return false
	}
	if !w.peering.encoded {
		l.post(there, "hears a peer", 0, func(now clock.Now) {
			if l.serve != nil {
				l.to.s.ReceiveUpdate(now, l.id, t)
			}
		})
		return true
	}
	all, err := peers.EncodeUpdate(t, w.peering.message)
	if err != nil {
		w.history.Stuck(fmt.Sprintf("%s cannot be told what it is to be: %v", l.to.name, err))
		return false
	}
	if len(all) > 1 {
		w.hit("peer told in parts")
	}
	for _, r := range all {
		message := streampb.Append(nil, r)
		l.post(there, "hears a peer", len(message), func(now clock.Now) { l.take(there, now, message) })
	}
	return true
}
