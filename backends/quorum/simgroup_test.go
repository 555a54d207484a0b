// A world runs in one goroutine, where the race detector finds nothing and takes
// most of the time.

//go:build !race

package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// callsIn runs the world on, and returns how many calls a second all nodes answered,
// and the one that answered most.
func (w *world) callsIn(d time.Duration) (all, most int) {
	before := make([]int, len(w.nodes))
	for i, h := range w.nodes {
		before[i] = h.calls
	}
	w.run(w.now + d)
	for i, h := range w.nodes {
		n := h.calls - before[i]
		all += n
		most = max(most, n)
	}
	perSecond := func(n int) int { return int(time.Duration(n) * time.Second / d) }
	return perSecond(all), perSecond(most)
}

// A hundred processes that share a thousand shards cost the lock nodes little.
func TestCallsOfAHundredProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("it simulates 100 processes with 1,024 keys")
	}
	for _, keys := range []int{8, 1024} {
		w, _ := newSharedWorld(1, 3*time.Second, keys, ones64(5), ones64(100))
		w.bare = true
		all, most := w.callsIn(5 * time.Second)
		t.Logf("%d keys, while 100 processes begin: %d calls/s of all nodes, %d of one", keys, all, most)
		all, most = w.callsIn(3 * time.Second)
		t.Logf("%d keys, from then on: %d calls/s of all nodes, %d of one", keys, all, most)
		if all >= 2000 {
			t.Errorf("%d keys: the nodes answer %d calls/s, want fewer than 2,000", keys, all)
		}
		if got := len(w.holders()); got != keys {
			t.Errorf("%d of %d keys are held", got, keys)
		}
		// One process ends and comes back, as in a rolling restart.
		w.procs[1].crash()
		restart, _ := w.callsIn(5 * time.Second)
		t.Logf("%d keys, while one of them is started anew: %d calls/s of all nodes", keys, restart)
		if restart >= 2000 {
			t.Errorf("%d keys: while a process comes back the nodes answer %d calls/s, want fewer than 2,000", keys, restart)
		}
		w.report(t)
	}
}

// The number of calls does not grow with the number of shards, neither when each process has its
// own nor when one wants all that others have.
func TestCallsDoNotGrowWithShards(t *testing.T) {
	type calls struct{ steady, contended int }
	got := map[int]calls{}
	for _, keys := range []int{32, 1024} {
		w, sale := newSharedWorld(1, 3*time.Second, keys, ones64(5), ones64(4))
		w.bare = true
		w.run(10 * time.Second)
		var c calls
		c.steady, _ = w.callsIn(12 * time.Second)
		if got := len(w.holders()); got != keys {
			t.Errorf("%d of %d keys are held", got, keys)
		}
		s := w.procs[0].sharer
		s.group("wants all", func(now clock.Now) quorum.Effects { return s.g.Acquire(now, sale.keys...) })
		w.run(w.now + 2*time.Second)
		c.contended, _ = w.callsIn(12 * time.Second)
		t.Logf("%d keys: %+v calls/s of all nodes", keys, c)
		got[keys] = c
		w.report(t)
	}
	// One renewal and two announcements a second, of four processes at five nodes.
	if few, many := got[32], got[1024]; few.steady != 60 || many.steady != 60 {
		t.Errorf("%d and %d calls/s while each has its own, want 60", few.steady, many.steady)
	} else if many.contended > few.contended*5/4 || many.contended > 120 {
		t.Errorf("%d and %d calls/s while one wants all", few.contended, many.contended)
	}
}

// playShared runs a scenario with sharers, then heals the world, and checks that every
// key is held by who should have it, that those of a process that vanishes are held again
// in time, and what is left when all have gone.
func (s scenario) playShared() *world {
	w, sale := newSharedWorld(s.Seed, s.TTL, 8, s.NodeRates, s.ProcRates)
	w.net = s.Net
	for _, in := range s.Incidents {
		w.after(in.At, func() { w.befallShared(sale, in) })
	}
	for at := time.Duration(0); at < horizon; at += time.Second {
		w.after(at, w.save)
	}
	w.run(horizon)
	w.net, w.calm = network{}, true
	w.run(horizon + s.Net.latest + 6*time.Second + quorum.MaxTTL + 2*s.TTL)
	w.wantAllHeld(sale, "the world was healed")
	if len(w.procs) > 1 && len(w.faults) == 0 {
		w.vanish(sale, w.procs[0], s.TTL)
	}
	for _, p := range w.procs {
		p.events = nil
		if !p.dead {
			p.sharer.leave()
		}
	}
	w.run(w.now + s.TTL/4)
	for _, p := range w.procs {
		if len(w.faults) == 0 && !p.dead && (!p.sharer.g.Idle() || !p.sharer.r.Deregistered() || p.sharer.g.Keys() != nil) {
			w.faultf("%s is not idle", p.sharer.id)
		}
	}
	for _, h := range w.nodes {
		for _, key := range sale.keys {
			if k, ok := h.has(h.time(), key); ok && len(w.faults) == 0 {
				w.faultf("%s still has %s for %q", h, key, k.token)
			}
		}
		if members := h.announce(h.time(), quorum.Announcement{Registry: "registry"}); len(members) > 0 && len(w.faults) == 0 {
			w.faultf("%s still has %v", h, members)
		}
	}
	return w
}

