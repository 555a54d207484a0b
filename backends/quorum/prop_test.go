// A world runs in one goroutine, where the race detector finds nothing and takes
// most of the time.

//go:build !race

package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"salectl/backends/quorum"
)

// scenario is one run of a world.
type scenario struct {
	Seed      uint64
	TTL       time.Duration
	NodeRates []float64
	ProcRates []float64
	Net       network
	Incidents []incident
}

// incident is a trouble that begins at an instant and may last.
type incident struct {
	At, Length time.Duration
	What       string
	Node, Proc int
}

// Clocks differ in speed by up to 1%, which is what the drift allows for.
var rates = []float64{0.995, 1, 1.005}

const horizon = 25 * time.Second

// lossless are the troubles after which every node still knows its promises.
var lossless = []string{"freeze", "down", "stop", "suspend", "jump", "cut to", "cut from", "release", "acquire"}

// lossy are those by which nodes forget, or remember what is over. In an ambush
// all of them do, in the moment in which a holder is stopped.
var lossy = append([]string{"restart empty", "restart old", "flush", "ambush empty", "ambush old"}, lossless...)

// lasting are those by which keys outlive their ttl.
var lasting = append([]string{"halt", "endless", "endless", "crash", "crash"}, lossless...)

func drawScenario(t *rapid.T, troubles []string) scenario {
	s := scenario{
		Seed:      rapid.Uint64().Draw(t, "seed"),
		TTL:       time.Duration(rapid.IntRange(2000, 4000).Draw(t, "ttl")) * time.Millisecond,
		NodeRates: rapid.SliceOfN(rapid.SampledFrom(rates), 1, 5).Draw(t, "nodes"),
		ProcRates: rapid.SliceOfN(rapid.SampledFrom(rates), 1, 3).Draw(t, "procs"),
		Net: network{
			lost:  rapid.IntRange(0, 20).Draw(t, "lost"),
			twice: rapid.IntRange(0, 10).Draw(t, "twice"),
			late:  rapid.IntRange(0, 20).Draw(t, "late"),
		},
	}
	s.Net.latest = s.TTL * time.Duration(rapid.IntRange(1, 6).Draw(t, "latest")) / 3
	s.Incidents = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) incident {
		return incident{
			At:     time.Duration(rapid.IntRange(0, int(horizon/time.Millisecond)).Draw(t, "at")) * time.Millisecond,
			Length: time.Duration(rapid.IntRange(1, 6000).Draw(t, "length")) * time.Millisecond,
			What:   rapid.SampledFrom(troubles).Draw(t, "what"),
			Node:   rapid.IntRange(0, len(s.NodeRates)-1).Draw(t, "node"),
			Proc:   rapid.IntRange(0, len(s.ProcRates)-1).Draw(t, "proc"),
		}
	}), 0, 20).Draw(t, "incidents")
	return s
}

// play runs a scenario to its horizon, then heals the world, lets everybody
// release, and checks what is left.
func (s scenario) play() *world {
	w := newWorld(s.Seed, s.TTL, s.NodeRates, s.ProcRates)
	w.net = s.Net
	for _, p := range w.procs {
		p.key, p.hold = "k0", 3*s.TTL
		w.after(p.some(s.TTL), func() { p.acquire(p.key) })
	}
	for _, in := range s.Incidents {
		w.after(in.At, func() { w.befall(in) })
	}
	for at := time.Duration(0); at < horizon; at += time.Second {
		w.after(at, w.save)
	}
	w.run(horizon)
	w.net, w.calm = network{}, true
	// Whatever is late has arrived by then, whoever is stopped has gone on, and
	// who still holds something has renewed it.
	w.run(horizon + s.Net.latest + 6*time.Second + 2*s.TTL)
	for _, p := range w.procs {
		p.release()
	}
	w.run(w.now + s.TTL/4)
	for _, p := range w.procs {
		if len(w.faults) > 0 {
			break
		}
		if !p.m.Idle() {
			w.faultf("%s is not idle", p.name)
		}
	}
	for _, h := range w.nodes {
		if k, ok := h.has(h.time(), "k0"); ok && len(w.faults) == 0 && !w.endless {
			w.faultf("%s still has k0 for %s", h, k.token)
		}
	}
	return w
}

func hasEvent(p *proc, kind quorum.EventKind) bool {
	for _, ev := range p.events {
		if ev.Kind == kind {
			return true
		}
	}
	return false
}

