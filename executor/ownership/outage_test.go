package ownership

import (
	"fmt"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/memory"
	"salectl/backends/quorum"
)

// TestOwnerWithoutAMajority takes away two of five lock nodes, which nobody may
// notice, then a third. The process may not append any more within a ttl, and
// says that there is no quorum. When the third is back it owns the sale again
// within a ttl and a second; if the third has lost its memory, after it votes
// again.
func TestOwnerWithoutAMajority(t *testing.T) {
	for _, ttl := range []time.Duration{quorum.MinTTL, quorum.DefaultTTL, quorum.MaxTTL} {
		for name, away := range map[string]func(*ownerWorld) map[int]bool{
			"hang":   func(w *ownerWorld) map[int]bool { return w.hangs },
			"refuse": func(w *ownerWorld) map[int]bool { return w.refuses },
		} {
			for _, empty := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v, %s, empty %v", ttl, name, empty), func(t *testing.T) {
					w := newOwnerWorldOn(t, 5, ttl)
					w.apply(3)
					w.pass(time.Second)
					w.wantShares(owned, owned, owned)
					off := away(w)
					off[0], off[3] = true, true
					w.pass(3 * ttl)
					if len(w.opened) != 3 || len(w.halts) != 0 || !w.valid() {
						t.Fatalf("two dead nodes of five were noticed: opened %v, stopped with %+v", w.opened, w.halts)
					}
					off[4] = true
					gone, ok := w.passUntil(func() bool { return len(w.mayAppendTo()) == 0 && len(w.halts) == 3 }, ttl)
					if !ok {
						t.Fatal("it may append a ttl after the majority had gone")
					}
					w.end()
					for range 20 {
						w.pass(ttl / 7)
						if a := w.o.Absent(); a.Outcome != api.NoQuorum {
							t.Fatalf("without a majority claims are told %+v", a)
						}
					}
					least, most := time.Duration(0), ttl+time.Second
					if empty {
						w.nodes[4].RestartEmpty()
						least, most = quorum.MaxTTL, quorum.MaxTTL+2*time.Second
					}
					off[4] = false
					returned := w.now.Mono
					back, ok := w.passUntil(func() bool {
						// Until the third was asked for its vote, it may have one.
						if a := w.o.Absent(); empty && w.now.Mono > returned+2*time.Second && w.now.Mono < returned+quorum.MaxTTL && a.Outcome != api.NoQuorum {
							t.Fatalf("before there is a majority claims are told %+v", a)
						}
						return w.valid()
					}, most)
					if !ok || back < least || len(w.opened) != 6 {
						t.Fatalf("serves again: %v, after %v", ok, back)
					}
					t.Logf("stopped after %v, back after %v", gone, back)
				})
			}
		}
	}
}

// TestOwnerReturnsAtOnce has the third node come back right after the leases were
// lost, when the releases of the two that stay away are still tried.
func TestOwnerReturnsAtOnce(t *testing.T) {
	w := newOwnerWorldOn(t, 5, quorum.MaxTTL)
	w.apply(3)
	w.pass(time.Second)
	w.hangs[0], w.hangs[3], w.hangs[4] = true, true, true
	if _, ok := w.passUntil(func() bool { return len(w.halts) == 3 }, w.ttl); !ok {
		t.Fatal("the leases were not lost")
	}
	w.hangs[4] = false
	w.end()
	took, ok := w.passUntil(w.valid, 3*time.Second)
	if !ok {
		t.Fatalf("not back after %v", took)
	}
	t.Logf("back after %v", took)
}

// TestOwnerDrainsBesideDeadNodes does not wait for nodes that are away.
func TestOwnerDrainsBesideDeadNodes(t *testing.T) {
	w := newOwnerWorldOn(t, 5, quorum.MaxTTL)
	w.apply(3)
	w.pass(time.Second)
	w.hangs[0], w.hangs[3] = true, true
	w.o.Drain(w.now)
	w.run()
	w.end()
	took, ok := w.passUntil(func() bool { return w.o.Drained(w.now) }, 4*time.Second)
	if !ok {
		t.Fatalf("not gone after %v", took)
	}
	for _, i := range []int{1, 2, 4} {
		w.node = w.nodes[i]
		if left := w.holders(); len(left) != 0 {
			t.Errorf("node %d still has %v", i, left)
		}
	}
}

// TestOwnerReadsThePast has one read of the sale's log answered from before there
// was any. The session ends, since the sale may be gone, but nobody may be told
// that it is closed: the next read finds it as live as ever.
func TestOwnerReadsThePast(t *testing.T) {
	w := applied(t, 2)
	present := w.logs
	w.logs = memory.NewStore().Handle(nil)
	w.pass(quorum.DefaultTTL / ReadsPerTTL)
	w.logs = present
	w.wantStage(leaving)
	if len(w.halts) != 2 || w.halts[0].Halt.Refusal != api.Standby || w.halts[1].Halt.Why != errLost {
		t.Fatalf("stopped with %+v, want all to refuse with %s", w.halts, api.Standby)
	}
	w.end()
	w.pass(quorum.DefaultTTL)
	w.wantShares(owned, owned)
	if w.starts != 2 || !w.valid() {
		t.Errorf("%d starts, valid %v", w.starts, w.valid())
	}
}
