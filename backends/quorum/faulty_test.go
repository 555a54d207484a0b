package quorum_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// answerHolder answers a ballot for one key with who has it.
func (h *hand) answerHolder(node int, token, note string) {
	h.t.Helper()
	c := h.take(node)
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Ballot: quorum.BallotReply{
		Yes: []bool{false}, Time: h.now.Wall,
		Holders: []quorum.Holding{{Key: "a", Token: token, Note: note, Left: time.Second}},
	}}))
}

// sighted has the answers of the nodes in a refused try: an element for each, "" for
// no answer, and what happens before.
type sighted struct {
	pass  time.Duration
	jump  time.Duration // of the wall clock, beside
	notes [3]string
}

func TestFaulty(t *testing.T) {
	const one, two = "h:1 7 3000", "h:1 8 3000"
	all := [3]string{one, one, one}
	for name, test := range map[string]struct {
		tries []sighted
		want  string // the nodes that are to remove it after the last try, and never before
	}{
		"seen often and long enough":          {[]sighted{{0, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, all}}, "0 1"},
		"often, but not for long enough":      {[]sighted{{0, 0, all}, {ms * 999, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, all}}, ""},
		"long enough, but not often":          {[]sighted{{0, 0, all}, {ms * 2000, 0, all}, {ms * 2000, 0, all}}, ""},
		"sightings close together count once": {[]sighted{{0, 0, all}, {ms * 400, 0, all}, {ms * 400, 0, all}, {ms * 3000, 0, all}, {ms * 999, 0, all}}, ""},
		"a heartbeat between on all": {[]sighted{{0, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, all},
			{ms * 1000, 0, [3]string{two, two, two}}, {ms * 1000, 0, [3]string{two, two, two}}}, ""},
		"a heartbeat between on one of those that answer": {[]sighted{{0, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, all},
			{ms * 1000, 0, [3]string{one, two, two}}}, ""},
		"a node frees it between": {[]sighted{{0, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, [3]string{"free", one, one}},
			{ms * 1000, 0, all}}, ""},
		"and it stays freed for a while": {[]sighted{{0, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, [3]string{"free", one, one}},
			{ms * 1000, 0, all}, {ms * 1000, 0, all}}, ""},
		"a node that is not reached between": {[]sighted{{0, 0, all}, {ms * 1000, 0, [3]string{one, "unsent", one}}, {ms * 1000, 0, all}, {ms * 1000, 0, all},
			{ms * 1000, 0, all}, {ms * 1000, 0, all}}, "0 1"},
		"another token with the same note": {[]sighted{{0, 0, all}, {ms * 1000, 0, all}, {ms * 1000, 0, [3]string{"next|" + one, "next|" + one, one}},
			{ms * 1000, 0, [3]string{"next|" + one, "next|" + one, one}}}, ""},
		"sightings are counted from the last one that counted": {[]sighted{{0, 0, all}, {ms * 400, 0, all}, {ms * 400, 0, all}, {ms * 3000, 0, all},
			{ms * 999, 0, all}, {ms * 400, 0, all}, {ms * 400, 0, all}}, ""},
		"a note without a ttl has the longest": {[]sighted{{0, 0, [3]string{"h:1 7 0", "h:1 7 0", ""}}, {ms * 3000, 0, [3]string{"h:1 7 0", "h:1 7 0", ""}},
			{ms * 3000, 0, [3]string{"h:1 7 0", "h:1 7 0", ""}}, {ms * 3999, 0, [3]string{"h:1 7 0", "h:1 7 0", ""}}}, ""},
		"nodes that answer too late for the try": {[]sighted{{0, 0, [3]string{one, one, ""}}, {ms * 1000, 0, [3]string{"", one, one}},
			{ms * 1000, 0, [3]string{one, "", one}}, {ms * 1000, 0, all}, {ms * 1000, 0, [3]string{"", one, one}}, {ms * 1000, 0, [3]string{"", one, one}}}, "1 2"},
		"a wall clock that jumps ahead ages nobody": {[]sighted{{0, 0, all}, {ms * 300, time.Hour, all}, {ms * 300, time.Hour, all},
			{ms * 300, time.Hour, all}, {ms * 300, time.Hour, all}}, ""},
		"the ttl is the holder's own": {[]sighted{{0, 0, [3]string{"h:1 7 9000", "h:1 7 9000", ""}}, {ms * 2900, 0, [3]string{"h:1 7 9000", "h:1 7 9000", ""}},
			{ms * 2900, 0, [3]string{"h:1 7 9000", "h:1 7 9000", ""}}, {ms * 2900, 0, [3]string{"h:1 7 9000", "h:1 7 9000", ""}}}, ""},
		"a note of another form has the longest ttl": {[]sighted{{0, 0, [3]string{"x", "x", ""}}, {ms * 3000, 0, [3]string{"x", "x", ""}},
			{ms * 3000, 0, [3]string{"x", "x", ""}}, {ms * 3999, 0, [3]string{"x", "x", ""}}}, ""},
		"and is removed after that": {[]sighted{{0, 0, [3]string{"x", "x", ""}}, {ms * 3000, 0, [3]string{"x", "x", ""}},
			{ms * 3000, 0, [3]string{"x", "x", ""}}, {ms * 4000, 0, [3]string{"x", "x", ""}}}, "0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(t, 3) // an interval of a second, a threshold of three
			for i, try := range test.tries {
				h.now.Wall = h.now.Wall.Add(try.jump)
				h.pass(try.pass)
				if i == 0 {
					h.acquire("a")
				} else {
					h.do(h.m.Tick(h.now))
				}
				got := h.refusedBy(try.notes)
				want := ""
				if i == len(test.tries)-1 {
					want = test.want
				}
				if got != want {
					t.Fatalf("after try %d nodes %q remove it, want %q", i, got, want)
				}
				if forced := h.m.Stats().Forced; forced != uint64(min(len(want), 1)) {
					t.Errorf("counts %d forced releases", forced)
				}
			}
		})
	}
}

