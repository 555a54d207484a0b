package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// rosterHand steps one roster by hand: the test is the nodes, the network and the clock.
type rosterHand struct {
	t     *testing.T
	r     *quorum.Roster
	now   clock.Now
	calls map[int]quorum.Call // under way
	wake  time.Duration

	changes int // of who is there, of their notes, or of whether that is sure
	last    string
}

func newRosterHand(t *testing.T, nodes int) *rosterHand {
	h := &rosterHand{t: t, calls: map[int]quorum.Call{}, now: clock.Now{Mono: time.Hour, Wall: epoch}}
	cfg := quorum.RosterConfig{Registry: "registry", ID: "me", TTL: ttl}
	for i := range nodes {
		cfg.Nodes = append(cfg.Nodes, fmt.Sprintf("n%d", i))
	}
	var err error
	if h.r, err = quorum.NewRoster(cfg); err != nil {
		t.Fatal(err)
	}
	h.last = fmt.Sprint([]quorum.Member(nil), false)
	return h
}

func (h *rosterHand) do(e quorum.Effects) {
	h.t.Helper()
	for _, c := range e.Calls {
		if _, busy := h.calls[c.Node]; busy || c.Announce == nil || c.Announce.Registry != "registry" || c.Announce.Member.ID != "me" || c.Timeout != quorum.CallTimeout(ttl) {
			h.t.Fatalf("node %d is busy: %t; the call is %+v", c.Node, busy, c)
		}
		h.calls[c.Node] = c
	}
	h.wake = e.Wake
	members, sure := h.r.Members(h.now)
	for i := range members {
		members[i].Left = 0
	}
	if now := fmt.Sprint(members, sure); now != h.last {
		h.last = now
		h.changes++
	}
}

func (h *rosterHand) pass(d time.Duration) {
	h.now.Mono += d
	h.now.Wall = h.now.Wall.Add(d)
}

func (h *rosterHand) sleep() time.Duration {
	h.t.Helper()
	d := h.wake - h.now.Mono
	if h.wake == 0 || d <= 0 {
		h.t.Fatalf("wake is %v at %v", h.wake, h.now.Mono)
	}
	h.pass(d)
	h.do(h.r.Tick(h.now))
	return d
}

func (h *rosterHand) present(note string) { h.t.Helper(); h.do(h.r.Present(h.now, note)) }
func (h *rosterHand) leave()              { h.t.Helper(); h.do(h.r.Leave(h.now)) }

// wantAnnounced checks the announcement to a node: a note with its number, or that the
// process leaves.
func (h *rosterHand) wantAnnounced(node int, want string) {
	h.t.Helper()
	got := "nothing"
	if c, ok := h.calls[node]; ok {
		if got = c.Announce.Member.Note; c.Announce.TTL == 0 {
			got = "leaves" + got
		} else if c.Announce.TTL != ttl {
			h.t.Errorf("the announcement to node %d has the ttl %v", node, c.Announce.TTL)
		}
	}
	if got != want {
		h.t.Errorf("the announcement to node %d is %q, want %q", node, got, want)
	}
}

func there(id, note string, left time.Duration) quorum.Member {
	return quorum.Member{ID: id, Note: note, Left: left}
}

func (h *rosterHand) answer(node int, members ...quorum.Member) {
	h.t.Helper()
	c, ok := h.calls[node]
	if !ok {
		h.t.Fatalf("no call under way for node %d", node)
	}
	delete(h.calls, node)
	h.do(h.r.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Members: members}))
}

func (h *rosterHand) fail(node int) {
	h.t.Helper()
	c := h.calls[node]
	delete(h.calls, node)
	h.do(h.r.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Err: errTimeout}))
}

// wantMembers checks who is there, each as "id: note left".
func (h *rosterHand) wantMembers(sure bool, want ...string) {
	h.t.Helper()
	members, got := h.r.Members(h.now)
	var all []string
	for _, m := range members {
		all = append(all, fmt.Sprint(m.ID, ": ", m.Note, " ", m.Left))
	}
	if !slices.Equal(all, want) || got != sure {
		h.t.Errorf("there are %q, sure is %t; want %q, %t", all, got, want, sure)
	}
}

