package check

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// setHours gives the sale hours, as if they had been planned so from the first.
func (w *world) setHours(opens, closes int64) {
	set := func(s *pb.Settings) {
		if s != nil {
			s.OpensAtUs, s.ClosesAtUs = opens, closes
		}
	}
	for _, log := range []string{"sale/tickets", w.log(0), w.log(1)} {
		w.rewrite(log, func(_ int, c *pb.Commit) {
			for _, op := range c.GetOps() {
				set(op.GetPlanned().GetSettings())
				set(op.GetGeneration().GetSettings())
			}
		})
	}
}

// claimed is when the one claim of a world was stored.
func (w *world) claimed() (us int64) {
	for _, e := range w.h.Logs[w.log(0)] {
		c := new(pb.Commit)
		if err := proto.Unmarshal(e.Bytes, c); err != nil {
			w.t.Fatal(err)
		}
		if c.GetOps()[0].GetClaim() != nil {
			us = c.GetTimeUs()
		}
	}
	return us
}

func sealOp() *pb.Op { return &pb.Op{Op: &pb.Op_Seal{Seal: new(pb.Seal)}} }

// edgeFaults are those that a checker would miss if one part of a condition of it
// had no effect.
var edgeFaults = map[string]planted{
	"a claim before the sale opens": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.setHours(w.claimed()+1, 0)
	}, "phases"},
	"a claim when the sale closes": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.setHours(0, w.claimed())
	}, "phases"},
	"a seal before another op": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_CLOSED)
		w.plant(0, new(pb.Commit), sealOp(), noOp())
	}, "phases"},
	"a seal with units on their way": {newWorld, func(w *world) {
		w.append(0, func(d *ledger.Draft) { d.Out(1, 1) })
		w.plan(0, 0, pb.Phase_CLOSED)
		w.plantOp(sealOp())
	}, "phases"},
	"a seal with units held": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.append(0, func(d *ledger.Draft) { d.Claim(a, "k", 1, w.at.Microseconds()+10_000_000) })
		w.plan(0, 0, pb.Phase_CLOSED)
		w.plantOp(sealOp())
	}, "phases"},
	"units sent by another writer": {newWorld, func(w *world) {
		w.plant(0, &pb.Commit{Writer: []byte("owner-02"), Epoch: 1}, outOp(1, &pb.Range{First: 1, Count: 1}))
	}, "epochs"},
	"a late create of a later generation": {grown, func(w *world) {
		w.late(0, 1, func(c *pb.Commit) { c.GetOps()[0].GetGeneration().Number = 2 })
	}, "slots"},
	"a late create in another slot": {grown, func(w *world) {
		w.late(0, 1, func(*pb.Commit) {})
		entries := w.h.Logs[w.log(0)]
		entries[len(entries)-1].Slot = 1
	}, "slots"},
	"a late create with more": {grown, func(w *world) {
		w.late(0, 1, func(c *pb.Commit) { c.Ops = append(c.Ops, noOp()) })
	}, "slots"},
	"an identity twice, the second time while paused": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plantOp(claimOf(a, "k", 2))
	}, "identities"},
	"an identity twice, and a claim while paused": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plantOp(claimOf(a, "k", 2))
		w.asks(claimOf(w.user(0), "l", 2))
	}, "phases identities"},
	"an identity twice, the second time beyond the limit": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 2)
		w.plantOp(claimOf(a, "k", 3))
	}, "identities"},
	"a unit below all": {newWorld, func(w *world) { w.asks(claimOf(w.user(0), "k", -1)) }, "units"},
	"no units sent, and another's": {newWorld, func(w *world) {
		w.plantOp(outOp(1, &pb.Range{First: 1}, &pb.Range{First: 4, Count: 1}))
	}, "units"},
	"an unreceived transfer acknowledged": {newWorld, func(w *world) {
		w.append(0, func(d *ledger.Draft) { d.Out(1, 1) })
		w.plantOp(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: 1, K: 1}}})
	}, "units"},
	"a transfer received from no shard": {newWorld, func(w *world) {
		w.plantOp(&pb.Op{Op: &pb.Op_In{In: &pb.In{From: shards, K: 1, Units: []*pb.Range{{First: 1, Count: 1}}}}})
	}, "units"},
	"a claim of a unit that was removed": {newWorld, func(w *world) {
		w.plan(0, 3, pb.Phase_OPEN)
		w.asks(claimOf(w.user(0), "k", 3))
	}, "units"},
	"a claim of a unit that is held": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.append(0, func(d *ledger.Draft) { d.Claim(a, "k", 1, w.at.Microseconds()+10_000_000) })
		w.asks(claimOf(w.user(0), "l", 1))
	}, "units"},
	"an expiry before its deadline": {ended, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetSettle().GetHow() == pb.Settle_CONFIRM }, func(_ *pb.Commit, op *pb.Op) {
			op.GetSettle().How = pb.Settle_EXPIRE
		})
	}, "units ending exports"},
	"a unit dealt twice by a plan": {newWorld, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().Shards[1].Add[0].First = 1
		})
	}, "plans generations"},
	"a unit dealt beyond the watermark": {newWorld, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().NextUnit--
		})
	}, "plans"},
	"a plan of another run's number": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_OPEN)
		w.change(func(op *pb.Op) bool { return op.GetPlanned().GetGeneration() == 2 }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Run = 2 })
	}, "plans"},
	"a plan of fewer shards": {newWorld, func(w *world) {
		w.declare(0, 0, pb.Phase_OPEN)
		w.change(func(op *pb.Op) bool { return op.GetPlanned().GetGeneration() == 2 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().Shards = op.GetPlanned().Shards[:1]
		})
	}, "plans"},
	"a generation with other units": {newWorld, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().Shards[1].Add[0].Count = 2
		})
	}, "generations"},
	"a generation with more units": {newWorld, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().Shards[1].Add = nil
		})
	}, "generations"},
	"a generation taken before it is planned": {newWorld, func(w *world) {
		w.declare(0, 0, pb.Phase_OPEN)
		w.complete()
		planned := w.h.Logs["sale/tickets"]
		planned[2].Seq = w.h.Count()
	}, "generations"},
	"a claim after a close, under a plan that came amid it": {newWorld, func(w *world) {
		w.command("close", func() { w.plan(0, 0, pb.Phase_OPEN) })
		w.buy(w.user(0), "k", 1)
	}, "close"},
	"a claim after a pause, while paused": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		w.asks(claimOf(w.user(0), "k", 1))
	}, "phases close"},
	"a pause whose plan is not applied, after an apply that failed": {newWorld, func(w *world) {
		w.as("apply", 7, func() {})
		w.h.Events[len(w.h.Events)-1].Err = "stale"
		w.as("pause", 0, func() { w.declare(0, 0, pb.Phase_PAUSED) })
	}, "commands"},
	"an apply of what was never declared, before a close": {withAckLedger, func(w *world) {
		w.as("apply", 7, func() {
			w.plan(0, 0, pb.Phase_OPEN)
			w.plan(0, 0, pb.Phase_CLOSED)
		})
	}, "commands"},
}

// What lies just within what is allowed.
func TestToleratedEdges(t *testing.T) {
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"a transfer received twice and acknowledged twice": {newWorld, func(w *world) {
			w.move(0, 1, 1)
			w.plant(1, new(pb.Commit), &pb.Op{Op: &pb.Op_In{In: &pb.In{From: 0, K: 1, Units: []*pb.Range{{First: 3, Count: 1}}}}})
			w.plantOp(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: 1, K: 1}}})
		}},
		"an apply of what was declared long ago and few changes before": {withAckLedger, func(w *world) {
			w.raise(7)
			w.raise(8)
			w.at += grace
			w.as("apply", 6, func() {})
		}},
		"a claim as the sale opens": {newWorld, func(w *world) {
			w.buy(w.user(0), "k", 1)
			w.setHours(w.claimed(), w.claimed()+1)
		}},
		"grabs that another than the owner drains": {withAckLedger, func(w *world) {
			w.writer = planner
			w.grab(w.user(0), "k", 1)
		}},
		"a claim after a close that failed": {newWorld, func(w *world) {
			w.command("close", func() {})
			w.h.Events[len(w.h.Events)-1].Err = "stale"
			w.buy(w.user(0), "k", 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}
