package quorum_test

import (
	"slices"
	"strings"
	"time"

	"salectl/backends/quorum"
)

// host is a node with its clock and its troubles.
type host struct {
	*simNode
	w      *world
	rate   float64
	saved  *simNode
	down   bool // what is sent is lost
	shut   bool // what is sent gets an error at once
	frozen bool
	stuck  []func() // arrived while frozen
	calls  int      // it has answered

	halted   bool          // the clock stands still, and shows haltedAt
	haltedAt time.Duration //
	late     time.Duration // by how much it has stood still before
	watchers map[*proc]bool
}

// time is what the node's clock has counted.
func (h *host) time() time.Duration {
	if h.halted {
		return h.haltedAt
	}
	return time.Duration(float64(h.w.now)*h.rate) - h.late
}

// halt makes the clock stand still for a while.
func (h *host) halt(length time.Duration) {
	if h.halted {
		return
	}
	h.haltedAt, h.halted = h.time(), true
	h.w.after(length, func() {
		h.halted = false
		h.late += h.time() - h.haltedAt
	})
}

// endless takes the ends off all keys of the node.
func (h *host) endless() {
	for key, k := range h.keys {
		if _, ok := h.has(h.time(), key); ok && k.token != "" {
			k.until = 1 << 62
			h.keys[key] = k
		}
	}
}

// notify sends the notification of a freed key to the next waiter, if it watches.
func (h *host) notify(_, next string) {
	for _, p := range h.w.procs {
		if h.watchers[p] && p.waiter() == next {
			h.pendingNotices(p)
		}
	}
}

// pendingNotices reaches one who watches, perhaps twice, perhaps late or never.
func (h *host) pendingNotices(p *proc) {
	copies := 1
	if h.w.rnd.IntN(100) < h.w.net.twice {
		copies = 2
	}
	for range copies {
		if d, ok := h.w.delay(); ok && !h.down && !p.cutFrom[h.index()] {
			h.w.after(d, func() { p.input("is woken", p.woken) })
		}
	}
}

func (h *host) index() int { return slices.Index(h.w.nodes, h) }

// reset ends all connections of those who watch. They come back.
func (h *host) reset() {
	for _, p := range h.w.procs {
		if h.watchers[p] {
			delete(h.watchers, p)
			h.w.after(h.w.ttl/4, func() { h.watchedBy(p) })
		}
	}
}

func (h *host) watchedBy(p *proc) {
	h.watchers[p] = true
	h.pendingNotices(p)
}

// restart begins another run of the node, and ends its connections.
func (h *host) restart(from *simNode) {
	h.simNode.restart(from)
	h.reset()
}

// release frees keys, and checks that no process relies on a freed key.
func (w *world) release(h *host, p *proc, c quorum.Call) {
	for _, a := range c.Release {
		if a.Note != "" {
			w.forced(h, p, a)
			continue
		}
		if !strings.HasPrefix(a.Token, p.name+".") {
			w.faultf("%s releases %s of token %s", p.name, a.Key, a.Token)
		}
		k, ok := h.has(h.time(), a.Key)
		if ok && k.token == a.Token && p.holds(a.Key) && p.tokens[a.Key] == a.Token {
			w.faultf("%s releases %s, which it holds, on %s", p.name, a.Key, h)
		}
	}
	w.logf("%s frees %d for %s#%d", h, h.release(h.time(), c.Release), p.name, c.Seq)
}

// forced checks the removal of a holder that counts as faulty.
func (w *world) forced(h *host, p *proc, a quorum.LeaseRequest) {
	k, ok := h.has(h.time(), a.Key)
	if !ok || k.token != a.Token || k.note != a.Note {
		return
	}
	w.broken++
	w.logf("%s breaks %s of %s on %s", p.name, a.Key, k.token, h)
}

func (w *world) freeze(i int, length time.Duration) {
	h := w.nodes[i]
	if h.frozen {
		return
	}
	h.frozen = true
	w.logf("%s freezes for %v", h, length)
	w.after(length, func() { w.thaw(i) })
}

// thaw lets a node do at once all that has come, in no particular order, as a
// server does that finds several connections readable.
func (w *world) thaw(i int) {
	h := w.nodes[i]
	stuck := h.stuck
	h.frozen, h.stuck = false, nil
	w.rnd.Shuffle(len(stuck), func(i, j int) { stuck[i], stuck[j] = stuck[j], stuck[i] })
	for _, do := range stuck {
		do()
	}
}
