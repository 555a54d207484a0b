package quorum_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// groupHand steps one group by hand: the test is the nodes, the network and the clock.
type groupHand struct {
	t      *testing.T
	g      *quorum.Group
	now    clock.Now
	calls  map[int]quorum.Call // under way
	sent   int                 // calls so far
	events []quorum.Event      // since they were last taken
	wake   time.Duration
	tokens int
	nodes  int
	left   time.Duration // of the leases of others; 0: a ttl
}

func newGroupHand(t *testing.T, nodes int) *groupHand {
	h := &groupHand{t: t, nodes: nodes, calls: map[int]quorum.Call{}, now: clock.Now{Mono: time.Hour, Wall: epoch}}
	cfg := quorum.Config{
		Marker: "marker", TTL: ttl, Address: "10.0.0.7:8080", Waiter: "me",
		Token:  func() string { h.tokens++; return fmt.Sprintf("t%d", h.tokens) },
		Jitter: func() float64 { return 0.5 },
	}
	for i := range nodes {
		cfg.Nodes = append(cfg.Nodes, fmt.Sprintf("n%d", i))
	}
	var err error
	if h.g, err = quorum.NewGroup(cfg); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *groupHand) do(e quorum.Effects) {
	h.t.Helper()
	for _, c := range e.Calls {
		if _, busy := h.calls[c.Node]; busy {
			h.t.Fatalf("a second call for node %d: %+v", c.Node, c)
		}
		h.calls[c.Node] = c
		h.sent++
	}
	h.events = append(h.events, e.Events...)
	h.wake = e.Wake
}

func (h *groupHand) pass(d time.Duration) {
	h.now.Mono += d
	h.now.Wall = h.now.Wall.Add(d)
}

// sleep lets time pass until the wake-up time of the group.
func (h *groupHand) sleep() {
	h.t.Helper()
	d := h.wake - h.now.Mono
	if h.wake == 0 || d <= 0 {
		h.t.Fatalf("wake is %v at %v", h.wake, h.now.Mono)
	}
	h.pass(d)
	h.do(h.g.Tick(h.now))
}

func (h *groupHand) acquire(keys ...string) { h.t.Helper(); h.do(h.g.Acquire(h.now, keys...)) }
func (h *groupHand) release(next string, keys ...string) {
	h.t.Helper()
	h.do(h.g.Release(h.now, next, keys...))
}

// take ends the call under way for a node.
func (h *groupHand) take(node int) quorum.Call {
	h.t.Helper()
	c, ok := h.calls[node]
	if !ok {
		h.t.Fatalf("no call under way for node %d", node)
	}
	delete(h.calls, node)
	return c
}

// answer lets a node answer: a ballot with yes for all keys but those that another
// has, a release with nothing.
func (h *groupHand) answer(node int, others ...string) {
	h.t.Helper()
	c := h.take(node)
	r := quorum.Reply{Node: node, Seq: c.Seq}
	if c.Vote != nil {
		r.Ballot.Time = h.now.Wall
		for _, a := range c.Vote.Requests {
			no := slices.Contains(others, a.Key)
			var holder quorum.Holding
			if no {
				holder = quorum.Holding{Key: a.Key, Token: "another's", Note: fmt.Sprint("there ", h.sent, " 3000"), Left: cmp.Or(h.left, ttl)}
			}
			r.Ballot.Yes = append(r.Ballot.Yes, !no)
			r.Ballot.Holders = append(r.Ballot.Holders, holder)
		}
	}
	h.do(h.g.Reply(h.now, r))
}

func (h *groupHand) answers(others ...string) {
	h.t.Helper()
	for node := range h.nodes {
		if _, ok := h.calls[node]; ok {
			h.answer(node, others...)
		}
	}
}

func (h *groupHand) fails(node int, err error) {
	h.t.Helper()
	h.do(h.g.Reply(h.now, quorum.Reply{Node: node, Seq: h.take(node).Seq, Err: err}))
}

// requested are the keys of the call under way for a node, with a minus before those that
// it is to release.
func (h *groupHand) requested(node int) (keys []string) {
	c := h.calls[node]
	if c.Vote != nil {
		for _, a := range c.Vote.Requests {
			keys = append(keys, a.Key)
		}
	}
	for _, a := range c.Release {
		keys = append(keys, "-"+a.Key)
	}
	return keys
}

