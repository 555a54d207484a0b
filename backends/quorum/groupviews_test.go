package quorum_test

import (
	"slices"
	"testing"
	"time"

	"salectl/backends/quorum"
)

func TestGroupViews(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"keys that were freed are dropped, and no others": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a", "b", "c")
			h.answers()
			h.release("", "a", "b")
			h.acquire("b")
			if h.g.Machines() != 3 {
				t.Errorf("%d machines before the release", h.g.Machines())
			}
			h.answers()
			h.answers()
			h.wantEvents("won [a b c]", "freed [a]", "won [b]")
			if h.g.Machines() != 2 || !slices.Equal(h.g.Keys(), []string{"b", "c"}) {
				t.Errorf("%d machines, for %q", h.g.Machines(), h.g.Keys())
			}
			if s := h.g.Stats(); s.Won != 4 {
				t.Errorf("counts %+v", s)
			}
		},
		"simultaneous changes of several keys are one event for each kind": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			h.answers()
			h.acquire("b") // which keeps the node busy
			h.acquire("c", "d")
			h.events = nil
			h.pass(ttl)
			h.release("", "c", "d")
			h.wantEvents("losing [a]", "refused [b]", "refused [c]", "refused [d]", "freed [c d]")
		},
		"a lost key may be requested again at once": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			h.answers()
			h.pass(ttl)
			h.do(h.g.Tick(h.now))
			h.wantEvents("won [a]", "losing [a]")
			h.acquire("a")
			if h.g.State("a") != quorum.Acquiring || h.g.Keys() != nil {
				t.Errorf("a is %v, and held are %q", h.g.State("a"), h.g.Keys())
			}
			h.answers()
			h.answers()
			h.wantEvents("won [a]")
		},
		"nodes": func(t *testing.T) {
			h := newGroupHand(t, 3)
			h.acquire("a", "b", "c")
			h.answer(0, "b")
			h.answer(1)
			h.fails(2, errTimeout)
			h.release("", "a")
			// b waits for node 2, which failed, and is refused; c has its majority.
			for i, want := range []int{1, 2, 2} {
				if got := h.g.Unconfirmed(i); got != want {
					t.Errorf("node %d has %d unconfirmed releases, want %d", i, got, want)
				}
			}
			if v := h.g.Node(2); v.Err != errTimeout || h.g.Node(0).Err != nil {
				t.Errorf("node 0 is %+v, node 2 %+v", h.g.Node(0), v)
			}
		},
		"clocks": func(t *testing.T) {
			h := newGroupHand(t, 3)
			h.acquire("a")
			for node, off := range []time.Duration{time.Minute, time.Second} {
				if _, ok := h.g.ClockOff(h.now); ok {
					t.Errorf("the clock's error is known from %d of 3 nodes", node)
				}
				c := h.take(node)
				h.pass(10 * ms) // so that the node reported its time 5 ms ago
				h.do(h.g.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Ballot: quorum.BallotReply{
					Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: h.now.Wall.Add(-off - 5*ms*time.Duration(node+1)),
				}}))
			}
			if off, ok := h.g.ClockOff(h.now); !ok || off != (time.Minute+time.Second)/2 {
				t.Errorf("the clock is off by %v, %t", off, ok)
			}
			if off, ok := h.g.NodeClockOff(h.now, 1); !ok || off != time.Second {
				t.Errorf("from node 1 by %v, %t", off, ok)
			}
			if _, ok := h.g.NodeClockOff(h.now, 2); ok {
				t.Error("from node 2 by something")
			}
			h.pass(ttl) // without an input
			if _, ok := h.g.NodeClockOff(h.now, 1); !ok {
				t.Error("from node 1 by nothing known within a ttl")
			}
			h.pass(1)
			if _, ok := h.g.NodeClockOff(h.now, 1); ok {
				t.Error("from node 1 by what is older than a ttl")
			}
		},
		"a repair counts once, whatever the number of machines with requests": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a", "b", "c")
			h.do(h.g.Reply(h.now, quorum.Reply{Seq: h.take(0).Seq, Ballot: quorum.BallotReply{
				Yes: []bool{true, true, true}, Holders: make([]quorum.Holding, 3), Repaired: 2,
			}}))
			if s := h.g.Stats(); s.Repaired != 2 {
				t.Errorf("counts %+v", s)
			}
		},
		"a reply to a call before is ignored": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			old := h.calls[0]
			h.fails(0, quorum.ErrUnsent)
			for len(h.calls) == 0 {
				h.sleep()
			}
			h.events = nil
			h.do(h.g.Reply(h.now, quorum.Reply{Seq: old.Seq, Ballot: quorum.BallotReply{Yes: []bool{true}, Holders: make([]quorum.Holding, 1)}}))
			h.wantEvents()
		},
		"it wakes for a release that failed, and for nothing before": func(t *testing.T) {
			h := newGroupHand(t, 2)
			h.acquire("a", "b")
			h.answers()
			h.release("", "a")
			h.fails(0, errTimeout)
			h.pass(ms)
			h.release("", "b")
			h.answer(0) // b's, whose request is not in a call with a's
			h.wantRequests(0)
			h.answer(1)
			h.answer(1)
			begin := h.now.Mono
			h.sleep()
			h.wantRequests(0, "-a")
			if took := h.now.Mono - begin; took != ttl/16-ms {
				t.Errorf("it woke after %v", took)
			}
			h.answer(0)
			if h.wake != 0 {
				t.Errorf("it wakes at %v for nothing", h.wake)
			}
		},
		"a new key does not wait for a node that failed before the key's request": func(t *testing.T) {
			h := newGroupHand(t, 3)
			h.acquire("a")
			h.answer(0)
			h.answer(1)
			h.fails(2, errTimeout)
			h.acquire("b")
			h.answer(0, "b")
			h.answer(1)
			h.wantEvents("won [a]", "refused [b]")
		},
		"a configuration that is none": func(t *testing.T) {
			if _, err := quorum.NewGroup(quorum.Config{}); err == nil {
				t.Error("a group without nodes")
			}
		},
	} {
		t.Run(name, test)
	}
}
