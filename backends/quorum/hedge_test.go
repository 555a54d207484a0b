package quorum_test

import (
	"maps"
	"slices"
	"testing"

	"salectl/backends/quorum"
)

// newHedger returns a hand whose machine queries a majority first.
func newHedger(t *testing.T, nodes int) *hand {
	return newHandOf(t, nodes, func(cfg *quorum.Config) { cfg.Hedge, cfg.Waiter = 2*ms, "w" })
}

// wantCalls checks which nodes have a call under way.
func (h *hand) wantCalls(want ...int) {
	h.t.Helper()
	if got := slices.Sorted(maps.Keys(h.calls)); !slices.Equal(got, want) {
		h.t.Fatalf("nodes %v have calls, want %v", got, want)
	}
}

func TestHedge(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"a lock that is held for a moment is known to a majority": func(t *testing.T) {
			h := newHedger(t, 5)
			h.acquire("a")
			h.wantCalls(0, 1, 2)
			for node := range 3 {
				h.votes(node, "y")
			}
			h.is(quorum.Held)
			h.pass(ms)
			h.release()
			h.wantCalls(0, 1, 2)
			for node := range 3 {
				h.frees(node, "a/t1")
			}
			h.wantEvents(quorum.Won, quorum.Freed)
		},
		"and to all when it is held for longer": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "y")
			end := h.m.ValidUntil()
			if d := h.sleep(); d != 2*ms {
				t.Errorf("after %v", d)
			}
			h.wantCalls(2)
			h.votes(2, "y")
			h.until(end)
			h.sleep()
			h.wantRequests(2, "a/t1!")
		},
		"a late node makes the try query the others, and is the last choice from then on": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.votes(1, "y")
			h.sleep()
			h.wantCalls(0, 2)
			h.votes(2, "y")
			h.is(quorum.Held)
			h.release()
			h.frees(1, "a/t1")
			h.frees(2, "a/t1")
			h.fail(0)
			h.frees(0, "a/t1")
			h.wantEvents(quorum.Won, quorum.Freed)
			h.acquire("a")
			h.wantCalls(0, 1) // it has answered since
			h.votes(1, "y")
			h.sleep()
			h.votes(2, "y")
			h.release()
			h.frees(1, "a/t2")
			h.frees(2, "a/t2")
			h.acquire("a") // while it has not
			h.wantCalls(0, 1, 2)
			h.votes(1, "y")
			h.votes(2, "y")
			h.is(quorum.Held)
		},
		"after a no the others are queried at once": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.votes(0, "o")
			h.wantCalls(1, 2)
			h.votes(1, "y")
			h.votes(2, "y")
			h.is(quorum.Held)
		},
		"a node that still has a release to answer is not among the first": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "y")
			h.release()
			h.frees(1, "a/t1")
			h.acquire("a")
			h.wantCalls(0, 1, 2)
			h.frees(0, "a/t1")
			h.wantCalls(1, 2)
		},
		"a group that is notified of freed keys queries all nodes": func(t *testing.T) {
			h := newHedger(t, 3)
			h.woken()
			h.acquire("a")
			h.wantCalls(0, 1, 2)
		},
		"if most are late, the first of those are queried, and no more than a majority": func(t *testing.T) {
			h := newHedger(t, 3)
			slowly := func(nodes ...int) { // so that they stay late
				h.pass(2 * ms)
				for _, node := range nodes {
					h.votes(node, "y")
				}
				h.release()
				h.pass(2 * ms)
				for node, c := range h.calls {
					h.take(node)
					h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq}))
				}
			}
			h.acquire("a")
			h.wantCalls(0, 1)
			h.sleep()
			slowly(0, 1, 2)
			h.acquire("a")
			h.wantCalls(0, 2)
			h.votes(0, "y")
			h.sleep()
			slowly(2, 1)
			h.acquire("a")
			h.wantCalls(0, 1)
		},
		"who has answered is not late because another is": func(t *testing.T) {
			late := quorum.NewLateNodes(5)
			with := func(cfg *quorum.Config) { cfg.Hedge, cfg.LateNodes = 2*ms, late }
			one, other := newHandOf(t, 5, with), newHandOf(t, 5, with)
			one.acquire("a")
			one.votes(0, "y")
			one.votes(1, "y")
			one.sleep()
			other.acquire("b")
			other.wantCalls(0, 1, 3)
		},
		"so does an abstention": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.abstain(0)
			h.wantCalls(1, 2)
		},
		"so does an error": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.fail(0)
			h.wantCalls(1, 2)
			h.votes(1, "y")
			h.votes(2, "y")
			h.is(quorum.Held)
		},
		"a refused group queries all nodes": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.votes(0, "o")
			h.votes(1, "o")
			h.votes(2, "o")
			h.frees(2, "a/t1")
			h.sleep()
			h.wantCalls(0, 1, 2)
		},
	} {
		t.Run(name, test)
	}
}