func (h *groupHand) wantRequests(node int, want ...string) {
	h.t.Helper()
	if got := h.requested(node); !slices.Equal(got, want) {
		h.t.Errorf("node %d has the requests %q, want %q", node, got, want)
	}
}

// wantEvents checks the events since its last call, each as "kind key key".
func (h *groupHand) wantEvents(want ...string) {
	h.t.Helper()
	var got []string
	for _, e := range h.events {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Keys))
	}
	h.events = nil
	if !slices.Equal(got, want) {
		h.t.Errorf("events %q, want %q", got, want)
	}
}

func keysTo(n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	return keys
}

func TestGroup(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"a thousand keys are won and renewed by one call a node": func(t *testing.T) {
			h := newGroupHand(t, 3)
			keys := keysTo(1024)
			h.acquire(keys...)
			for node := range 3 {
				h.wantRequests(node, keys...)
			}
			h.answers()
			h.wantEvents(fmt.Sprint("won ", keys))
			if !slices.Equal(h.g.Keys(), keys) {
				t.Errorf("%d keys are held", len(h.g.Keys()))
			}
			before := h.sent
			for range 10 {
				h.sleep()
				for node := range 3 {
					h.wantRequests(node, keys...)
				}
				h.answers()
			}
			if h.sent != before+30 {
				t.Errorf("10 renewals took %d calls of 3 nodes", h.sent-before)
			}
			h.wantEvents()
		},
		"each key is won and lost by itself": func(t *testing.T) {
			h := newGroupHand(t, 3)
			h.acquire("a", "b", "c")
			h.answer(0, "b")
			h.answer(1, "c")
			h.wantEvents("won [a]")
			h.answer(2, "c")
			h.wantEvents("won [b]", "refused [c]")
			if h.g.State("c") != quorum.Acquiring || h.g.State("a") != quorum.Held || h.g.State("d") != quorum.Released {
				t.Errorf("a is %v, c %v, d %v", h.g.State("a"), h.g.State("c"), h.g.State("d"))
			}
			h.acquire("a", "c") // held, and wanted
			h.wantRequests(0, "-c")
			h.wantRequests(1)
			h.answer(0)
			for h.g.Validity("a").At(h.now) {
				h.sleep()
				h.answers("a", "c")
			}
			h.events = slices.DeleteFunc(h.events, func(e quorum.Event) bool { return e.Kind == quorum.Refused })
			h.wantEvents("losing [a]")
		},
		"keys that were won at different times are renewed together, others being tried for": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			h.answers()
			h.pass(ttl / 7)
			h.acquire("b", "c", "d")
			h.answers("c", "d")
			h.pass(ttl / 7)
			h.acquire("e")
			h.answers("c", "d", "e")
			calls, renewals := 0, 0
			for end := h.now.Mono + 10*ttl; h.wake < end; calls++ {
				if len(h.calls) == 0 {
					h.sleep()
				}
				if keys := h.requested(0); slices.Contains(keys, "a") || slices.Contains(keys, "b") {
					renewals++
					if !slices.Contains(keys, "a") || !slices.Contains(keys, "b") {
						t.Errorf("the requests are %q", keys)
					}
				} else if calls > 20 && !slices.Equal(keys, []string{"c", "d", "e"}) {
					t.Errorf("the requests are %q long after all were refused", keys)
				}
				h.answers("c", "d", "e")
			}
			if renewals != 30 || calls > 5*renewals {
				t.Errorf("%d calls in 10 ttl, %d of them renewals", calls, renewals)
			}
		},
		"what comes while a node is busy goes out as one ballot and one release": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a", "b")
			h.answers()
			h.acquire("c")
			h.acquire("d", "e")
			h.release("", "a")
			h.acquire("f")
			h.release("heir", "b")
			h.wantRequests(0, "c")
			h.answers()
			h.wantRequests(0, "-a", "-b")
			h.acquire("g")
			h.release("", "c")
			h.answers()
			h.wantRequests(0, "d", "e", "f", "g")
			h.answers()
			h.wantRequests(0, "-c")
			h.answers()
			h.wantRequests(0)
			h.wantEvents("won [a b]", "won [c]", "freed [a b]", "won [d e f g]", "freed [c]")
		},
		"only held keys are handed over, and requests have a waiter that is not listed": func(t *testing.T) {
			h := newGroupHand(t, 3)
			h.acquire("a", "b")
			for _, a := range h.calls[0].Vote.Requests {
				if a.Waiter != "me" || a.Waited >= 0 {
					t.Errorf("the first try requests %+v", a)
				}
			}
			h.answer(0)
			h.answer(1, "b")
			h.release("heir", "a", "b")
			h.wantRequests(0, "-a", "-b")
			if requests := h.calls[0].Release; requests[0].Next != "heir" || requests[1].Next != "" {
				t.Errorf("releases %+v", requests)
			}
		},
		"a key that was freed is forgotten, but not its counts nor its tokens": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			old := h.calls[0].Vote.Requests[0].Token
			h.answers()
			h.release("", "a")
			if h.g.Idle() {
				t.Error("idle while a release is under way")
			}
			h.answers()
			h.wantEvents("won [a]", "freed [a]")
			if !h.g.Idle() || h.wake != 0 {
				t.Errorf("idle is %t, wake %v", h.g.Idle(), h.wake)
			}
			h.release("", "a", "never seen")
			h.acquire("a")
			if s := h.g.Stats(); s.Won != 1 || s.Tries != 2 || s.Yes != 1 {
				t.Errorf("counts %+v", s)
			}
			// The node was stopped, and did the old ballot only now.
			c := h.take(0)
			if c.Vote.Requests[0].Token == old {
				t.Errorf("token %s is used twice", old)
			}
			h.do(h.g.Reply(h.now, quorum.Reply{Seq: c.Seq, Ballot: quorum.BallotReply{
				Yes: []bool{false}, Holders: []quorum.Holding{{Key: "a", Token: old, Left: ttl}}, Time: h.now.Wall,
			}}))
			h.wantRequests(0, "-a")
			if a := h.calls[0].Release[0]; a.Token != old {
				t.Errorf("releases %+v, want token %s", a, old)
			}
		},
		"a key that is wanted again before it was freed has no event freed": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			h.answers()
			h.release("", "a")
			h.acquire("a")
			h.answers()
			h.wantRequests(0, "a")
			h.answers()
			h.wantEvents("won [a]", "won [a]")
		},
		"a notified waiter tries at once": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a", "b")
			h.do(h.g.Woken(h.now, "a")) // while it is tried for
			h.answers("a")
			h.wantRequests(0, "a") // again, without an event
			h.wantEvents("won [b]")
			h.answers("a")
			h.wantRequests(0)
			h.do(h.g.Woken(h.now, "b", "c")) // held, and unknown
			h.wantRequests(0)
			h.pass(10 * ms)
			h.do(h.g.Woken(h.now, "a"))
			h.wantRequests(0, "a")
			h.answers()
			h.wantEvents("refused [a]", "won [a]")
			if got, want := h.g.Validity("a").Until(), h.now.Mono+ttl-drift; got != want {
				t.Errorf("valid until %v, want %v", got, want)
			}
		},
		"a key is valid from when its ballot was due, however long the node was busy": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			h.pass(ttl / 10)
			h.acquire("b")
			sent := h.now.Mono
			h.pass(ttl / 10)
			h.answers()
			if !slices.Contains(h.requested(0), "b") {
				t.Errorf("the requests are %q", h.requested(0))
			}
			h.pass(ttl / 10)
			h.answers()
			if got, want := h.g.Validity("b").Until(), sent+ttl-drift; got != want {
				t.Errorf("valid until %v, want %v", got, want)
			}
			if v := h.g.Validity("c"); v.At(h.now) || v.Until() != 0 {
				t.Errorf("a key that was never requested is valid until %v", v.Until())
			}
		},
		"a wall clock that jumps ends all, also what nothing was due for": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			h.answers()
			v := h.g.Validity("a")
			h.now.Wall = h.now.Wall.Add(ttl / 2)
			h.do(h.g.Release(h.now, "", "unknown"))
			h.now.Wall = h.now.Wall.Add(-ttl / 2) // as if nothing had been
			if got := h.g.Validity("a").Until(); got != v.Until()-ttl/2 {
				t.Errorf("valid until %v, want %v less %v", got, v.Until(), ttl/2)
			}
			h.now.Wall = h.now.Wall.Add(ttl)
			h.do(h.g.Tick(h.now))
			if h.g.State("a") != quorum.Lost {
				t.Errorf("a is %v", h.g.State("a"))
			}
		},
		"a request without an answer is repeated": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a", "b")
			h.release("", "b")
			h.fails(0, errTimeout)
			h.wantRequests(0, "-a", "-b") // it may have granted them
			h.fails(0, errTimeout)
			for range 100 {
				if len(h.calls) > 0 {
					h.answers()
				} else {
					h.sleep()
				}
				if h.g.State("a") == quorum.Held && h.g.Idle() {
					break
				}
			}
			h.wantEvents("refused [a]", "won [a]", "freed [b]")
		},
		"a holder is held to be faulty when it has shown no sign of life for long": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a")
			begin := h.now.Mono
			for h.calls[0].Release == nil {
				c := h.take(0)
				h.do(h.g.Reply(h.now, quorum.Reply{Seq: c.Seq, Ballot: quorum.BallotReply{
					Yes: []bool{false}, Holders: []quorum.Holding{{Key: "a", Token: "dead", Note: "there 1 2000", Left: ttl}},
				}}))
				if len(h.calls) == 0 {
					h.sleep()
				}
			}
			h.wantRequests(0, "-a")
			if took := h.now.Mono - begin; took < ttl || took > 2*ttl { // which is three times the interval
				t.Errorf("it was removed after %v", took)
			}
		},
		"a reply of another shape is an error": func(t *testing.T) {
			h := newGroupHand(t, 1)
			h.acquire("a", "b")
			r := quorum.Reply{Seq: h.take(0).Seq, Ballot: quorum.BallotReply{Yes: []bool{true}, Holders: make([]quorum.Holding, 1)}}
			h.do(h.g.Reply(h.now, r))
			h.wantEvents("refused [a]", "refused [b]")
			if n := h.g.Node(0); n.Err == nil {
				t.Errorf("the node is %+v", n)
			}
			h.do(h.g.Reply(h.now, r)) // twice
			h.wantEvents()
		},
	} {
		t.Run(name, test)
	}
}