// What is removed once has to be seen anew.
func TestFaultyAgain(t *testing.T) {
	const note = "h:1 7 3000"
	h := newHand(t, 3)
	h.acquire("a")
	for i, try := range []struct {
		pass time.Duration
		want string
	}{{0, ""}, {1000 * ms, ""}, {1000 * ms, ""}, {1000 * ms, "0 1"}, {500 * ms, ""}, {1000 * ms, ""}, {1000 * ms, ""}, {1000 * ms, "0 1"}} {
		h.pass(try.pass)
		h.do(h.m.Tick(h.now))
		if got := h.refusedBy([3]string{note, note, note}); got != try.want {
			t.Errorf("after try %d nodes %q remove it, want %q", i, got, try.want)
		}
	}
	if forced := h.m.Stats().Forced; forced != 2 {
		t.Errorf("counts %d forced releases", forced)
	}
}

// refusedBy makes nodes answer a try, lets the machine send its releases, and returns
// the nodes that were requested to remove another holder: exactly the one that they named.
func (h *hand) refusedBy(notes [3]string) (removes string) {
	h.t.Helper()
	for node, note := range notes {
		switch note {
		case "":
		case "free":
			h.votes(node, "n")
		case "unsent":
			h.unsent(node)
		default:
			token, text, ok := strings.Cut(note, "|")
			if !ok {
				token, text = "other", note
			}
			h.answerHolder(node, token, text)
		}
	}
	for len(h.calls) > 0 {
		for node := range 3 {
			c, busy := h.calls[node]
			switch {
			case busy && c.Vote != nil:
				h.fail(node)
			case busy:
				for _, a := range c.Release {
					if a.Token != "other" {
						continue
					}
					removes += fmt.Sprintf(" %d", node)
					if a.Note != notes[node] {
						h.t.Errorf("node %d is to remove %q, and has named %q", node, a.Note, notes[node])
					}
				}
				h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: h.take(node).Seq}))
			}
		}
	}
	if removes != "" {
		removes = removes[1:]
	}
	return removes
}
