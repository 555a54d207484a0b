package sim

import "time"

// calmDown ends the faults: all hosts can be reached, all processes go on, and
// all clocks show about the same, and run alike from then on: what follows may last for
// minutes, in which a clock that drifts comes to be wrong by more than a ttl.
func (w *world) calmDown() {
	w.note("world", "calm", "", nil)
	w.calm, w.ahead = true, 0
	w.history.Stopped = w.now
	w.net.heal()
	w.net.loss = 0
	w.store.down, w.store.frozen = false, false
	for i, n := range w.nodes {
		n.serve()
		n.clock = w.clock(w.Options.random(forScenario, 10+i))
	}
	w.nodeClocksSet()
	for _, e := range w.executors {
		w.setClock(e)
	}
	w.operators.whenIdle(w.settle)
}

// setClock has an executor's clocks show the time, and run as fast as it. That
// waits until its host has been awake for long enough.
func (w *world) setClock(e *server) {
	switch {
	case !e.alive:
	case e.asleep || w.now <= e.awake+apart:
		w.after(apart, func() { w.setClock(e) })
	default:
		e.clock.jump(epoch.Add(w.now).Sub(e.now().Wall))
		e.shift(0, 1)
	}
}

// settle has the operators do what they had begun, and then lets the clients go
// on, unless all has to be settled once more after it.
func (w *world) settle() {
	n := w.voided
	w.operators.settle(func() {
		w.at(w.operators.known, func() {
			if n == w.voided {
				w.toWork()
			}
		})
	})
}

// quiet is how long after the faults planned work begins: by then all clocks have been set,
// and the leases that were won before have run out.
const quiet = 2*apart + 5*time.Second

// toWork does the planned work, once, before the clients go on. A command of one who was
// killed and that may still come in, such as a destroy, would be no planned work.
func (w *world) toWork() {
	k := w.work
	switch {
	case k == nil || w.settled || w.now <= w.latest || w.operators.ending || w.operators.closing:
		w.goOn()
	case !k.begun:
		k.begun = true
		w.at(w.Until+quiet, func() { k.begin(func() { w.work = nil; w.goOn() }) })
	}
}

// goOn lets the clients buy what is left.
func (w *world) goOn() {
	w.settled = true
	w.planOnce()
	waiting := w.waiting
	w.waiting = nil
	for _, then := range waiting {
		then()
	}
	w.after(resettle, w.unsettle)
}

// planOnce makes a plan of the sale's file when nothing is left to do, which is to show that.
func (w *world) planOnce() {
	o := w.operators
	if !o.shows || w.planned || o.ending || o.closing || o.running > 0 || w.now <= max(w.latest, w.latestList) {
		return
	}
	w.planned = true
	w.hit("planned in the calm")
	o.run(command{kind: plan, stock: o.most, runs: 1}, func() {})
}

// resettle is how often it is looked whether a command of one who was killed has
// come in late, such as a pause.
const resettle = 15 * time.Second

func (w *world) unsettle() {
	if !w.over && w.resting < len(w.clients) {
		w.settle()
	}
}

// onceSettled goes on when the faults have stopped and the operators have done
// what they had begun.
func (w *world) onceSettled(then func()) {
	if w.settled {
		then()
		return
	}
	w.waiting = append(w.waiting, then)
}

// rest records that a client was refused for good. With the last of them the world
// goes down: in some the sale is destroyed first. If a command of one who was
// killed or a payment may still come in, or a command is under way that may bring units in
// place of those that refunds have taken out of the sale, all is done once more after it.
func (w *world) rest() {
	w.resting++
	if w.resting == len(w.clients) {
		w.onceDrawn(func() { w.allRest(w.now) })
	}
}

// allRest is what follows when all clients were refused for good, the last at a time. Refunds that
// come in while the service is waited for bring units back, for which nobody has come yet.
func (w *world) allRest(refused time.Duration) {
	if w.service.waits() {
		w.after(500*time.Millisecond, func() { w.allRest(refused) })
		return
	}
	w.demanded = refused > max(w.latest, w.latestPay) && w.operators.running == 0
	switch {
	case w.scenario.destroyed && !w.operators.ending:
		w.operators.insist(command{kind: destroy}, w.end)
	case w.demanded && w.operators.ending:
		w.end()
	case w.demanded && w.scenario.drawn != nil:
		w.after(lastAwards, w.goDown)
	case w.demanded:
		w.after(lastMoves, w.goDown)
	default:
		w.at(max(w.latest, w.latestPay, w.now)+time.Millisecond, w.onceMore)
	}
}

// lastMoves is how long a world goes on when nobody wants anything any more: a shard that
// was taken over late sends again what it had sent to others.
const lastMoves = 2 * time.Second

// lastAwards is lastMoves of a draw: holds that nobody pays lapse, and others get their units.
const lastAwards = 40 * time.Second

// onceMore has all settled once more, when no command runs. What settles until then lets
// no client go on: refused while the next settling runs, the clients would request yet
// another, and so on without end.
func (w *world) onceMore() {
	w.resting, w.settled = 0, false
	w.voided++
	for _, c := range w.clients {
		c.finish()
	}
	w.operators.whenIdle(func() {
		w.voided++
		w.settle()
	})
}

// end ends a world whose sale is destroyed: with another run of it, or with one
// more destroy, when nothing of the commands is under way any more, that has to
// remove what came late.
func (w *world) end() {
	switch {
	case w.operators.beginAgain(w.onceMore):
	case w.operators.swept:
		w.goDown()
	default:
		w.at(max(w.latest, w.latestList)+time.Millisecond, func() {
			w.operators.whenIdle(func() { w.operators.insist(command{kind: destroy}, w.end) })
		})
	}
}

// goDown drains all executors, and ends who follows the ledger a while later. What is under
// way then has until the end of the world to land.
func (w *world) goDown() {
	w.note("world", "goes down", "", nil)
	w.readMetrics()
	w.over, w.down = true, w.history.Count()
	if s := w.history.Service; s != nil {
		s.Calm, s.Down = w.Until+lastWrong, w.now
	}
	for _, e := range w.executors {
		e.report(w.answered())
		e.drain()
	}
	for _, c := range w.consumers {
		w.after(lastFeeds, c.stop)
	}
}

// answered reports whether everybody has an answer who is to have one.
func (w *world) answered() bool {
	for _, there := range w.unanswered {
		if there() {
			return false
		}
	}
	return w.demanded
}
