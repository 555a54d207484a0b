package quorum_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

const (
	ms    = time.Millisecond
	ttl   = 3 * time.Second
	drift = ttl/100 + 2*ms
)

// hand steps one machine by hand: the test is the nodes, the network and the
// clock.
type hand struct {
	t      *testing.T
	m      *quorum.Machine
	now    clock.Now
	calls  map[int]quorum.Call // under way
	events []quorum.Event      // since they were last taken
	wake   time.Duration
	jitter float64
	left   time.Duration // of the leases of others; 0: a second
}

func newHand(t *testing.T, nodes int) *hand {
	return newHandOf(t, nodes, func(*quorum.Config) {})
}

// newHandOf is newHand for another Config.
func newHandOf(t *testing.T, nodes int, edit func(*quorum.Config)) *hand {
	h := &hand{t: t, jitter: 0.5, calls: map[int]quorum.Call{}, now: clock.Now{Mono: time.Hour, Wall: epoch}}
	cfg := quorum.Config{
		Marker: "marker", TTL: ttl, Address: "10.0.0.7:8080",
		Token:  func() string { return "t" },
		Jitter: func() float64 { return h.jitter },
	}
	for i := range nodes {
		cfg.Nodes = append(cfg.Nodes, fmt.Sprintf("n%d", i))
	}
	edit(&cfg)
	m, err := quorum.NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.m = m
	return h
}

func (h *hand) do(e quorum.Effects) {
	h.t.Helper()
	for _, c := range e.Calls {
		if c.Vote != nil && c.Vote.TTL != ttl {
			h.t.Fatalf("node %d has a request with the ttl %v", c.Node, c.Vote.TTL)
		}
		if _, busy := h.calls[c.Node]; busy {
			h.t.Fatalf("a second call for node %d: %+v", c.Node, c)
		}
		h.calls[c.Node] = c
	}
	h.events = append(h.events, e.Events...)
	h.wake = e.Wake
}

func (h *hand) pass(d time.Duration) {
	h.now.Mono += d
	h.now.Wall = h.now.Wall.Add(d)
}

// sleep lets time pass until the wake-up time of the machine.
func (h *hand) sleep() time.Duration {
	h.t.Helper()
	d := h.wake - h.now.Mono
	if h.wake == 0 || d <= 0 {
		h.t.Fatalf("wake is %v at %v", h.wake, h.now.Mono)
	}
	h.pass(d)
	h.do(h.m.Tick(h.now))
	return d
}

func (h *hand) acquire(key string) { h.t.Helper(); h.do(h.m.Acquire(h.now, key)) }
func (h *hand) release()           { h.t.Helper(); h.do(h.m.Release(h.now)) }

// take ends the call under way for a node.
func (h *hand) take(node int) quorum.Call {
	h.t.Helper()
	c, ok := h.calls[node]
	if !ok {
		h.t.Fatalf("no call under way for node %d", node)
	}
	delete(h.calls, node)
	return c
}

// votes answers a ballot: y yes, n no, o no because of another holder.
func (h *hand) votes(node int, votes string) quorum.Reply {
	h.t.Helper()
	c := h.take(node)
	if c.Vote == nil || len(c.Vote.Requests) != len(votes) {
		h.t.Fatalf("node %d has the call %+v, without %d requests", node, c, len(votes))
	}
	r := quorum.Reply{Node: node, Seq: c.Seq}
	r.Ballot.Time = h.now.Wall
	for i, v := range votes {
		var other quorum.Holding
		if v == 'o' {
			other = quorum.Holding{Key: c.Vote.Requests[i].Key, Token: "other", Note: "10.0.0.9:80 4 3000", Left: cmp.Or(h.left, time.Second)}
		}
		r.Ballot.Yes = append(r.Ballot.Yes, v == 'y')
		r.Ballot.Holders = append(r.Ballot.Holders, other)
	}
	h.do(h.m.Reply(h.now, r))
	return r
}

func (h *hand) abstain(node int) {
	h.t.Helper()
	c := h.take(node)
	n := len(c.Vote.Requests)
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Ballot: quorum.BallotReply{
		Yes: make([]bool, n), Holders: make([]quorum.Holding, n),
		Abstained: true, VotesFrom: h.now.Wall.Add(7 * time.Second), Time: h.now.Wall,
	}}))
}