func TestRoster(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Refresh queries the nodes at once, after the calls under way": func(t *testing.T) {
			h := newRosterHand(t, 2)
			h.present("here it is")
			h.answer(0, there("me", "1 here it is", ttl))
			h.do(h.r.Refresh(h.now))
			h.wantAnnounced(0, "1 here it is")
			h.answer(0, there("me", "1 here it is", ttl), there("b", "1 new", ttl))
			h.answer(1, there("me", "1 here it is", ttl))
			h.wantAnnounced(0, "nothing")
			h.wantAnnounced(1, "1 here it is")
			h.wantMembers(true, "b: new 3s", "me: here it is 3s")
		},
		"the process is announced to all nodes, and again six times a ttl": func(t *testing.T) {
			h := newRosterHand(t, 3)
			h.do(h.r.Tick(h.now))
			h.wantAnnounced(0, "nothing")
			h.present("here it is")
			for range 10 {
				for node := range 3 {
					h.wantAnnounced(node, "1 here it is")
					h.answer(node, there("me", "1 here it is", ttl))
				}
				if h.r.Deregistered() {
					t.Error("deregistered while registered on all nodes")
				}
				h.wantMembers(true, "me: here it is 3s")
				if d := h.sleep(); d != ttl/6 {
					t.Errorf("the next announcement follows after %v", d)
				}
			}
			if h.changes != 2 { // one answer, and a majority
				t.Errorf("%d changes", h.changes)
			}
		},
		"whom any node has is there, with the newest note": func(t *testing.T) {
			h := newRosterHand(t, 3)
			h.present("")
			h.wantMembers(false)
			h.answer(0, there("b", "9 old", time.Second), there("me", "1 ", ttl))
			h.wantMembers(false, "b: old 1s", "me:  3s")
			h.answer(1, there("b", "10 new one", time.Millisecond), there("a", "no number", ttl))
			h.wantMembers(true, "a: no number 3s", "b: new one 1s", "me:  3s")
			h.answer(2, there("b", "8 older", 2*time.Second))
			h.wantMembers(true, "a: no number 3s", "b: new one 2s", "me:  3s")
			if h.changes != 2 {
				t.Errorf("%d changes", h.changes)
			}
		},
		"each change is counted, and nothing else": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			for _, step := range []struct {
				what    string
				members []quorum.Member
				changes int
				want    []string
			}{
				{"the first answer", nil, 1, nil},
				{"the same", nil, 0, nil},
				{"one came", []quorum.Member{there("a", "1 x", ttl)}, 1, []string{"a: x 3s"}},
				{"it stays", []quorum.Member{there("a", "1 x", ttl-1)}, 0, []string{"a: x 2.999999999s"}},
				{"it has another note", []quorum.Member{there("a", "2 y", ttl)}, 1, []string{"a: y 3s"}},
				{"it announced the same again", []quorum.Member{there("a", "3 y", ttl)}, 0, []string{"a: y 3s"}},
				{"it is another", []quorum.Member{there("b", "3 y", ttl)}, 1, []string{"b: y 3s"}},
				{"another came", []quorum.Member{there("b", "3 y", ttl), there("c", "1 ", ttl)}, 1, []string{"b: y 3s", "c:  3s"}},
				{"they are named in another order", []quorum.Member{there("c", "1 ", ttl), there("b", "3 y", ttl)}, 0, []string{"b: y 3s", "c:  3s"}},
				{"one left", []quorum.Member{there("b", "3 y", ttl)}, 1, []string{"b: y 3s"}},
				{"it has little left", []quorum.Member{there("b", "3 y", ttl/12)}, 0, []string{"b: y 250ms"}},
				{"it came back when it was gone", []quorum.Member{there("b", "3 y", ttl)}, 2, []string{"b: y 3s"}},
			} {
				before := h.changes
				for len(h.calls) == 0 {
					h.sleep()
				}
				h.answer(0, step.members...)
				if got := h.changes - before; got != step.changes {
					t.Errorf("%s: %d changes, want %d", step.what, got, step.changes)
				}
				h.wantMembers(true, step.want...)
			}
		},
		"a note counts by its number where two nodes have two": func(t *testing.T) {
			h := newRosterHand(t, 2)
			h.present("")
			h.answer(0, there("a", "2 old", ttl))
			h.answer(1, there("a", "1 older", ttl))
			h.wantMembers(true, "a: old 3s")
			h.sleep()
			h.answer(0, there("a", "2 old", ttl))
			before := h.changes
			h.answer(1, there("a", "3 older", ttl)) // as it was before
			h.wantMembers(true, "a: older 3s")
			if h.changes == before {
				t.Error("that its newest note is another was not counted")
			}
		},
		"a node that has not answered hides no other, nor one who is gone another": func(t *testing.T) {
			h := newRosterHand(t, 3)
			h.present("")
			h.answer(1, there("a", "1 ", ms), there("b", "1 ", ttl), there("c", "1 ", 2*ms))
			h.answer(2)
			h.wantMembers(true, "a:  1ms", "b:  3s", "c:  2ms")
			h.sleep()
			h.wantMembers(true, "b:  2.999s", "c:  1ms")
			h.sleep()
			h.wantMembers(true, "b:  2.998s")
			h.pass(ttl - 2*ms)
			h.wantMembers(true) // to the last
			h.pass(1)
			h.wantMembers(false)
		},
		"replies after Leave are as fresh": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			h.answer(0)
			h.pass(ms)
			h.leave()
			h.answer(0, there("a", "1 ", ttl))
			h.wantMembers(true, "a:  3s")
		},
		"it is sure again when nodes answer again": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			h.answer(0)
			h.sleep()
			h.pass(2 * ttl) // the call hangs, and no one reads
			before := h.changes
			h.answer(0)
			h.wantMembers(false) // its last reply is old
			h.answer(0)
			h.wantMembers(true)
			if got := h.changes - before; got != 2 {
				t.Errorf("%d changes, want 2", got)
			}
		},
		"a reply ages from the time of its call": func(t *testing.T) {
			h := newRosterHand(t, 3)
			h.present("")
			h.pass(400 * time.Millisecond)
			h.answer(0, there("a", "1 ", time.Second))
			h.answer(1)
			h.fail(2)
			h.wantMembers(true, "a:  600ms")
			before := h.changes
			for h.changes == before {
				h.sleep()
			}
			h.wantMembers(true)
			if h.now.Mono != time.Hour+time.Second {
				t.Errorf("it was gone at %v", h.now.Mono-time.Hour)
			}
			for h.changes == before+1 {
				h.sleep()
			}
			if h.now.Mono != time.Hour+ttl+1 {
				t.Errorf("it was sure until %v", h.now.Mono-time.Hour)
			}
			h.wantMembers(false)
			// A jump of the wall clock may be time that was slept through.
			h.answer(0, there("a", "1 ", time.Hour))
			h.now.Wall = h.now.Wall.Add(time.Hour)
			h.wantMembers(false)
		},
		"a change is announced at once, to a busy node after its reply": func(t *testing.T) {
			h := newRosterHand(t, 2)
			h.present("one")
			h.answer(0)
			h.pass(ms)
			h.present("one")
			h.wantAnnounced(0, "nothing")
			h.present("two")
			h.wantAnnounced(0, "2 two")
			h.wantAnnounced(1, "1 one")
			h.present("three")
			h.fail(1)
			h.wantAnnounced(1, "3 three")
			h.answer(0)
			h.wantAnnounced(0, "3 three")
			h.answer(0)
			h.wantAnnounced(0, "nothing")
		},
		"a node that fails gets no more announcements": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			for range 5 {
				h.fail(0)
				h.wantAnnounced(0, "nothing")
				if d := h.sleep(); d != ttl/6 {
					t.Errorf("the next announcement follows after %v", d)
				}
			}
		},
		"a process is deregistered when all nodes have confirmed it": func(t *testing.T) {
			h := newRosterHand(t, 3)
			h.leave()
			h.wantAnnounced(0, "nothing")
			if !h.r.Deregistered() {
				t.Error("not deregistered, though it never registered")
			}
			h.present("")
			if h.r.Deregistered() {
				t.Error("deregistered while registered")
			}
			h.answer(0)
			h.answer(1)
			h.leave()
			h.wantAnnounced(0, "leaves")
			h.wantAnnounced(2, "1 ")
			h.answer(0)
			h.answer(1)
			h.answer(2)
			h.wantAnnounced(2, "leaves")
			if h.r.Deregistered() {
				t.Error("deregistered before the last node has confirmed it")
			}
			h.answer(2)
			for node := range 3 {
				h.wantAnnounced(node, "nothing")
			}
			if !h.r.Deregistered() {
				t.Error("not deregistered though all nodes have confirmed it")
			}
			h.pass(ttl + 1)
			h.do(h.r.Tick(h.now))
			h.wantAnnounced(0, "nothing")
			if h.wake != 0 {
				t.Errorf("it wakes at %v after it has deregistered", h.wake)
			}
			h.present("again")
			h.wantAnnounced(0, "3 again")
		},
		"a node that fails to confirm the end is called twice": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			h.pass(ms)
			h.leave()
			h.fail(0) // the first announcement
			h.wantAnnounced(0, "leaves")
			h.fail(0)
			if h.r.Deregistered() {
				t.Error("deregistered after one failure")
			}
			h.sleep()
			h.wantAnnounced(0, "leaves")
			h.fail(0)
			if !h.r.Deregistered() {
				t.Error("not deregistered after two failures")
			}
		},
		"a node that hangs forgets by itself": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			h.answer(0)
			h.leave()
			for !h.r.Deregistered() {
				h.sleep()
			}
			if took := h.now.Mono - time.Hour; took != ttl+quorum.CallTimeout(ttl) {
				t.Errorf("gone after %v", took)
			}
			if h.wake != 0 {
				t.Errorf("it wakes at %v", h.wake)
			}
		},
		"a reply to an earlier announcement does not confirm the end": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			old := h.calls[0]
			h.leave()
			h.answer(0)
			h.wantAnnounced(0, "leaves")
			h.do(h.r.Reply(h.now, quorum.Reply{Seq: old.Seq}))
			h.wantAnnounced(0, "leaves")
			if h.r.Deregistered() {
				t.Error("deregistered by a reply to an earlier announcement")
			}
			h.present("again")
			h.leave()
			h.fail(0)
			h.wantAnnounced(0, "leaves")
			h.answer(0)
			h.wantAnnounced(0, "nothing")
			if !h.r.Deregistered() {
				t.Error("not gone")
			}
		},
		"an answer that comes twice counts once": func(t *testing.T) {
			h := newRosterHand(t, 1)
			h.present("")
			c := h.calls[0]
			h.answer(0)
			h.do(h.r.Reply(h.now, quorum.Reply{Seq: c.Seq, Members: []quorum.Member{there("a", "1 ", ttl)}}))
			h.wantMembers(true)
		},
	} {
		t.Run(name, test)
	}
}

