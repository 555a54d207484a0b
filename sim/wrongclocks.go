package sim

import "time"

// scheduleClocks draws clocks that are wrong by as much as a time zone or a host
// without a battery makes them. A stream of its own leaves all else as it was drawn.
func (w *world) scheduleClocks() {
	r := w.Options.random(forClocks, 0)
	at, back, node := r.between(0, w.Until), r.spread(time.Second, w.Until), r.IntN(len(w.nodes))
	off := pick(r, time.Hour, -time.Hour)
	if r.chance(0.2) && w.scenario.payment == nil {
		w.scheduleAhead(r)
	}
	if w.scenario.lists == nil || !r.chance(0.5) {
		return
	}
	w.at(at, func() {
		if !w.fault("world", nodeHourOff) {
			return
		}
		n := w.nodes[node]
		n.setClock(off)
		w.after(back, func() {
			if !w.calm { // else it was set right
				n.setClock(-off)
			}
		})
	})
}

// scheduleAhead draws a while in which all clocks are ahead, as they are where the
// lock nodes are on the owner's host and that has started without the time: nobody
// can notice. Another owner takes over meanwhile, and a log's time comes to be ahead.
// Claims are not held there: a hold lasts until the deadline that its buyer was shown,
// which lies hours ahead, and the world ends before.
func (w *world) scheduleAhead(r random) {
	at, back, off := r.between(w.Until/10, w.Until), r.spread(2*time.Second, w.Until/2), r.spread(30*time.Second, 3*time.Hour)
	w.at(at, func() {
		if !w.fault("world", hostsAhead) {
			return
		}
		for _, e := range w.executors {
			e.kill(w.comeback(r))
		}
		w.shiftAll(off)
		w.after(back, func() {
			if !w.calm { // else all was set right
				w.shiftAll(-off)
			}
		})
	})
}

// clock is one of a host that starts now.
func (w *world) clock(r random) hostClock {
	c := w.scenario.clock(r, w.now)
	c.jump(w.ahead)
	if w.calm {
		c.drift(w.now, 1)
	}
	return c
}

// shiftAll sets all clocks forth or back, and those of processes that begin later.
func (w *world) shiftAll(d time.Duration) {
	w.ahead += d
	for _, n := range w.nodes {
		n.clock.jump(d)
	}
	w.nodeClocksSet()
	for _, e := range w.executors {
		e.shift(d, e.clock.rate)
	}
	for _, p := range w.commands {
		if p.alive {
			p.shift(d, p.clock.rate)
		}
	}
}

// The faults that are scheduled here.
const (
	nodeHourOff = "node's clock an hour off"
	hostsAhead  = "hosts' clocks ahead for a takeover"
)
