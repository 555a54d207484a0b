package sim

import "time"

// scheduleClocks draws clocks that are wrong by as much as a time zone or a host
// without a battery makes them. A stream of its own leaves all else as it was drawn.
func (w *world) scheduleClocks() {
	r := w.Options.random(forClocks, 0)
	at, back, node := r.between(0, w.Until), r.spread(time.Second, w.Until), r.IntN(len(w.nodes))
	off := pick(r, time.Hour, -time.Hour)
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

// The faults that are scheduled here.
const nodeHourOff = "node's clock an hour off"
