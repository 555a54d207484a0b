package sim

import (
	"fmt"
	"time"

	"salectl/backends/clock"
	"salectl/executor"
)

// work is what operators and their platform do to the processes of a world when its faults
// have stopped, while buyers go on asking: restarts one by one, shards that are moved, a
// process that stands by for a while. Nothing of it may fail a claim. A kill may, those of
// its share, until that is taken over.
type work struct {
	w *world
	random
	begun  bool
	steps  int              // to go
	in     map[*server]int  // the life in which one was ready, and has got requests since
	out    map[*server]bool // get no more: they are about to end
	asking bool
	claims int
}

// fleet is how many processes a world has, and which.
type fleet struct {
	servers  int      // 0: as many as were drawn with all else
	versions []string // one is drawn for each process
	standby  int      // the server that is to own no shard; -1: all are to
	steps    int      // of work
	stranger bool     // when the work is done, one of them reaches none of the others for a while
}

func drawFleet(r random) fleet {
	f := fleet{versions: pick(r, []string{""}, []string{"v1.9.0", "v1.10.0"}), standby: -1}
	if r.chance(0.2) {
		f.servers = 4 + r.IntN(4)
	}
	if r.chance(0.15) {
		f.standby = r.IntN(2)
	}
	if r.chance(0.4) {
		f.steps = 1 + r.IntN(4)
	}
	return f
}

// version draws the version of a process that begins.
func (f *fleet) version(r random) string { return pick(r, f.versions...) }

// newWork is the work of a world; nil: there is none. Where one request may wait on a shard,
// claims are refused at any time.
func (w *world) newWork(r random) *work {
	if w.fleet.steps == 0 && !w.fleet.stranger || w.scenario.queue < 2 {
		return nil
	}
	return &work{w: w, random: r, steps: w.fleet.steps, in: make(map[*server]int), out: make(map[*server]bool)}
}

// begin does the work, once all processes can answer for all shards, and then goes on. With
// a process whose leases are unknown there is none.
func (k *work) begin(then func()) {
	for _, e := range k.w.executors {
		if e.alive && e.suspended && e.setBack {
			then()
			return
		}
	}
	k.await(func() {
		k.w.history.Steady(k.w.now)
		k.asking = true
		k.claimNext()
		k.next(func() {
			k.asking = false
			k.w.history.Unsteady(k.w.now)
			k.w.after(time.Second, func() { k.isolate(then) }) // those under way are answered
		})
	})
}

// settling is how long processes may take until all of them can answer for all shards.
const settling = 30 * time.Second

// await goes on when all processes can answer for all shards, and have not changed for a
// while. What keeps them from it for too long is a finding.
func (k *work) await(then func()) { k.until("all are ready", settling, k.ready, then) }

func (k *work) ready() bool {
	for _, e := range k.w.executors {
		if !e.alive || e.paused || e.s.Ready(e.now()) != nil {
			return false
		}
	}
	return true
}

// until goes on when something is so, looking for it for some time.
func (k *work) until(what string, within time.Duration, so func() bool, then func()) {
	w, end := k.w, k.w.now+within
	var poll func()
	poll = func() {
		switch {
		case so():
			then()
		case w.now >= end:
			w.history.Stuck(fmt.Sprintf("%v after the faults it is not so that %s, for %v", w.now-w.Until, what, within))
			then()
		default:
			w.after(50*time.Millisecond, poll)
		}
	}
	poll()
}

// next does what is left of the work.
func (k *work) next(then func()) {
	if k.steps--; k.steps < 0 {
		then()
		return
	}
	e, draw := k.w.executors[k.IntN(len(k.w.executors))], k.IntN(5)
	on := func() { k.await(func() { k.w.after(k.between(0, 2*time.Second), func() { k.next(then) }) }) }
	switch owners := k.owners(); {
	case len(owners) == 1 && owners[0] == e: // nobody could take its shards
		on()
	case draw < 2:
		k.restart(e, on)
	case draw < 4:
		k.standBy(e, on)
	default:
		k.kill(e, on)
	}
}

// owners are the processes that are to own shards.
func (k *work) owners() (all []*server) {
	for _, e := range k.w.executors {
		if e.n != k.w.fleet.standby {
			all = append(all, e)
		}
	}
	return all
}

// restart has a process give its shards away, end, and begin again, of another version
// perhaps.
func (k *work) restart(e *server, then func()) {
	k.w.hit("work: restart")
	e.event("retires", func(now clock.Now) { e.s.Retire(now) })
	k.given(e, func() {
		k.out[e] = true
		k.w.after(time.Second, func() { // whoever spreads the requests has seen it
			life := e.life
			e.drain()
			e.version = k.w.fleet.version(k.random)
			k.until(e.name+" is back", time.Minute, func() bool { return e.alive && e.life != life }, func() {
				delete(k.out, e)
				then()
			})
		})
	})
}

// given waits until a process has given its shards away, if there is one to take them.
func (k *work) given(e *server, then func()) {
	k.until(e.name+" has given its shards away", 10*time.Second, func() bool {
		share := e.s.Ownership.Share(e.now())
		return share.Shards == 0 || !share.HasTakers
	}, then)
}

// standBy has a process give its shards away, and take its share again.
func (k *work) standBy(e *server, then func()) {
	if k.w.fleet.standby == e.n {
		then()
		return
	}
	k.w.hit("work: stand by")
	e.eventOr("stands by", func(now clock.Now) {
		e.s.StandBy(now, false)
		k.given(e, func() {
			k.w.after(k.between(0, time.Second), func() {
				e.standByNoMore()
				then()
			})
		})
	}, then)
}

// standByNoMore ends a drain of the process. It is called once the drain has reached the process: what
// a paused process is sent meanwhile arrives in any order. Operators repeat it if the process does not
// share the sale for the moment. A process that has started since is not drained.
func (e *server) standByNoMore() {
	if !e.alive {
		return
	}
	life := e.life
	e.event("stands by no more", func(now clock.Now) {
		if !e.s.StandBy(now, true) {
			e.w.after(time.Second, func() {
				if e.life == life {
					e.standByNoMore()
				}
			})
		}
	})
}

// kill is kill -9. All of its share is back a ttl and a second later.
func (k *work) kill(e *server, then func()) {
	k.w.hit("work: kill")
	k.w.struck()
	life := e.life
	e.kill(k.between(50*time.Millisecond, 5*time.Second))
	k.until(e.name+" is back", time.Minute, func() bool { return e.alive && e.life != life }, then)
}

// struck records that shards may be without an owner for a ttl and a second.
func (w *world) struck() { w.history.Struck(w.now, w.now+w.scenario.ttl+time.Second) }

// claimNext has one after the other claim a unit, at any process.
func (k *work) claimNext() {
	if !k.asking {
		return
	}
	k.w.after(k.spread(2*time.Millisecond, 200*time.Millisecond), k.claimNext)
	var there []*server
	for _, e := range k.w.executors {
		if e.alive && !e.paused && e.s.Ready(e.now()) == nil {
			k.in[e] = e.life
		}
		if e.alive && k.in[e] == e.life && !k.out[e] {
			there = append(there, e)
		}
	}
	if len(there) == 0 {
		return
	}
	k.claims++
	c := k.w.clients[k.claims%len(k.w.clients)]
	x := want{user: fmt.Sprintf("work-%d", k.claims), key: "key", quantity: 1}
	c.sendTo(there[k.IntN(len(there))], x, func(executor.Answer, bool) {})
}