func TestRosterConfig(t *testing.T) {
	good := quorum.RosterConfig{Nodes: []string{"n"}, Registry: "registry", ID: "me", TTL: ttl}
	for _, each := range []time.Duration{quorum.MinTTL, ttl, quorum.MaxTTL} {
		cfg := good
		cfg.TTL = each
		if _, err := quorum.NewRoster(cfg); err != nil {
			t.Error(err)
		}
	}
	for name, spoil := range map[string]func(*quorum.RosterConfig){
		"no nodes":       func(c *quorum.RosterConfig) { c.Nodes = nil },
		"no registry":    func(c *quorum.RosterConfig) { c.Registry = "" },
		"no id":          func(c *quorum.RosterConfig) { c.ID = "" },
		"an id of words": func(c *quorum.RosterConfig) { c.ID = "me too" },
		"a short ttl":    func(c *quorum.RosterConfig) { c.TTL = quorum.MinTTL - 1 },
		"a long ttl":     func(c *quorum.RosterConfig) { c.TTL = quorum.MaxTTL + 1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := quorum.NewRoster(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestMemberCheck(t *testing.T) {
	good := quorum.Member{ID: strings.Repeat("i", quorum.MaxID), Note: strings.Repeat("n", quorum.MaxNote)}
	for _, ttl := range []time.Duration{0, 1, quorum.MaxTTL} {
		if err := good.Check(ttl); err != nil {
			t.Error(err)
		}
	}
	for _, m := range []quorum.Member{{}, {ID: "a b"}, {ID: good.ID + "i"}, {ID: "a", Note: good.Note + "n"}} {
		if err := m.Check(1); err == nil {
			t.Errorf("%.40v passes", m)
		}
	}
	for _, ttl := range []time.Duration{-1, quorum.MaxTTL + 1} {
		if err := good.Check(ttl); err == nil {
			t.Errorf("a ttl of %v passes", ttl)
		}
	}
}