func (h *hand) fail(node int) {
	h.t.Helper()
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: h.take(node).Seq, Err: errTimeout}))
}

// unsent replies that a call has not left the process.
func (h *hand) unsent(node int) {
	h.t.Helper()
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: h.take(node).Seq, Err: quorum.ErrUnsent}))
}

// frees answers a release and checks what it was for.
func (h *hand) frees(node int, want ...string) {
	h.t.Helper()
	c := h.take(node)
	var got []string
	for _, a := range c.Release {
		got = append(got, a.Key+"/"+strings.Replace(a.Token, ".", "", 1))
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("node %d is to release %v, want %v", node, got, want)
	}
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq}))
}

// wantRequests checks the requests to a node: key/token, with ! for a renewal.
func (h *hand) wantRequests(node int, want ...string) {
	h.t.Helper()
	var got []string
	if c := h.calls[node]; c.Vote != nil {
		for _, a := range c.Vote.Requests {
			s := a.Key + "/" + strings.Replace(a.Token, ".", "", 1)
			if a.Renew {
				s += "!"
			}
			got = append(got, s)
		}
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("node %d has the requests %v, want %v", node, got, want)
	}
}

// wantEvents takes the events so far and compares their kinds.
func (h *hand) wantEvents(want ...quorum.EventKind) []quorum.Event {
	h.t.Helper()
	got := h.events
	h.events = nil
	var kinds []quorum.EventKind
	for _, e := range got {
		kinds = append(kinds, e.Kind)
	}
	if !slices.Equal(kinds, want) {
		h.t.Fatalf("events %v, want %v", kinds, want)
	}
	return got
}

func (h *hand) is(want quorum.State) {
	h.t.Helper()
	if got := h.m.State(); got != want {
		h.t.Fatalf("is %v, want %v", got, want)
	}
}

func (h *hand) until(want time.Duration) {
	h.t.Helper()
	if got := h.m.ValidUntil(); got != want {
		h.t.Fatalf("valid until %v, want %v, which is %v off", got, want, got-want)
	}
}

// holding returns a machine that holds a on nodes 0 and 1 of 3, with the third answer by node 2.
func holding(t *testing.T, third string) *hand {
	t.Helper()
	h := newHand(t, 3)
	h.acquire("a")
	h.votes(0, "y")
	h.votes(1, "y")
	if third == "fail" {
		h.fail(2)
	} else {
		h.votes(2, third)
	}
	h.wantEvents(quorum.Won)
	return h
}

