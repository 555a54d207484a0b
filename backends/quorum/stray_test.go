package quorum_test

import (
	"testing"

	"salectl/backends/quorum"
)

// holds answers a ballot with a token of our own that has the key: an older ballot came in behind
// its release.
func (h *hand) holds(node int, token string) {
	h.t.Helper()
	c := h.take(node)
	holder := quorum.Holding{Key: c.Vote.Requests[0].Key, Token: token, Left: ttl}
	h.do(h.m.Reply(h.now, quorum.Reply{Node: node, Seq: c.Seq, Ballot: quorum.BallotReply{
		Yes: []bool{false}, Holders: []quorum.Holding{holder}, Time: h.now.Wall,
	}}))
}

// A key that a node has promised to a token of ours which is spent is taken back.
func TestStrays(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"of any try before": func(t *testing.T) {
			h := newHand(t, 1)
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
			h := newHand(t, 1)
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
			h := newHand(t, 1)
			h.acquire("a")
			h.holds(0, "other.1")
			h.wantCalls()
		},
	} {
		t.Run(name, test)
	}
}
