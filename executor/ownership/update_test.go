package ownership

import (
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/shard"
)

// newServingOwner returns an owner that serves a run of two shards, with one peer.
func newServingOwner() *Machine {
	o := New(Config{ID: "me"})
	o.stage, o.uid = serving, "this run"
	o.handover.begin(2)
	o.peers.begin(2)
	o.assignment.desired = make([]string, 2)
	o.peers.all["peer"] = &peer{owns: make(map[int]uint64)}
	o.Serve(shard.NewSaleTotals(2), nil)
	return o
}

// TestUpdateOfAnotherRun: what a peer tells of another run of the sale arrives late, and changes
// nothing of this one.
func TestUpdateOfAnotherRun(t *testing.T) {
	now := clock.Now{Mono: time.Hour}
	for run, heard := range map[string]bool{"the run before": false, "": false, "this run": true} {
		o := newServingOwner()
		o.Receive(now, "peer", &PeerUpdate{
			Run: run, Owned: map[int]uint64{1: 3}, Reports: []shard.Report{{Shard: 1, Next: 7}},
			Requested: []ShardRequest{{Shard: 0}}, Messages: []shard.Message{{Kind: shard.Sent, From: 1, To: 0, Transfer: 1, Units: ledger.Units{{First: 5, Count: 2}}}},
		})
		for what, got := range map[string]bool{
			"the owner of a shard": o.peers.holder[1] == "peer", "how far its log is": o.updates.collection.totals.Seen(1) == 7,
			"units": len(o.out.Messages) == 1, "who wants a shard": o.handover.all[0].requester == "peer", "that the peer is there": o.peers.all["peer"].lastSeen != 0,
		} {
			if got != heard {
				t.Errorf("of %q it hears %s: %v, want %v", run, what, got, heard)
			}
		}
	}
}

// TestUpdatesThatCannotBe: numbers that a peer sends are held against the sale before they are used.
func TestUpdatesThatCannotBe(t *testing.T) {
	o := newServingOwner()
	for _, i := range []int{-1, 2, 1 << 40} {
		o.Receive(clock.Now{Mono: time.Hour}, "peer", &PeerUpdate{
			Run: "this run", Owned: map[int]uint64{i: 1}, Reports: []shard.Report{{Shard: i}},
			Requested: []ShardRequest{{Shard: i}}, Accepted: []int{i}, Granted: []int{i},
			Messages: []shard.Message{
				{From: i, To: 1}, {From: 0, To: i}, {From: 1, To: 1}, {From: 0, To: 1, Lacks: -1}, {From: 0, To: 1, Run: -1},
				{From: 0, To: 1, Units: ledger.Units{{First: 0, Count: 1}}}, {From: 0, To: 1, Units: ledger.Units{{First: 1, Count: -1}}},
				{From: 0, To: 1, Units: ledger.Units{{First: 1, Count: 2}, {First: 2, Count: 1}}},
			},
		})
	}
	if len(o.out.Messages) != 0 || o.peers.holder[0] != "" || o.peers.holder[1] != "" {
		t.Errorf("it takes in %v, and that shards are of %q", o.out.Messages, o.peers.holder)
	}
}