func TestMachine(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"decides at the majority, counting from the sending": func(t *testing.T) {
			h := newHand(t, 3)
			sent := h.now.Mono
			h.acquire("a")
			h.is(quorum.Acquiring)
			h.pass(100 * ms)
			h.votes(2, "y")
			h.is(quorum.Acquiring)
			h.pass(100 * ms)
			h.votes(0, "y")
			h.is(quorum.Held)
			if e := h.wantEvents(quorum.Won)[0]; !slices.Equal(e.Keys, []string{"a"}) {
				t.Errorf("won %v", e.Keys)
			}
			h.until(sent + ttl - drift)
			h.votes(1, "y") // a straggler changes nothing
			h.until(sent + ttl - drift)
			h.wantEvents()
		},
		"renewal counts from its own sending, every third of the ttl": func(t *testing.T) {
			h := holding(t, "y")
			if d := h.sleep(); d != ttl/3 {
				t.Errorf("renews after %v", d)
			}
			sent := h.now.Mono
			for node := range 3 {
				h.wantRequests(node, "a/t1!")
			}
			h.pass(50 * ms)
			h.votes(0, "y")
			h.until(sent - ttl/3 + ttl - drift)
			h.votes(1, "y")
			h.until(sent + ttl - drift)
		},
		"each renewal raises the heartbeat": func(t *testing.T) {
			h := holding(t, "y")
			for beat := uint64(2); beat < 5; beat++ {
				h.sleep()
				n, ok := quorum.ParseNote(h.calls[0].Vote.Requests[0].Note)
				if !ok || n.Beats != beat || n.Address != "10.0.0.7:8080" {
					t.Errorf("note %+v at beat %d", n, beat)
				}
				h.votes(0, "y")
				h.votes(1, "y")
				h.votes(2, "y")
			}
		},
		"a straggler of an older round does not count for this one": func(t *testing.T) {
			h := holding(t, "y")
			h.sleep()
			h.fail(1)
			h.fail(2)
			old := h.m.ValidUntil()
			h.sleep() // node 0 hangs over into the next round
			h.votes(0, "y")
			h.votes(1, "y")
			h.until(old)
			h.wantRequests(0, "a/t1!")
			h.votes(0, "y")
			h.until(h.now.Mono + ttl - drift)
		},
		"a late yes counts as a node that has it": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "y")
			h.pass(300 * ms)
			h.votes(2, "y")
			h.sleep()
			h.wantRequests(2, "a/t1!")
		},
		"a node without the key gets a request for it, and does not count yet": func(t *testing.T) {
			h := holding(t, "fail")
			old := h.m.ValidUntil()
			h.sleep()
			h.wantRequests(0, "a/t1!")
			h.wantRequests(2, "a/t1")
			h.votes(0, "y")
			h.votes(2, "y")
			h.until(old)
			h.fail(1)
			h.sleep() // no majority: all get a request to renew it
			for node := range 3 {
				h.wantRequests(node, "a/t1!")
			}
			h.votes(0, "y")
			h.votes(2, "y")
			h.until(h.now.Mono + ttl - drift)
		},
		"after a failed round, all are soon queried again, and none acquires a key anew": func(t *testing.T) {
			h := holding(t, "fail")
			h.sleep()
			for node := range 3 {
				h.fail(node)
			}
			if d := h.sleep(); d != ttl/64 {
				t.Errorf("the next request follows after %v", d)
			}
			for node := range 3 {
				h.wantRequests(node, "a/t1!")
			}
		},
		"lost when most nodes answer that they do not have it": func(t *testing.T) {
			h := holding(t, "o")
			h.sleep()
			h.votes(0, "n")
			h.is(quorum.Held) // node 2 gets another request for it
			h.abstain(2)
			h.is(quorum.Lost)
			e := h.wantEvents(quorum.Losing)[0]
			if !errors.Is(e.Cause, quorum.ErrLost) || e.Cause.Key != "a" || !slices.Equal(e.Keys, []string{"a"}) {
				t.Errorf("%+v", e)
			}
			wantText(t, e.Cause, "a: most nodes do not have it any more (2 of 3", "n0 does not have it", "n1 has not answered",
				"n2 lost its memory and votes again at 2027-")
			h.votes(1, "y")
			h.frees(1, "a/t1")
			h.wantEvents(quorum.Freed) // node 2 gives nothing to anybody before it has forgotten
		},
		"lost a margin before its time is up": func(t *testing.T) {
			h := holding(t, "y")
			end := h.m.ValidUntil()
			for h.m.State() == quorum.Held {
				h.sleep()
				for node := range h.calls {
					if h.calls[node].Vote != nil {
						h.fail(node)
					}
				}
			}
			if h.now.Mono != end-ttl/10 {
				t.Errorf("lost %v before the end", end-h.now.Mono)
			}
			e := h.wantEvents(quorum.Losing)[0]
			wantText(t, e.Cause, "a: it could not be renewed in time", "n1 failed: no answer in time")
			if !errors.Is(e.Cause, errTimeout) {
				t.Error("the nodes' errors are not wrapped")
			}
		},
		"a suspend stops only the monotonic clock": func(t *testing.T) {
			h := holding(t, "y")
			h.now.Wall = h.now.Wall.Add(ttl)
			if h.m.Valid(h.now) {
				t.Error("still valid")
			}
			h.do(h.m.Tick(h.now))
			h.is(quorum.Lost)
		},
		"a wall clock that jumps back does not make a promise younger": func(t *testing.T) {
			h := holding(t, "y")
			h.now.Wall = h.now.Wall.Add(-time.Hour)
			h.do(h.m.Tick(h.now))
			h.now.Mono += ttl
			if h.m.Valid(h.now) {
				t.Error("still valid")
			}
		},
		"an answer after the time is up changes nothing": func(t *testing.T) {
			h := holding(t, "y")
			h.sleep()
			h.pass(ttl)
			h.votes(0, "y")
			h.is(quorum.Lost)
			h.votes(1, "y")
			h.is(quorum.Lost)
		},
		"after a loss it may acquire again, under a new token": func(t *testing.T) {
			h := holding(t, "y")
			h.pass(ttl)
			h.do(h.m.Tick(h.now))
			h.acquire("a")
			h.frees(0, "a/t1") // first what was owed
			h.wantRequests(0, "a/t2")
			h.frees(1, "a/t1")
			h.votes(0, "y")
			h.votes(1, "y")
			h.is(quorum.Held)
			h.wantEvents(quorum.Losing, quorum.Won)
		},
		"refused, and then released": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			h.votes(0, "o")
			h.votes(1, "y")
			h.votes(2, "o")
			e := h.wantEvents(quorum.Refused)[0]
			h.is(quorum.Acquiring)
			if holder, ok := e.Cause.Holder(); !errors.Is(e.Cause, quorum.ErrRefused) || !ok || holder.Token != "other" {
				t.Errorf("%+v, holder %v", e, holder)
			}
			wantText(t, e.Cause, "a: too few nodes granted it", "n0 has promised it to 10.0.0.9:80 for another 1s", "n1 granted it")
			h.release()
			h.frees(1, "a/t1")
			h.wantEvents(quorum.Freed)
			if h.wake != 0 || len(h.calls) != 0 {
				t.Errorf("wake %v, calls %v", h.wake, h.calls)
			}
		},
		"a ballot that comes in behind its release is taken back": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			h.votes(0, "y")
			h.fail(1)
			h.fail(2)
			h.frees(0, "a/t1")
			h.frees(1, "a/t1")
			h.frees(2, "a/t1")
			h.sleep()
			c := h.take(1)
			h.do(h.m.Reply(h.now, quorum.Reply{Node: 1, Seq: c.Seq, Ballot: quorum.BallotReply{
				Yes: []bool{false}, Holders: []quorum.Holding{{Key: "a", Token: "t.1", Left: time.Second}}, Time: h.now.Wall,
			}}))
			h.frees(1, "a/t1")
			h.votes(0, "y")
			h.votes(2, "y")
			h.wantEvents(quorum.Refused, quorum.Won)
		},
		"refused again and again, ever more slowly, never at once": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			var pauses []time.Duration
			for range 6 {
				h.votes(0, "o")
				pauses = append(pauses, h.sleep())
			}
			base, most := ttl/64, 240*ms
			if want := []time.Duration{base, 2 * base, 4 * base, most, most, most}; !slices.Equal(pauses, want) {
				t.Errorf("pauses %v, want %v", pauses, want)
			}
		},
		"a pause may be half as long or half as long again": func(t *testing.T) {
			for jitter, want := range map[float64]time.Duration{0: ttl / 128, 0.999: ttl/128 + time.Duration(0.999*float64(ttl/64))} {
				h := newHand(t, 1)
				h.jitter = jitter
				h.acquire("a")
				h.votes(0, "o")
				if d := h.sleep(); d != want {
					t.Errorf("jitter %v: %v, want %v", jitter, d, want)
				}
			}
		},
		"a try that nobody answers ends": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			if d := h.sleep(); d != ttl/3 {
				t.Errorf("ends after %v", d)
			}
			e := h.wantEvents(quorum.Refused)[0]
			wantText(t, e.Cause, "too few nodes answered in time", "n2 has not answered")
			h.sleep()
			h.pass(10 * ms)
			h.fail(0) // free at last: first the release, then the new ballot
			h.frees(0, "a/t1")
			h.wantRequests(0, "a/t2")
			h.wantRequests(1, "a/t1")
		},
		"release follows the ballot, and nothing follows the release": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			h.votes(0, "y")
			h.release()
			h.is(quorum.Released)
			h.frees(0, "a/t1")
			h.votes(1, "y")
			h.is(quorum.Released)
			h.frees(1, "a/t1")
			h.fail(2)
			h.wantEvents()
			h.frees(2, "a/t1")
			h.wantEvents(quorum.Freed)
			if h.wake != 0 || h.m.Valid(h.now) {
				t.Errorf("wake %v, valid %v", h.wake, h.m.Valid(h.now))
			}
		},
		"a release that failed is repeated until the node must have forgotten": func(t *testing.T) {
			h := holding(t, "o")
			h.release()
			h.frees(0, "a/t1")
			began, tries := h.now.Mono, 0
			for ; !h.m.Idle(); tries++ {
				h.fail(1)
				h.sleep()
			}
			h.wantEvents(quorum.Freed)
			if took := h.now.Mono - began; took < ttl || took > 2*ttl || tries < 3 {
				t.Errorf("%d tries in %v", tries, took)
			}
		},
		"what comes to be owed during a release is released too": func(t *testing.T) {
			h := newWaiter(t, 3)
			h.acquire("a")
			h.votes(0, "o")
			h.votes(1, "o")
			h.votes(2, "o")
			h.frees(2, "a/t1")
			h.sleep()
			h.votes(0, "y")
			h.votes(1, "o")
			h.votes(2, "o")
			h.wantEvents(quorum.Refused, quorum.Refused)
			h.release() // while node 0 releases what it granted
			h.frees(0, "a/t2")
			h.frees(0, "a/w")
			h.frees(1, "a/w")
			h.wantEvents()
			h.frees(2, "a/w")
			h.wantEvents(quorum.Freed)
		},
		"a request without an answer is released even after a no": func(t *testing.T) {
			h := holding(t, "fail")
			h.sleep()
			h.votes(0, "y")
			h.votes(1, "y")
			h.votes(2, "o") // but the first request for it may still arrive
			h.release()
			h.frees(2, "a/t1")
		},
		"a node that was not reached has nothing to release": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			h.unsent(0)
			h.votes(1, "o")
			wantText(t, h.wantEvents(quorum.Refused)[0].Cause, "n0 failed: the lock node was not reached")
			h.release()
			h.votes(2, "o")
			h.frees(2, "a/t1")
			h.wantEvents(quorum.Freed)
		},
		"unless it has an earlier request, and may still grant it": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			h.fail(0)
			h.do(h.m.Woken(h.now)) // so that the try goes on
			h.votes(1, "o")
			h.votes(2, "o")
			h.unsent(0)
			h.votes(1, "o")
			h.votes(2, "o")
			h.wantEvents(quorum.Refused)
			h.frees(0, "a/t1")
		},
		"an answer that comes twice counts once": func(t *testing.T) {
			h := newHand(t, 3)
			h.acquire("a")
			r := h.votes(0, "y")
			h.do(h.m.Reply(h.now, r))
			h.is(quorum.Acquiring)
		},
		"an answer of the wrong shape is an error": func(t *testing.T) {
			h := newHand(t, 1)
			h.acquire("a")
			h.do(h.m.Reply(h.now, quorum.Reply{Seq: h.take(0).Seq, Ballot: quorum.BallotReply{Yes: []bool{true}}}))
			wantText(t, h.wantEvents(quorum.Refused)[0].Cause, "n0 failed: the node returned 1 votes and 0 holders for 1 requests")
		},
		"the view of a node is its last answer": func(t *testing.T) {
			h := holding(t, "fail")
			h.sleep()
			h.votes(0, "y")
			h.fail(1)
			h.abstain(2)
			if v := h.m.Node(0); v.Err != nil || !v.VotesFrom.IsZero() {
				t.Errorf("%+v", v)
			}
			if v := h.m.Node(1); v.Err != errTimeout {
				t.Errorf("%+v", v)
			}
			if v := h.m.Node(2); v.Err != nil || v.VotesFrom.IsZero() {
				t.Errorf("%+v", v)
			}
		},
		"a node that lost its memory wins it back": func(t *testing.T) {
			h := holding(t, "y")
			h.sleep()
			h.votes(0, "y")
			h.votes(1, "y")
			h.abstain(2)
			h.sleep()
			h.wantRequests(2, "a/t1")
			h.votes(2, "y")
			h.votes(0, "y")
			h.votes(1, "y")
			h.sleep()
			h.wantRequests(2, "a/t1!")
		},
	} {
		t.Run(name, test)
	}
}

