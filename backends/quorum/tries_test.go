package quorum_test

import (
	"testing"
	"time"

	"salectl/backends/quorum"
)

// How tries for keys follow each other, and their events and counts.
func TestTries(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"nothing falls due while nothing is wanted": func(t *testing.T) {
			h := newHedger(t, 3)
			h.do(h.m.Tick(h.now))
			if h.wake != 0 {
				t.Errorf("wake %v", h.wake)
			}
			h.wantEvents()
		},
		"the names of the nodes are those of the beginning": func(t *testing.T) {
			names := []string{"n0"}
			h := newHandOf(t, 0, func(cfg *quorum.Config) { cfg.Nodes = names })
			names[0] = "another"
			h.acquire("a")
			h.votes(0, "o")
			wantText(t, h.wantEvents(quorum.Refused)[0].Cause, "n0 has promised it")
		},
		"machines that share late nodes learn from each other": func(t *testing.T) {
			late := quorum.NewLateNodes(3)
			with := func(cfg *quorum.Config) { cfg.Hedge, cfg.LateNodes = 2*ms, late }
			one, other := newHandOf(t, 3, with), newHandOf(t, 3, with)
			one.acquire("a")
			one.votes(1, "y")
			one.sleep()
			other.acquire("b")
			other.wantCalls(1, 2)
		},
		"a renewal that takes long makes no node late": func(t *testing.T) {
			late := quorum.NewLateNodes(3)
			with := func(cfg *quorum.Config) { cfg.Hedge, cfg.LateNodes = 2*ms, late }
			one, other := newHandOf(t, 3, with), newHandOf(t, 3, with)
			one.acquire("a")
			one.votes(0, "y")
			one.votes(1, "y")
			one.sleep() // the third is queried, too
			one.votes(2, "y")
			one.sleep()
			one.wantRequests(0, "a/t1!")
			one.pass(5 * ms)
			one.do(one.m.Tick(one.now))
			other.acquire("b")
			other.wantCalls(0, 1)
		},
		"time comes first, whatever the input": func(t *testing.T) {
			for name, input := range map[string]func(*hand) quorum.Effects{
				"Woken":   func(h *hand) quorum.Effects { return h.m.Woken(h.now) },
				"Tick":    func(h *hand) quorum.Effects { return h.m.Tick(h.now) },
				"Release": func(h *hand) quorum.Effects { return h.m.Release(h.now) },
				"Acquire": func(h *hand) quorum.Effects { return h.m.Acquire(h.now, "a") },
			} {
				h := holding(t, "y")
				h.pass(ttl)
				h.do(input(h))
				if len(h.events) == 0 || h.events[0].Kind != quorum.Losing {
					t.Errorf("%s has the events %+v", name, h.events)
				}
			}
		},
		"what is released late is owed from then on": func(t *testing.T) {
			h := holding(t, "o")
			h.pass(ttl / 2)
			h.release()
			h.frees(0, "a/t1")
			began := h.now.Mono
			for !h.m.Idle() {
				h.fail(1)
				h.sleep()
			}
			if took := h.now.Mono - began; took < ttl {
				t.Errorf("forgotten after %v", took)
			}
		},
		"a waiter that returns after a while has waited since then only": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.acquire("z")
			h.votes(0, "y")
			h.release()
			h.frees(0, "z/t1")
			h.pass(time.Hour)
			h.acquire("a")
			h.votes(0, "o")
			d := h.sleep()
			h.lists(0, "w", d)
		},
		"a group whose nodes notify is on their lists from the first try on": func(t *testing.T) {
			h := newWaiter(t, 1)
			h.woken()
			h.acquire("a")
			h.lists(0, "w", 0)
			h.votes(0, "y")
			h.release()
			h.frees(0, "a/t1")
			h.pass(time.Second)
			h.acquire("a")
			h.lists(0, "w", 0)
		},
		"a try that was refused though a key was freed counts for the pause": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.woken()
			h.votes(0, "o")
			h.votes(0, "o")
			h.wantEvents(quorum.Refused)
			if d := h.sleep(); d != ttl/32 {
				t.Errorf("the next request follows after %v", d)
			}
		},
		"who is refused and does not wait is taken off the lists": func(t *testing.T) {
			h := newHandOf(t, 1, func(cfg *quorum.Config) { cfg.Waiter = "w" })
			h.woken()
			h.acquire("a")
			h.lists(0, "w", 0)
			h.votes(0, "o")
			h.release()
			h.frees(0, "a/w")
			h.wantEvents(quorum.Refused, quorum.Freed)
		},
		"a node that did not answer before the release kept nobody waiting": func(t *testing.T) {
			h := newHedger(t, 3)
			h.acquire("a")
			h.votes(0, "y")
			h.release()
			h.frees(0, "a/t1")
			h.pass(5 * ms)
			h.do(h.m.Tick(h.now))
			if h.wake != 0 {
				t.Errorf("wake %v, and nothing is due", h.wake)
			}
			h.votes(1, "y")
			h.pass(5 * ms)
			h.frees(1, "a/t1")
			h.wantEvents(quorum.Freed)
			h.do(h.m.Tick(h.now))
			h.wantEvents() // once
			h.acquire("a")
			h.wantCalls(0, 1)
		},
		"an answer that comes twice is none to the next call": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			r := h.votes(0, "y")
			h.sleep()
			h.wantRequests(0, "a/t1!")
			old := h.m.ValidUntil()
			h.do(h.m.Reply(h.now, r))
			h.until(old)
			h.votes(0, "y")
			h.until(old + ttl/3)
		},
		"who was granted a key before it was freed elsewhere is on no list there": func(t *testing.T) {
			h := newWaiter(t, 3)
			h.acquire("a")
			h.woken()
			h.votes(0, "y")
			h.votes(1, "o")
			h.votes(2, "o") // once more
			h.lists(0, "w", 0)
			h.votes(1, "y")
			h.votes(2, "y")
			h.is(quorum.Held)
			h.votes(0, "y")
			h.wantCalls()
		},
		"a renewal that failed takes nothing, and leaves nothing to release": func(t *testing.T) {
			h := holding(t, "o")
			h.sleep()
			h.votes(2, "o")
			h.fail(0)
			h.fail(1)
			h.sleep()
			h.wantRequests(2, "a/t1!")
			h.fail(2)
			h.release()
			h.votes(0, "y")
			h.votes(1, "y")
			h.wantCalls(0, 1)
		},
		"nothing is freed before each node has answered, and released": func(t *testing.T) {
			h := holding(t, "o")
			h.sleep()
			h.votes(2, "o")
			h.fail(0)
			h.fail(1)
			h.sleep()
			h.wantRequests(2, "a/t1!")
			h.release()
			for node := range 2 {
				h.votes(node, "y")
				h.fail(node)
				h.pass(ttl / 16)
				h.do(h.m.Tick(h.now))
				h.frees(node, "a/t1")
			}
			h.wantEvents()
			h.fail(2)
			h.wantEvents(quorum.Freed)
		},
		"nothing is freed while a node owes a release, though none is under way": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.votes(0, "y")
			h.release()
			h.fail(0)
			h.wantEvents(quorum.Won)
			h.sleep()
			h.frees(0, "a/t1")
			h.wantEvents(quorum.Freed)
		},
		"the reply to a release has no time of the node": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.votes(0, "y")
			h.release()
			h.frees(0, "a/t1")
			if off, ok := h.m.ClockOff(h.now); !ok || off != 0 {
				t.Errorf("the clock is off by %v, %v", off, ok)
			}
		},
		"who votes abstains no more": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.abstain(0)
			h.sleep()
			h.votes(0, "y")
			if got := h.m.Node(0).VotesFrom; !got.IsZero() {
				t.Errorf("votes from %v", got)
			}
		},
		"a node that the renewal did not reach has the key still": func(t *testing.T) {
			h := holding(t, "y")
			h.sleep()
			h.unsent(0)
			h.release()
			h.frees(0, "a/t1")
		},
		"a round renews the key or is repeated soon, and ever later": func(t *testing.T) {
			h := newHand(t, 5)
			h.acquire("a")
			for node := range 5 {
				h.votes(node, "y")
			}
			end := h.m.ValidUntil()
			round := func(votes string, want time.Duration) {
				t.Helper()
				for node, v := range votes {
					if v == 'f' {
						h.fail(node)
					} else {
						h.votes(node, string(v))
					}
				}
				if d := h.sleep(); d != want {
					t.Errorf("after %s the next round comes after %v, want %v", votes, d, want)
				}
			}
			if d := h.sleep(); d != ttl/3 {
				t.Fatalf("renews after %v", d)
			}
			round("nnyyf", ttl/64)
			h.until(end)
			round("yyfff", ttl/32)
			sent := h.now.Mono
			round("yyyff", ttl/3)
			h.until(sent + ttl - drift)
			round("nnyyf", ttl/64)
			h.until(sent + ttl - drift)
			if got := h.m.Stats().Renewals; got != 1 {
				t.Errorf("counts %d renewals", got)
			}
		},
		"only nodes that list a waiter take it off, and once": func(t *testing.T) {
			h := newWaiter(t, 3)
			h.acquire("a")
			h.votes(1, "o")
			h.votes(2, "o")
			h.sleep() // node 0 has not answered yet
			h.votes(1, "o")
			h.votes(2, "o")
			h.release()
			h.votes(0, "o")
			h.frees(0, "a/t1")
			h.frees(1, "a/w")
			h.frees(2, "a/w")
			h.wantEvents(quorum.Refused, quorum.Refused, quorum.Freed)
			h.acquire("b")
			h.votes(0, "y")
			h.votes(1, "y")
			h.votes(2, "y")
			h.release()
			for node := range 3 {
				h.frees(node, "b/t3")
			}
		},
		"an answer with too few votes or holders is an error": func(t *testing.T) {
			for want, count := range map[string]quorum.BallotReply{
				"0 votes and 1 holders for 1 requests": {Holders: make([]quorum.Holding, 1)},
				"1 votes and 0 holders for 1 requests": {Yes: []bool{true}},
				"1 votes and 2 holders for 1 requests": {Yes: []bool{true}, Holders: make([]quorum.Holding, 2)},
			} {
				h := newHand(t, 1)
				h.acquire("a")
				h.do(h.m.Reply(h.now, quorum.Reply{Seq: h.take(0).Seq, Ballot: count}))
				wantText(t, h.wantEvents(quorum.Refused)[0].Cause, want)
			}
		},
		"keys are valid to the last nanosecondinstead of": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.votes(0, "y")
			h.pass(ttl - drift - 1)
			if !h.m.Valid(h.now) {
				t.Error("over too soon")
			}
			h.pass(1)
			if h.m.Valid(h.now) {
				t.Error("over too late")
			}
		},
		"counts": func(t *testing.T) {
			h := newHand(t, 3)
			h.do(h.m.Tick(h.now))
			h.pass(time.Minute)
			h.acquire("a")
			h.pass(10 * ms)
			h.votes(0, "o")
			h.votes(1, "o")
			h.votes(2, "y")
			h.frees(2, "a/t1")
			pause := h.sleep()
			h.pass(20 * ms)
			h.abstain(0)
			h.votes(1, "y")
			h.votes(2, "y")
			want := quorum.Stats{Tries: 2, Won: 1, Refused: 1, Yes: 2, No: 2, Abstained: 1,
				Waited: 10*ms + pause, Acquiring: 30*ms + pause}
			want.Yes++ // of the try that was refused, after all
			if got := h.m.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			h.sleep()
			h.fail(0)
			for node := 1; node < 3; node++ {
				c := h.take(node)
				h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Ballot: quorum.BallotReply{
					Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: h.now.Wall, Repaired: node}}))
			}
			want.Renewals, want.Failed, want.Repaired, want.Yes = 1, 1, 3, want.Yes+2
			if got := h.m.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			h.pass(ttl)
			h.do(h.m.Tick(h.now))
			want.Lost = 1
			if got := h.m.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			want.Forced = 5
			twice := want.Plus(want)
			if twice.Waited != 2*want.Waited || twice.Acquiring != 2*want.Acquiring || twice.Yes != 2*want.Yes || twice.Tries != 4 ||
				twice.Won != 2 || twice.Refused != 2 || twice.Renewals != 2 || twice.Lost != 2 || twice.Repaired != 6 || twice.Forced != 10 ||
				twice.No != 4 || twice.Abstained != 2 || twice.Failed != 2 {
				t.Errorf("twice %+v is %+v", want, twice)
			}
		},
	} {
		t.Run(name, test)
	}
}

