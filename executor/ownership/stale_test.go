package ownership

import (
	"maps"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/shard"
)

// What a process knew or was sent before counts no more once its lease has run out, its link was
// made again, or the shard has moved on.

// reportsTo is for how many shards a process answers a peer that looks whether all is sold.
func (h *ownerHost) reportsTo(peer *ownerHost) int {
	h.w.t.Helper()
	h.o.Receive(h.here(), peer.o.cfg.ID, &PeerUpdate{Run: h.o.uid, ProofRequest: 7})
	for _, x := range h.o.out.Updates {
		if x.Update.ProofReply == 7 {
			return len(x.Update.Reports)
		}
	}
	h.w.t.Fatalf("%s does not answer", h.o.cfg.ID)
	return 0
}

// TestNoAnswersForSpentLeases: a process that was paused does not answer for shards whose leases
// have run out.
func TestNoAnswersForSpentLeases(t *testing.T) {
	w := newSharedWorld(t, 3, 4)
	a, b := w.joins("a", nil), w.joins("b", nil)
	w.converge(5 * time.Second)
	if n := b.reportsTo(a); n != len(b.owns()) || n == 0 {
		t.Fatalf("it answers for %d shards and owns %d", n, len(b.owns()))
	}
	b.o.out.Updates = nil
	b.still = true
	w.pass(2 * w.ttl)
	if n := b.reportsTo(a); n != 0 {
		t.Errorf("it answers for %d shards whose leases have run out", n)
	}
}

// TestAnswersToALook: of the answers of peers only that counts which is to the look under way, and
// promises that no units come back.
func TestAnswersToALook(t *testing.T) {
	now := clock.Now{Mono: time.Hour}
	for name, c := range map[string]struct {
		says *PeerUpdate
		sure bool
	}{
		"to this one":               {&PeerUpdate{ProofReply: 2}, true},
		"to the one before":         {&PeerUpdate{ProofReply: 1}, false},
		"units may come back":       {&PeerUpdate{ProofReply: 2, UnitsMayReturn: true}, false},
		"the shard has gone on":     {&PeerUpdate{ProofReply: 2, Reports: []shard.Report{{Shard: 1, Next: 8}}}, false},
		"of another of its shards":  {&PeerUpdate{ProofReply: 2, Reports: []shard.Report{{Shard: 0, Next: 7}}}, false},
		"of a shard that is not it": {&PeerUpdate{ProofReply: 2, Reports: []shard.Report{{Shard: 2, Next: 7}}}, false},
	} {
		o := newServingOwner()
		look := &o.updates.collection
		look.number, look.at, look.began, look.slots, look.confirmed = 2, now.Mono, now, []uint64{3, 7}, []bool{true, false}
		if c.says.Run = o.uid; c.says.Reports == nil {
			c.says.Reports = []shard.Report{{Shard: 1, Next: 7}}
		}
		o.Receive(now, "peer", c.says)
		if sure := look.at == 0; sure != c.sure {
			t.Errorf("an answer %s makes it sure: %v", name, sure)
		}
	}
}

// TestLinkEndsWhatAPeerOwns: what a peer owned before its link was cut does not count when the
// link is made again, until the peer says so.
func TestLinkEndsWhatAPeerOwns(t *testing.T) {
	o, now := newServingOwner(), clock.Now{Mono: time.Hour}
	owns := &PeerUpdate{Run: o.uid, Owned: map[int]uint64{1: 3}}
	o.Linked(now, "peer", true)
	o.Receive(now, "peer", owns)
	if id := o.peers.ownerOf(now, 1); id != "peer" {
		t.Fatalf("the owner is %q", id)
	}
	o.Linked(now, "peer", false)
	o.Linked(now, "peer", true)
	if id := o.peers.ownerOf(now, 1); id != "" {
		t.Errorf("with the link made again the owner is %q", id)
	}
	o.Receive(now, "peer", owns)
	if id := o.peers.ownerOf(now, 1); id != "peer" {
		t.Errorf("when it says so again the owner is %q", id)
	}
}

// shareOne starts two processes that share a sale of one shard, and returns the one that owns it first.
func shareOne(t *testing.T) (w *sharedWorld, home, other *ownerHost) {
	w = newSharedWorld(t, 3, 1)
	home, other = w.joins("a", nil), w.joins("b", nil)
	w.converge(5 * time.Second)
	if len(home.owns()) == 0 {
		home, other = other, home
	}
	return w, home, other
}

// moved has the shard go to the process to while another stands by, or with undo back from it.
func (w *sharedWorld) moved(from, to *ownerHost, undo bool) {
	w.t.Helper()
	from.input(func(now clock.Now) { from.o.StandBy(now, undo) })
	if _, ok := w.passUntil(func() bool { return len(to.owns()) == 1 && w.shared() }, 5*time.Second); !ok {
		w.t.Fatalf("%s does not get the shard", to.o.cfg.ID)
	}
}

// TestSecondTakeover: a process that was given a shard, and has given it back, follows it as the
// fallback of its owner while that is silent. It ceases to when the owner is heard again: this time
// the shard was not given to it.
func TestSecondTakeover(t *testing.T) {
	w, a, b := shareOne(t)
	w.moved(a, b, false)
	w.moved(a, a, true)
	w.pass(time.Second)
	a.still = true
	if _, ok := w.passUntil(func() bool { return b.stages()[0] == taking }, silentAfter+time.Second); !ok {
		t.Fatalf("it is %v", b.stages())
	}
	a.goesOn()
	w.pass(200 * time.Millisecond)
	b.wantShares(away)
	a.wantShares(owned)
}

// TestSecondRelease: a shard that ends by itself is freed for whoever comes, though it was given
// to a peer by name before.
func TestSecondRelease(t *testing.T) {
	w, a, b := shareOne(t)
	w.moved(a, b, false)
	w.moved(a, a, true)
	a.end(0)
	for _, x := range a.o.out.Updates {
		if len(x.Update.Granted) > 0 {
			t.Errorf("it is freed for %s", x.To)
		}
	}
}

// TestGiverOwnsNoMore: who has given a shard is not its owner any more, before it has said what it
// owns since.
func TestGiverOwnsNoMore(t *testing.T) {
	w, a, b := shareOne(t)
	w.moved(a, b, false)
	w.moved(a, a, true)
	b.o.handover.enter(b.here(), 0, warming)
	if id := b.o.peers.ownerOf(b.here(), 0); id != a.o.cfg.ID {
		t.Fatalf("the owner is %q", id)
	}
	b.o.Receive(b.here(), a.o.cfg.ID, &PeerUpdate{Run: b.o.uid, Granted: []int{0}})
	if id := b.o.peers.ownerOf(b.here(), 0); id != "" || b.stages()[0] != taking {
		t.Errorf("once it is given the owner is %q, and it is %v", id, b.stages())
	}
}

// TestPartsHaveAll: what a process says of itself and what it owns are divided where they do not
// fit into one message, also where there is nothing else to say.
func TestPartsHaveAll(t *testing.T) {
	state, owns := api.ProcessStandby, map[int]uint64{1: 3}
	told := &PeerUpdate{Run: "run", State: &state, Owned: owns}
	var states, all int
	for _, part := range told.Parts(2) {
		if part.Run != "run" {
			t.Errorf("a part is of run %q", part.Run)
		}
		if part.State != nil {
			states++
		}
		if maps.Equal(part.Owned, owns) {
			all++
		}
	}
	if states != 1 || all != 1 {
		t.Errorf("the state comes %d times, what it owns %d times", states, all)
	}
}
