package quorum_test

import (
	"testing"

	"salectl/backends/quorum"
)

// holds answers a ballot for the last of its keys with a token of our own that
// has it: an older ballot came in behind its release.
func (h *hand) holds(node int, token string) {
	h.t.Helper()
	c := h.take(node)
	asks := c.Vote.Asks
	count := quorum.BallotReply{Yes: make([]bool, len(asks)), Holders: make([]quorum.Holding, len(asks)), Time: h.now.Wall}
	for i := range asks {
		count.Yes[i] = i < len(asks)-1
	}
	count.Holders[len(asks)-1] = quorum.Holding{Key: asks[len(asks)-1].Key, Token: token, Left: ttl}
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Ballot: count}))
}

// A key that a node has promised to a token of ours which is spent is taken back.
func TestStrays(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"also while another key is held under that token": func(t *testing.T) {
			h := newHand(t, 1, false)
			h.acquire("a")
			h.votes(0, "y")
			h.acquire("c")
			h.votes(0, "yo")
			h.sleep()
			h.asked(0, "a/t1!", "c/t2")
			h.holds(0, "t.1")
			h.frees(0, "c/t1")
		},
		"of any try before": func(t *testing.T) {
			h := newHand(t, 1, false)
			h.acquire("a")
			for range 3 {
				h.votes(0, "o")
				h.sleep()
			}
			h.holds(0, "t.1")
			h.frees(0, "a/t1")
			h.sleep()
			h.holds(0, "t.3")
			h.frees(0, "a/t3")
		},
		"once": func(t *testing.T) {
			h := newHand(t, 1, false)
			h.acquire("a")
			h.fail(0)
			h.fail(0) // to release it
			h.sleep()
			h.holds(0, "t.1")
			h.pass(ttl / 16)
			h.do(h.m.Tick(h.now))
			if h.calls[0].Vote != nil {
				h.votes(0, "o")
			}
			h.frees(0, "a/t1")
		},
		"not one of somebody else": func(t *testing.T) {
			h := newHand(t, 1, false)
			h.acquire("a")
			h.holds(0, "other.1")
			h.asks()
		},
	} {
		t.Run(name, test)
	}
}