// TestTriesWhenLeasesRunOut tries again just when leases that are in the way have run out on a
// majority, if that is before the pause has ended.
func TestTriesWhenLeasesRunOut(t *testing.T) {
	refused := func(h *hand, node0, node1 time.Duration) time.Duration {
		h.left = node0
		h.votes(0, "o")
		h.left = node1
		h.votes(1, "o")
		for c, called := h.calls[2]; called; c, called = h.calls[2] { // it comes too late to count
			if c.Vote != nil {
				h.votes(2, "o")
			} else {
				h.do(h.m.Reply(h.now, quorum.Reply{Node: 2, Seq: h.take(2).Seq}))
			}
		}
		h.wantEvents(quorum.Refused)
		return h.sleep()
	}
	h := newHand(t, 3)
	h.acquire("a")
	for range 5 { // until pauses grow no more
		refused(h, time.Second, time.Second)
	}
	longest := refused(h, time.Second, time.Second)
	for _, c := range []struct{ node0, node1, want time.Duration }{
		{100 * ms, 100 * ms, 104*ms + ms/2},
		{100 * ms, 150 * ms, 154*ms + ms/2}, // two of three are a majority
		{100 * ms, time.Second, longest},
		{longest, longest, longest},
	} {
		if got := refused(h, c.node0, c.node1); got != c.want {
			t.Errorf("with leases of %v and %v it tries again after %v, want %v", c.node0, c.node1, got, c.want)
		}
	}
	h = newHand(t, 3)
	h.acquire("a")
	h.left = 20 * ms
	h.votes(0, "y")
	h.votes(1, "o")
	if _, called := h.calls[2]; !called { // it is a hedge
		h.sleep()
	}
	h.votes(2, "o")
	h.wantEvents(quorum.Refused)
	if got := h.sleep(); got != 24*ms+ms/2 {
		t.Errorf("with one vote it tries again after %v", got)
	}
}
