// A world runs in one goroutine, where the race detector finds nothing and takes
// most of the time.

//go:build !race

package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// manners are the ways in which a node is away, and comes back with its memory.
var manners = map[string]func(w *world, node int) (back func()){
	"hangs": func(w *world, node int) func() {
		w.nodes[node].frozen = true
		return func() { w.thaw(node) } // and does all that has come meanwhile
	},
	"loses what is sent": func(w *world, node int) func() {
		w.nodes[node].down = true
		return func() { w.nodes[node].down = false }
	},
	"refuses": func(w *world, node int) func() {
		w.nodes[node].shut = true
		return func() { w.nodes[node].shut = false }
	},
}

// outageWorld has processes on five nodes, the first of which holds a key and begins again
// whenever it loses it.
func outageWorld(t *testing.T, seed uint64, ttl time.Duration, procs int) *world {
	w := newWorld(seed, ttl, ones64(5), ones64(procs))
	for i, p := range w.procs {
		p.think = 0
		w.after(time.Duration(i)*100*time.Millisecond, func() { p.acquire("k0") })
	}
	w.run(2*ttl + time.Duration(w.rnd.Int64N(int64(ttl))))
	if !w.procs[0].m.Holds("k0") {
		t.Fatal("the first process does not hold the key")
	}
	return w
}

// holder returns who holds the key at this instant.
func (w *world) holder() *proc {
	for _, p := range w.procs {
		if p.m.Holds("k0") && p.m.Valid(p.clock()) {
			return p
		}
	}
	return nil
}

// until lets the world go on until ok, at most for a span, and returns how long
// that took.
func (w *world) until(ok func() bool, atMost time.Duration) (time.Duration, bool) {
	begin := w.now
	for end := begin + atMost; w.now < end; {
		w.run(w.now + 5*time.Millisecond)
		if ok() {
			return w.now - begin, true
		}
	}
	return w.now - begin, false
}

// TestNodesComeAndGo kills two of five nodes, which nobody may notice, then a
// third: the key is lost within a ttl and nobody has it. When the third is
// back it is held again within a ttl and a second, by itself; if it comes
// back without its memory, not before MaxTTL has passed, and soon after.
func TestNodesComeAndGo(t *testing.T) {
	for _, ttl := range []time.Duration{quorum.MinTTL, quorum.DefaultTTL, quorum.MaxTTL} {
		for name, away := range manners {
			for _, empty := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, %s, empty %v", ttl, name, empty), func(t *testing.T) {
					var gone, back time.Duration
					for seed := range uint64(10) {
						w := outageWorld(t, seed, ttl, 1+int(seed%2))
						g, b := w.outage(t, away, empty)
						gone, back = max(gone, g), max(back, b)
						w.report(t)
					}
					t.Logf("at worst lost after %v and held again after %v", gone, back)
				})
			}
		}
	}
}

// outage returns how long after the third node had gone the key was lost, and
// how long after its return it was held again.
func (w *world) outage(t *testing.T, away func(*world, int) func(), empty bool) (gone, back time.Duration) {
	first := w.procs[0]
	away(w, 0)
	away(w, 1)
	w.run(w.now + 3*w.ttl)
	if w.holder() != first || hasEvent(first, quorum.Losing) {
		t.Fatalf("two dead nodes of five were noticed: %v", first.events)
	}
	heal := away(w, 2)
	gone, ok := w.until(func() bool { return w.holder() == nil }, w.ttl)
	if !ok {
		t.Fatalf("held for longer than a ttl without a majority")
	}
	w.until(func() bool { return w.holder() != nil }, w.some(3*w.ttl))
	if w.holder() != nil {
		t.Fatal("held without a majority")
	}
	least, most := time.Duration(0), w.ttl+time.Second
	if empty {
		w.forget = true
		w.nodes[2].restart(nil)
		w.nodes[2].stuck = nil // its connections are gone as well
		least, most = quorum.MaxTTL, quorum.MaxTTL+2*time.Second
	}
	heal()
	back, ok = w.until(func() bool { return w.holder() != nil }, most)
	if !ok || back < least {
		t.Fatalf("held again: %v, after %v; want it between %v and %v", ok, back, least, most)
	}
	return gone, back
}

func (w *world) some(d time.Duration) time.Duration { return time.Duration(w.rnd.Int64N(int64(d))) }

// TestHolderDies has another wait, and the holder die without a word.
func TestHolderDies(t *testing.T) {
	for _, ttl := range []time.Duration{quorum.MinTTL, quorum.DefaultTTL, quorum.MaxTTL} {
		for name, away := range manners {
			t.Run(fmt.Sprintf("%v, two nodes away: %s", ttl, name), func(t *testing.T) {
				var worst time.Duration
				for seed := range uint64(10) {
					w := outageWorld(t, seed, ttl, 2)
					away(w, 3)
					away(w, 4)
					w.run(w.now + w.some(ttl))
					w.procs[0].stop(time.Hour, false)
					second := w.procs[1]
					took, ok := w.until(func() bool { return second.m.Holds("k0") }, ttl+time.Second)
					if !ok {
						t.Fatalf("seed %d: not held after %v", seed, took)
					}
					worst = max(worst, took)
					w.report(t)
				}
				t.Logf("at worst held after %v", worst)
			})
		}
	}
}
