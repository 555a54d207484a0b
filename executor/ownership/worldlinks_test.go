package ownership

import (
	"time"

	"salectl/backends/clock"
)

// dialAgain is how long a peer is left alone after a link to it was cut, or not made.
const dialAgain = 100 * time.Millisecond

// The links between the processes of an ownerWorld.

// named returns the process of that id.
func (w *ownerWorld) named(id string) *ownerHost {
	for _, h := range w.all {
		if h.o.cfg.ID == id {
			return h
		}
	}
	return nil
}

// reach reports whether a process can reach another.
func (w *ownerWorld) reach(from, to *ownerHost) bool {
	return to != nil && !from.dead && !to.dead && !from.shut && !from.cutFrom[to] && !to.cutFrom[from]
}

// dial makes a link to a peer, as soon as it can be reached.
func (h *ownerHost) dial(id string) {
	h.w.after(tellTakes, func() {
		switch to := h.w.named(id); {
		case !h.wanted[id] || h.links[id] != nil || h.dead:
		case h.w.reach(h, to):
			h.links[id] = to
			h.input(func(now clock.Now) { h.o.Linked(now, id, true) })
		default:
			h.w.after(dialAgain, func() { h.dial(id) })
		}
	})
}

// unlink ends a link.
func (h *ownerHost) unlink(id string) {
	if h.links[id] != nil {
		delete(h.links, id)
		h.input(func(now clock.Now) { h.o.Linked(now, id, false) })
	}
	if h.wanted[id] {
		h.dial(id)
	}
}

// tell tells a peer something.
func (h *ownerHost) tell(id string, what *PeerUpdate) {
	to := h.links[id]
	if to == nil {
		return
	}
	if h.w.loses != nil && h.w.loses() {
		return
	}
	h.w.after(tellTakes, func() {
		if h.w.reach(h, to) && h.links[id] == to {
			to.input(func(now clock.Now) { to.o.Receive(now, h.o.cfg.ID, what) })
		}
	})
}

// die is kill -9: the others see their links to it end.
func (h *ownerHost) die() {
	h.dead = true
	for _, other := range h.w.all {
		other.unlink(h.o.cfg.ID)
	}
}

// cut keeps two processes from reaching each other, until joined.
func (h *ownerHost) cut(from *ownerHost) {
	h.cutFrom[from] = true
	h.unlink(from.o.cfg.ID)
	from.unlink(h.o.cfg.ID)
}

// shuts has a process make no links any more, and lose those that it has.
func (h *ownerHost) shuts() {
	h.shut = true
	for _, other := range h.w.all {
		h.unlink(other.o.cfg.ID)
	}
}

// join is cut's opposite.
func (h *ownerHost) join(with *ownerHost) { delete(h.cutFrom, with) }

// goesOn is the end of being still: all that came meanwhile comes at once.
func (h *ownerHost) goesOn() {
	h.still = false
	kept := append([]func(clock.Now){h.o.Tick}, h.kept...)
	h.kept = nil
	for _, do := range kept {
		h.input(do)
	}
}
