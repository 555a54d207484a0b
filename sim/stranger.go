package sim

import (
	"fmt"
	"slices"
	"time"

	"salectl/sim/check"
)

// unparted is a stream under which no process loses its links in the worlds of
// TestWorldsThatFailed that failed before there were strangers: they are as they were then.
const unparted = 38

// drawStranger has some worlds have a stranger, and enough others.
func (f *fleet) drawStranger(r random) {
	if f.stranger = r.chance(0.15); f.stranger {
		f.servers = max(f.servers, 3+r.IntN(4))
	}
}

// isolate has one process reach none of the others for a while, nor be reached by them, in some
// worlds though it receives their messages or they receive its, while all reach the lock nodes and the store. The
// others are most, and none of them ends: what it owned is theirs after check.IsolatedAfter.
func (k *work) isolate(then func()) {
	w := k.w
	// One is left to own shards. Of one whose host was suspended nobody knows since when it has
	// leases.
	all := slices.DeleteFunc(k.owners(), func(e *server) bool { return e.suspended })
	if !w.fleet.stranger || len(all) == 0 {
		then()
		return
	}
	r := w.Options.random(forStrangers, 1)
	e := all[r.IntN(len(all))]
	w.hit("isolated")
	w.note(e.name, "is isolated", "", nil)
	w.net.stranger = e.host
	w.net.hears = r.chance(0.25)
	w.net.isHeard = !w.net.hears && r.chance(0.25)
	k.asking = true
	k.claimNext()
	ended := w.history.Isolated(w.now, w.scenario.ttl, e.run)
	on := func() {
		w.after(r.between(0, 3*time.Second), func() {
			ended(w.now)
			w.note(e.name, "is isolated no more", "", nil)
			w.net.stranger = 0
			k.await(func() {
				k.asking = false
				w.after(time.Second, then)
			})
		})
	}
	w.after(check.IsolatedAfter(w.scenario.ttl), func() {
		k.others(e, on)
	})
}

// others waits until all but one can answer for all shards.
func (k *work) others(but *server, then func()) {
	k.until(fmt.Sprintf("all are ready without %s, whom they do not reach", but.name), settling, func() bool {
		for _, e := range k.w.executors {
			if e != but && (!e.alive || e.paused || e.s.Ready(e.now()) != nil) {
				return false
			}
		}
		return true
	}, then)
}
