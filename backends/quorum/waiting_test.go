package quorum_test

import (
	"slices"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// newWaiter is a hand whose machine the nodes list as w.
func newWaiter(t *testing.T, nodes int) *hand {
	return newHandOf(t, nodes, func(cfg *quorum.Config) { cfg.Waiter = "w" })
}

// lists checks the waiter in a node's request.
func (h *hand) lists(node int, waiter string, waited time.Duration) {
	h.t.Helper()
	for _, a := range h.calls[node].Vote.Requests {
		if a.Waiter != waiter || a.Waited != waited {
			h.t.Errorf("node %d is to list %q with %v, want %q with %v", node, a.Waiter, a.Waited, waiter, waited)
		}
	}
}

func (h *hand) woken() { h.t.Helper(); h.do(h.m.Woken(h.now)) }

func TestWaiting(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"nodes list who waits from the second try on": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("a")
			h.lists(0, "", 0)
			h.votes(0, "o")
			first := h.sleep()
			h.lists(0, "w", first)
			h.votes(0, "o")
			second := h.sleep()
			h.lists(0, "w", first+second)
		},
		"what waits in a line counts as its head has waited": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("a")
			h.votes(0, "o")
			h.m.Waiting(time.Minute)
			d := h.sleep()
			h.lists(0, "w", time.Minute+d)
		},
		"what does not count as having waited at all is not listed ahead of its time": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("a")
			h.votes(0, "o")
			h.m.Waiting(-time.Minute)
			h.sleep()
			h.lists(0, "w", 0)
		},
		"without a name nobody is listed": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.votes(0, "o")
			h.sleep()
			h.lists(0, "", 0)
			h.release()
			h.votes(0, "o")
			h.frees(0, "a/t2")
			h.wantEvents(quorum.Refused, quorum.Freed)
		},
		"a notified waiter tries at once": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("a")
			h.votes(0, "o")
			h.woken()
			h.wantRequests(0, "a/t2")
			h.votes(0, "y")
			h.is(quorum.Held)
		},
		"a waiter that is notified during a try tries once more at once": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("a")
			h.woken()
			h.woken() // each of three nodes that free a key notifies it
			h.votes(0, "o")
			h.wantRequests(0, "a/t1")
			h.wantEvents()
			h.votes(0, "o")
			h.wantEvents(quorum.Refused)
			if len(h.calls) > 0 || h.wake <= h.now.Mono+1 {
				t.Errorf("calls %v, wakes %v later", h.calls, h.wake-h.now.Mono)
			}
		},
		"who is woken and wants nothing does nothing": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.woken()
			h.is(quorum.Released)
			h.acquire("a")
			h.votes(0, "y")
			h.woken()
			h.is(quorum.Held)
			if len(h.calls) > 0 {
				t.Errorf("calls %v", h.calls)
			}
		},
		"to be woken does not outlast the wait": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("a")
			h.woken()
			h.votes(0, "y")
			h.release()
			h.frees(0, "a/t1")
			h.acquire("a")
			h.votes(0, "o")
			if len(h.calls) > 0 {
				t.Errorf("calls %v", h.calls)
			}
		},
		"who gives up leaves the lists": func(t *testing.T) {
			h := newWaiter(t, 3)
			h.acquire("a")
			h.votes(0, "o")
			h.votes(1, "o")
			h.sleep()
			h.votes(0, "o")
			h.release()
			h.frees(0, "a/w")
			h.votes(1, "o") // is in the second try
			h.frees(1, "a/t2", "a/w")
			h.votes(2, "o") // is in the first, which lists nobody
			h.wantEvents(quorum.Refused)
			h.frees(2, "a/t1")
			h.wantEvents(quorum.Freed)
		},
		"who wins leaves the lists that it is still on": func(t *testing.T) {
			h := newWaiter(t, 3)
			h.acquire("a")
			h.votes(0, "o")
			h.votes(1, "o")
			h.votes(2, "o")
			h.frees(2, "a/t1")
			h.sleep()
			h.votes(0, "o")
			h.votes(1, "y")
			h.votes(2, "y")
			h.is(quorum.Held)
			h.unlisted(0, "a")
			if len(h.calls) > 0 {
				t.Errorf("nodes that have granted it have the calls %v", h.calls)
			}
		},
	} {
		t.Run(name, test)
	}
}

// unlisted answers a release that takes the machine off lists and does nothing
// else.
func (h *hand) unlisted(node int, key string) {
	h.t.Helper()
	want := []quorum.LeaseRequest{{Key: key, Token: "w", Waiter: "w"}}
	c := h.take(node)
	if !slices.Equal(c.Release, want) {
		h.t.Errorf("node %d has the requests %+v, want %+v", node, c.Release, want)
	}
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq}))
}

func TestStats(t *testing.T) {
	h := newHand(t, 3)
	h.acquire("a")
	h.votes(0, "o")
	h.votes(1, "o")
	h.fail(2)
	h.frees(2, "a/t1")
	waited := h.sleep()
	h.pass(10 * ms)
	h.votes(0, "y")
	h.votes(1, "y")
	h.abstain(2)
	for range 2 {
		h.sleep()
		c := h.calls[0]
		h.do(h.m.Reply(h.now, quorum.Reply{Node: 0, Seq: h.take(0).Seq, Ballot: quorum.BallotReply{
			Yes: []bool{true}, Holders: make([]quorum.Holding, len(c.Vote.Requests)), Repaired: 1,
		}}))
		h.votes(1, "y")
		h.votes(2, "y")
	}
	h.sleep()
	h.votes(0, "n")
	h.votes(1, "n")
	want := quorum.Stats{
		Tries: 2, Won: 1, Refused: 1, Renewals: 2, Lost: 1, Repaired: 2,
		Yes: 2 + 6, No: 2 + 2, Abstained: 1, Failed: 1,
		Acquiring: waited + 10*ms, Waited: waited,
	}
	if got := h.m.Stats(); got != want {
		t.Errorf("counted\n%+v, want\n%+v", got, want)
	}
}