func wantText(t *testing.T, f *quorum.Failure, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(f.Error(), p) {
			t.Errorf("%q is not in: %v", p, f)
		}
	}
}

func TestClockOff(t *testing.T) {
	h := newHand(t, 5)
	h.acquire("a")
	if _, ok := h.m.ClockOff(h.now); ok {
		t.Error("known before any answer")
	}
	// Each answer took 40 ms, so a node's clock was read 20 ms ago.
	h.pass(40 * ms)
	real := h.now.Wall
	for node, off := range []time.Duration{-time.Hour, 0, 3 * time.Second} {
		h.now.Wall = real.Add(off - 20*ms) // votes() gives this as the node's time
		c := h.take(node)
		r := quorum.Reply{Node: node, Seq: c.Seq, Ballot: quorum.BallotReply{
			Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: h.now.Wall}}
		h.now.Wall = real
		h.do(h.m.Reply(h.now, r))
	}
	for name, test := range map[string]struct {
		mono, wall time.Duration
		want       time.Duration
		ok         bool
	}{
		"now":             {0, 0, 0, true},
		"a second later":  {time.Second, time.Second, 0, true},
		"wall jumped":     {time.Second, 3 * time.Second, 2 * time.Second, true},
		"wall fell back":  {time.Second, -time.Hour, -time.Hour - time.Second, true},
		"older than ttl":  {ttl + ms, ttl + ms, 0, false},
		"after a suspend": {0, time.Minute, 0, false},
	} {
		at := clock.Now{Mono: h.now.Mono + test.mono, Wall: h.now.Wall.Add(test.wall)}
		if off, ok := h.m.ClockOff(at); off != test.want || ok != test.ok {
			t.Errorf("%s: off by %v, %v, want %v, %v", name, off, ok, test.want, test.ok)
		}
	}
}