// A node that hangs keeps the call under way for a while, and what waits for it must

// TestGroupWhenLeasesRunOut tries for the keys of a holder that has died in one call, just when
// their leases have run out.
func TestGroupWhenLeasesRunOut(t *testing.T) {
	h := newGroupHand(t, 3)
	h.acquire("k0", "k1", "k2")
	for range 5 {
		h.answers("k0", "k1", "k2")
		h.sleep()
	}
	h.left = 100 * ms
	h.answers("k0", "k1", "k2")
	began := h.now.Mono
	h.sleep()
	if got := h.now.Mono - began; got != 104*ms+ms/2 {
		t.Errorf("they are tried for again after %v", got)
	}
	h.wantRequests(0, "k0", "k1", "k2")
}

// not time out again and again.
func TestGroupWithANodeThatHangs(t *testing.T) {
	h := newGroupHand(t, 3)
	h.acquire("a")
	h.answer(0)
	h.answer(1) // and node 2 hangs
	h.wantEvents("won [a]")
	// b is refused where it is requested; that node 2 might grant it counts until the
	// call of a has failed there.
	h.acquire("b")
	h.answer(0, "b")
	h.answer(1)
	h.wantEvents()
	h.pass(quorum.CallTimeout(ttl))
	h.fails(2, errTimeout)
	h.wantEvents("refused [b]")
	h.wantRequests(2, "a")
	if h.wake < h.now.Mono+ttl/128 {
		t.Errorf("b is tried again after %v", h.wake-h.now.Mono)
	}
	// From then on the node is not waited for, also by keys that are new.
	h.acquire("c")
	h.answer(0, "c")
	h.answers0and1()
	h.events = nil
	h.acquire("d")
	for range 20 {
		h.answers0and1()
	}
	if h.g.State("d") != quorum.Held {
		t.Errorf("d is %v", h.g.State("d"))
	}
}

// answers0and1 lets the first two nodes grant all requests.
func (h *groupHand) answers0and1() {
	for node := range 2 {
		if _, ok := h.calls[node]; ok {
			h.answer(node)
		}
	}
}
