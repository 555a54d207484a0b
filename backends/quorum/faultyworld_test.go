// A world runs in one goroutine, where the race detector finds nothing and takes
// most of the time.

//go:build !race

package quorum_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Where keys do not run out, because clocks of nodes stand still or keys have
// lost their ends, those who wait remove what nobody keeps alive, and still there
// are no two believers.
func TestFaultyHoldersAreBrokenSafely(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { drawScenario(t, lasting).play().report(t) })
}

// A key that does not run out is removed once its holder is stopped, and not
// while it lives.
func TestFaultyHolderIsBroken(t *testing.T) {
	for name, last := range map[string]func(*host){
		"without an end":                (*host).endless,
		"the node's clock stands still": func(h *host) { h.halt(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				w := newWorld(seed, 3*time.Second, ones64(3), ones64(2))
				first, second := w.procs[0], w.procs[1]
				first.acquire("k0")
				w.run(time.Second)
				for _, h := range w.nodes {
					last(h)
				}
				second.acquire("k0")
				w.run(time.Minute)
				if !first.m.Holds("k0") || w.broken > 0 {
					t.Fatalf("seed %d: a holder that lives was robbed", seed)
				}
				for _, h := range w.nodes {
					h.endless()
				}
				first.stop(time.Hour, false)
				took, ok := w.until(func() bool { return second.m.Holds("k0") }, 2*w.ttl)
				if !ok || took < w.ttl/2 || w.broken == 0 || second.m.Stats().Forced != 1 {
					t.Errorf("seed %d: held %v after %v, on %d nodes broken, %d forced", seed, ok, took, w.broken, second.m.Stats().Forced)
				}
				w.report(t)
			}
		})
	}
}