// The median of an even number of clocks is between the middle two, in whatever
// order they are, and whoever has not answered.
func TestClockOffOfFour(t *testing.T) {
	h := newHand(t, 5)
	h.acquire("a")
	for i, off := range []time.Duration{5 * time.Second, -time.Hour, 3 * time.Second, time.Hour} {
		c := h.take(i + 1)
		h.do(h.m.Reply(h.now, quorum.Reply{Node: i + 1, Seq: c.Seq, Ballot: quorum.BallotReply{
			Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: h.now.Wall.Add(off)}}))
	}
	if off, ok := h.m.ClockOff(h.now); off != -4*time.Second || !ok {
		t.Errorf("off by %v, %v", off, ok)
	}
}

func TestNote(t *testing.T) {
	for text, want := range map[string]quorum.Note{
		"10.0.0.7:8080 12 3000":    {Address: "10.0.0.7:8080", Beats: 12, TTL: 3 * time.Second},
		" 0 0":                     {},
		"h 18446744073709551615 1": {Address: "h", Beats: 1<<64 - 1, TTL: time.Millisecond},
	} {
		if n, ok := quorum.ParseNote(text); !ok || n != want || n.String() != text {
			t.Errorf("%q is %+v, %v", text, n, ok)
		}
	}
	for _, text := range []string{"", "host", "host ", "host x", "host -1", "host 1", "host 1 ", "host 1 x", "host 1 -1", "host x 3000", "host -1 3000", "host 1 99999999999", "host 1 2 3"} {
		if n, ok := quorum.ParseNote(text); ok {
			t.Errorf("%q is taken as %+v", text, n)
		}
	}
}