func (w *world) befallShared(sale *sale, in incident) {
	p := w.procs[in.Proc]
	switch in.What {
	case "release":
		// It gives something to somebody, who may be itself, dead or of another mind.
		key, heir := sale.keys[w.rnd.IntN(len(sale.keys))], w.procs[w.rnd.IntN(len(w.procs))]
		w.logf("%s is to give %s to %s", p.name, key, heir.name)
		p.sharer.give(heir.sharer.id, []string{key})
		w.after(p.some(2*w.ttl), p.sharer.follow)
	case "acquire":
		w.logf("%s wants all", p.name)
		p.sharer.group("wants all", func(now clock.Now) quorum.Effects { return p.sharer.g.Acquire(now, sale.keys...) })
		w.after(p.some(w.ttl), p.sharer.follow)
	default:
		w.befall(in)
	}
}

// wantAllHeld wants each key to be held by who should have it.
func (w *world) wantAllHeld(sale *sale, after string) {
	if len(w.faults) > 0 {
		return
	}
	var members []quorum.Member
	for _, p := range w.procs {
		if !p.dead {
			members = append(members, quorum.Member{ID: p.sharer.id})
		}
	}
	owners, holders := sale.ownersAmong(members), w.holders()
	for i, key := range sale.keys {
		if p := holders[key]; p == nil || p.sharer.id != owners[i] {
			w.faultf("after %s %s is not held by %s", after, key, owners[i])
			return
		}
	}
}

// vanish ends a process without a word, and wants every key to be held within a ttl and
// a second.
func (w *world) vanish(sale *sale, p *proc, ttl time.Duration) {
	w.logf("%s vanishes", p.name)
	p.dead = true
	w.run(w.now + ttl + time.Second)
	w.wantAllHeld(sale, p.name+" has vanished")
}

// While nodes remember, whoever believes in a key of a group has a majority for it.
func TestSharersHaveTheMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawScenario(t, append([]string{"crash"}, lossless...)).playShared().report(t)
	})
}

// When nodes forget as well, there still are no two who believe in a key.
func TestNoTwoSharersWhenNodesForget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawScenario(t, append([]string{"crash"}, lossy...)).playShared().report(t)
	})
}

// A seed is all that a run depends on.
func TestSharersSameSeedSameTrace(t *testing.T) {
	for seed := range uint64(5) {
		s := scenario{Seed: seed, TTL: 3 * time.Second, NodeRates: ones64(3), ProcRates: ones64(3), Net: network{lost: 10, twice: 5, late: 10, latest: time.Second}}
		if a, b := s.playShared(), s.playShared(); a.trace != b.trace || a.steps != b.steps {
			t.Fatalf("traces differ: %x after %d steps, %x after %d", a.trace, a.steps, b.trace, b.steps)
		}
	}
}

// Whichever of several processes vanishes, with a node that hangs or is gone and calls
// that get lost: its keys are held again within a ttl and a second.
func TestKeysOfWhoVanishes(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w, sale := newSharedWorld(seed, 3*time.Second, 16, ones64(5), ones64(5))
			switch h := w.nodes[seed%5]; seed % 4 {
			case 0:
				h.down = true
			case 1:
				h.shut = true
			case 2:
				w.freeze(int(seed%5), time.Hour)
			}
			w.run(10*time.Second + time.Duration(seed)*77*time.Millisecond)
			w.wantAllHeld(sale, "ten seconds")
			for _, p := range w.procs[1:] {
				w.vanish(sale, p, 3*time.Second)
			}
			w.report(t)
		})
	}
}
