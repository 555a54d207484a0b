// A world runs in one goroutine, where the race detector finds nothing and takes
// most of the time.

//go:build !race

package quorum_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"salectl/backends/quorum"
)

// playLines is play for processes in each of which several users want one key.
// When the troubles are over, nobody comes any more, and everybody who waits then
// must get what he waits for.
func (s scenario) playLines(ageing time.Duration, users []int) *world {
	w := newWorld(s.Seed, s.TTL, s.NodeRates, s.ProcRates)
	w.net = s.Net
	for i, p := range w.procs {
		crowdIn(p, ageing, users[i%len(users)]).populate()
	}
	for _, in := range s.Incidents {
		w.after(in.At, func() { w.befall(in) })
	}
	for at := time.Duration(0); at < horizon; at += time.Second {
		w.after(at, w.save)
	}
	w.run(horizon)
	w.net, w.calm = network{}, true
	// Who is stopped goes on, nodes that forgot vote again, and faulty holders
	// are found out.
	w.run(horizon + s.Net.latest + 6*time.Second + quorum.MaxTTL + 5*s.TTL)
	for _, p := range w.procs {
		if len(w.faults) > 0 {
			break
		}
		if n := len(p.line.tickets); n > 0 {
			w.faultf("%d users of %s still wait", n, p.name)
		}
		if !p.line.idle {
			w.faultf("%s is not done", p.name)
		}
	}
	for _, h := range w.nodes {
		if k, ok := h.has(h.time(), "k0"); ok && len(w.faults) == 0 && !w.endless {
			w.faultf("%s still has the key for %s", h, k.token)
		}
	}
	return w
}

func TestEverybodyInLineIsServed(t *testing.T) {
	for name, troubles := range map[string][]string{
		"nodes remember": lossless, "nodes forget": lossy, "keys do not run out": lasting,
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawScenario(t, troubles)
				ageing := rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t, "ageing")
				users := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 3).Draw(t, "users")
				s.playLines(ageing, users).report(t)
			})
		})
	}
}

// Processes whose own users would keep the key among themselves for ever let
// each other in.
func TestBusyProcessesTakeTurns(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(seed, 3*time.Second, ones64(3), ones64(2))
		for _, p := range w.procs {
			c := crowdIn(p, 0, 10)
			c.hold, c.think, c.steadfast = 10*time.Millisecond, time.Millisecond, true
			c.populate()
		}
		w.run(30 * time.Second)
		total := [2]int{}
		for i, p := range w.procs {
			for user, n := range p.line.served {
				total[i] += n
				if n < 30 {
					t.Errorf("seed %d: user %d of %s had the key %d times", seed, user, p.name, n)
				}
			}
			if p.line.gap > 2*time.Second {
				t.Errorf("seed %d: %s was without the key for %v", seed, p.name, p.line.gap)
			}
		}
		if total[0] > 2*total[1] || total[1] > 2*total[0] {
			t.Errorf("seed %d: had %v times", seed, total)
		}
		w.report(t)
	}
}