func TestNewMachineRefuses(t *testing.T) {
	good := quorum.Config{
		Nodes: []string{"a", "b"}, TTL: ttl,
		Token: func() string { return "t" }, Jitter: func() float64 { return 0 },
	}
	for name, test := range map[string]struct {
		spoil func(*quorum.Config)
		want  string
	}{
		"no nodes":     {func(c *quorum.Config) { c.Nodes = nil }, "at least one lock node"},
		"a node twice": {func(c *quorum.Config) { c.Nodes = []string{"a", "b", "a"} }, "a is named twice"},
		"short ttl":    {func(c *quorum.Config) { c.TTL = time.Second }, "2s to 10s, not 1s"},
		"long ttl":     {func(c *quorum.Config) { c.TTL = 11 * time.Second }, "2s to 10s, not 11s"},
		"address":      {func(c *quorum.Config) { c.Address = "a b" }, "has a space"},
		"no tokens":    {func(c *quorum.Config) { c.Token = nil }, "sources of tokens"},
		"no jitter":    {func(c *quorum.Config) { c.Jitter = nil }, "sources of tokens"},
	} {
		cfg := good
		test.spoil(&cfg)
		if _, err := quorum.NewMachine(cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, good.TTL = range []time.Duration{ttl, quorum.MinTTL, quorum.MaxTTL} {
		if _, err := quorum.NewMachine(good); err != nil {
			t.Error(err)
		}
	}
}