// befall lets an incident happen.
func (w *world) befall(in incident) {
	h, p := w.nodes[in.Node], w.procs[in.Proc]
	w.logf("%s at %s, %s for %v", in.What, h, p.name, in.Length)
	switch in.What {
	case "freeze":
		w.freeze(in.Node, in.Length)
	case "down":
		h.down = true
		w.after(in.Length, func() { h.down = false })
	case "restart empty":
		w.forget = true
		h.restart(nil)
	case "restart old":
		w.forget = true
		h.restart(h.saved)
	case "ambush empty", "ambush old":
		w.forget = true
		for _, q := range w.procs {
			if q.holds("k0") {
				q.stop(in.Length, false)
			}
		}
		for _, h := range w.nodes {
			if in.What == "ambush old" {
				h.restart(h.saved)
			} else {
				h.restart(nil)
			}
		}
	case "flush":
		w.forget = true
		clear(h.keys)
		clear(h.markers)
	case "halt":
		h.halt(in.Length)
	case "endless":
		w.endless = true
		for _, h := range w.nodes {
			h.endless()
		}
	case "crash":
		p.crash()
	case "stop":
		p.stop(in.Length, false)
	case "suspend":
		p.stop(in.Length, true)
	case "jump":
		// The machine has an input before it can be suspended: a jump back and a
		// suspend between two inputs hide each other from both clocks.
		if !p.suspended {
			p.jump += in.Length - 3*time.Second
			p.tick()
		}
	case "cut to":
		p.cutTo[in.Node] = true
		w.after(in.Length, func() { p.cutTo[in.Node] = false })
	case "cut from":
		p.cutFrom[in.Node] = true
		w.after(in.Length, func() { p.cutFrom[in.Node] = false })
	case "release":
		if p.line == nil {
			p.release()
			p.again()
		}
	case "acquire":
		if p.line == nil {
			p.acquire(p.key)
		}
	}
}

// save is what nodes do that write to disk once a second.
func (w *world) save() {
	for _, h := range w.nodes {
		h.saved = h.simNode.save()
	}
}

func (w *world) report(t interface{ Fatalf(string, ...any) }) {
	if len(w.faults) > 0 {
		t.Fatalf("%s\n%s", strings.Join(w.faults, "\n"), strings.Join(w.lines, "\n"))
	}
}

// While nodes remember, whoever believes in a key has a majority for it at that
// very instant, so no two ever do.
func TestBelieversHaveTheMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawScenario(t, lossless).play().report(t) })
}

// When nodes forget as well, there still are no two believers.
func TestNoTwoBelieversWhenNodesForget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawScenario(t, lossy).play().report(t) })
}

// A seed is all that a run depends on.
func TestSameSeedSameTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t, lossy)
		a, b := s.play(), s.play()
		if a.trace != b.trace || a.steps != b.steps {
			t.Fatalf("traces differ: %x after %d steps, %x after %d", a.trace, a.steps, b.trace, b.steps)
		}
	})
}

// With any minority of the nodes dead, one process alone has its key after one
// round trip, however the dead hang.
func TestAcquiresWithoutAMinority(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for dead := range 1 << n {
			if ones(dead) > (n-1)/2 {
				continue
			}
			t.Run(fmt.Sprintf("%d nodes, dead %05b", n, dead), func(t *testing.T) {
				w := newWorld(2, 3*time.Second, ones64(n), ones64(1))
				for i, h := range w.nodes {
					h.down = dead>>i&1 == 1
				}
				p := w.procs[0]
				p.acquire("a")
				w.run(5 * time.Millisecond)
				if p.m.State() != quorum.Held || w.steps > 4*n {
					t.Errorf("%v after %d steps", p.m.State(), w.steps)
				}
				w.run(20 * time.Second)
				if p.m.State() != quorum.Held || hasEvent(p, quorum.Losing) {
					t.Errorf("did not keep it: %v", p.events)
				}
				w.report(t)
			})
		}
	}
}

// A node whose replies are lost executes its requests, and a repeated request gets
// the same: neither a try nor a renewal takes its own traces for another's.
func TestLostRepliesAreRetried(t *testing.T) {
	w := newWorld(1, 3*time.Second, ones64(1), ones64(1))
	p := w.procs[0]
	lose := func() { p.cutFrom[0] = true }
	find := func() { p.cutFrom[0] = false }
	lose()
	w.after(700*time.Millisecond, find)
	p.acquire("a")
	w.run(400 * time.Millisecond)
	if p.m.State() != quorum.Acquiring || w.votes("a", "p0.1.1") != 1 {
		t.Fatalf("%v, and %d nodes have granted the request", p.m.State(), w.votes("a", "p0.1.1"))
	}
	w.run(2 * time.Second)
	if p.m.State() != quorum.Held {
		t.Fatalf("%v after answers come again", p.m.State())
	}
	for range 10 {
		lose()
		w.after(w.ttl/4, find)
		w.run(w.now + 2*w.ttl)
	}
	if p.m.State() != quorum.Held || hasEvent(p, quorum.Losing) {
		t.Errorf("lost in spite of a node that kept it: %v", p.events)
	}
	w.report(t)
}

// Whoever is alive comes to the key within a few ttl, however many contend.
func TestContendersGetOn(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(seed, 2*time.Second, ones64(5), ones64(4))
		w.nodes[seed%5].down = true
		for _, p := range w.procs {
			p.hold = time.Second
			p.acquire("k")
		}
		w.run(3 * w.ttl)
		won := 0
		for _, p := range w.procs {
			for _, ev := range p.events {
				if ev.Kind == quorum.Won {
					won++
				}
			}
		}
		if won < 3 {
			t.Errorf("seed %d: had %d times in 3 ttl", seed, won)
		}
		w.report(t)
	}
}

func ones(x int) (n int) {
	for ; x > 0; x &= x - 1 {
		n++
	}
	return n
}

func ones64(n int) []float64 {
	f := make([]float64, n)
	for i := range f {
		f[i] = 1
	}
	return f
}
