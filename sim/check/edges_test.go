package check

import (
	"bytes"
	"slices"
	"testing"
	"time"

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
		w.storeHeld(0, a, "k", 1, 10*time.Second)
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
		w.storeHeld(0, a, "k", 1, 10*time.Second)
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
	"a plan of fewer shards, which all take": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_OPEN)
		w.change(func(op *pb.Op) bool { return op.GetPlanned().GetGeneration() == 2 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().Shards = op.GetPlanned().Shards[:1]
		})
	}, "plans generations"},
	"a plan of no shards": {newWorld, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Shards = nil })
		w.wait("closed", 0)
	}, "decode"},
	"a run with the uid of one before the last": {emptyWorld, func(w *world) {
		gone := &pb.Op{Op: &pb.Op_Destroyed{Destroyed: new(pb.Destroyed)}}
		w.declare(3, 0, pb.Phase_OPEN)
		w.plantInSale(gone)
		w.begins("fedcba9876543210")
		w.planned(1, pb.Phase_OPEN)
		w.plantInSale(gone)
		w.begins(testUID)
		w.planned(1, pb.Phase_OPEN)
	}, "plans ending"},
	"a generation planned as the run is sealed": {ended, func(w *world) {
		w.change(isSealed, func(c *pb.Commit, _ *pb.Op) {
			c.Ops = append([]*pb.Op{{Op: &pb.Op_Planned{Planned: &pb.Planned{
				Generation: w.sale.Generation() + 1, Uid: w.uid, Run: w.run, Settings: &pb.Settings{PerUserLimit: 2, Phase: pb.Phase_CLOSED},
				Shards: make([]*pb.ShardChange, shards), NextUnit: w.next,
			}}}}, c.Ops...)
		})
	}, "plans"},
	"applied too early, as it was in the run before": {newWorld, func(w *world) {
		twice(w)
		w.plantInSale(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 2}}})
	}, "plans"},
	"a generation to come, behind another op": {newWorld, func(w *world) {
		w.plant(0, new(pb.Commit), noOp(), &pb.Op{Op: &pb.Op_Generation{Generation: &pb.Generation{Number: 9}}})
	}, "generations"},
	"a generation with another phase": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_PAUSED)
		w.change(func(op *pb.Op) bool { return op.GetGeneration().GetNumber() == 2 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetGeneration().Settings.Phase = pb.Phase_OPEN
		})
	}, "generations"},
	"leases before the seal, beside another's": {ended, func(w *world) {
		w.h.Holds(1*time.Millisecond, "executor-0, run 1", testUID, 0, aToken, time.Second)
		w.h.Holds(2*time.Millisecond, "executor-1, run 1", testUID, 0, aToken, time.Second)
	}, "leases"},
	"leases that are in doubt only later": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 5)
		w.h.Doubted(3*time.Second, 9*time.Second)
		w.holds("executor-1, run 1", testUID, 2, 6)
	}, "leases"},
	"an export without its last newline": {ended, func(w *world) {
		x := &w.h.Exports[0]
		x.Bytes = bytes.TrimSuffix(x.Bytes, []byte("\n"))
	}, "ending exports"},
	"an export without its last line": {ended, func(w *world) {
		x := &w.h.Exports[0]
		x.Bytes = x.Bytes[:bytes.LastIndexByte(x.Bytes[:len(x.Bytes)-1], '\n')+1]
	}, "ending exports"},
	"an export with a line too many": {ended, func(w *world) {
		x := &w.h.Exports[0]
		x.Bytes = append(slices.Clone(x.Bytes), "{}\n"...)
	}, "ending exports"},
	"an export of a run without a slot": {emptyWorld, func(w *world) {
		w.declare(3, 0, pb.Phase_OPEN)
		w.h.Exported(w.pass(), []byte(`{"uid":"`+testUID+`"}`))
	}, "exports"},
	"an answer to no question": {open, func(w *world) { w.answer(w.h.Op(), Answer{Outcome: "sold"}) }, "operations"},
	"applied while a shard has nothing": {newWorld, func(w *world) {
		delete(w.h.Logs, w.log(1))
		w.h.Final.Rested = true
	}, "plans progress"},
	"an apply before all else of what was not declared then": {declaredListed, func(w *world) {
		w.as("apply", 9, func() {
			w.open()
			w.raise(7)
		})
	}, "commands"},
	"an apply of what another declares later": {withAckLedger, func(w *world) {
		w.as("apply", 7, func() {})
		w.h.Events[len(w.h.Events)-2].Writer = "planner2"
		w.raise(7)
	}, "commands"},
	"an apply of what was declared long ago and just so many changes before": {withAckLedger, func(w *world) {
		w.raise(7)
		w.raise(8)
		w.listed.Stock = 9
		w.declare(0, 0, pb.Phase_OPEN)
		w.at += grace
		w.as("apply", 6, func() {})
		w.h.Events[len(w.h.Events)-2].Writer = "planner2"
	}, "commands"},
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
		"an apply of what was declared a moment ago and many changes before": {withAckLedger, func(w *world) {
			w.raise(7)
			w.raise(8)
			w.raise(9)
			w.as("apply", 6, func() {})
		}},
		"an apply of what was declared many changes before, as long ago as a read may show": {withAckLedger, func(w *world) {
			ended := w.at + time.Millisecond
			w.raise(7)
			w.raise(8)
			w.raise(9)
			w.at = ended + grace - time.Millisecond
			w.as("apply", 6, func() {})
		}},
		"an apply of what is declared after many changes": {withAckLedger, func(w *world) {
			w.raise(7)
			w.raise(8)
			w.raise(9)
			w.at += grace
			w.as("apply", 9, func() {})
		}},
		"leases of one process, with another run's between": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 4)
			w.holds("executor-0, run 1", "fedcba9876543210", 1, 2)
			w.holds("executor-0, run 1", testUID, 2, 5)
		}},
		"leases as destroy took them away": {ended, func(w *world) {
			sale := w.h.Logs["sale/tickets"]
			sealed := sale[len(sale)-2].At
			w.h.Holds(0, "executor-0, run 1", testUID, 0, aToken, time.Hour)
			w.h.Holds(sealed, "executor-1, run 1", testUID, 0, aToken, time.Hour)
		}},
		"leases in doubt from their begin on, long after an earlier doubt": {newWorld, func(w *world) {
			w.h.Doubted(0, 1*time.Second)
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.h.Doubted(2*time.Second, 4*time.Second)
			w.holds("executor-1, run 1", testUID, 2, 5)
		}},
		"leases in doubt, then and earlier": {newWorld, func(w *world) {
			w.h.Doubted(0, 1*time.Second)
			w.holds("executor-0, run 1", testUID, 0, 4)
			w.h.Doubted(2*time.Second, 5*time.Second)
			w.holds("executor-1, run 1", testUID, 3, 5)
		}},
		"a number of no operation": {newWorld, func(w *world) {
			w.h.Op()
			w.read(w.user(0))
			w.h.Final.Rested = true
		}},
		"nothing, at rest": {emptyWorld, func(w *world) { w.h.Final.Rested = true }},
		"planned by one who is killed": {emptyWorld, func(w *world) {
			w.declare(3, 0, pb.Phase_OPEN)
			w.h.Final.Rested = true
		}},
		"units unsold while paused": {newWorld, func(w *world) {
			w.plan(0, 0, pb.Phase_PAUSED)
			w.h.Final = Final{Rested: true, Demanded: true}
		}},
		"units unsold before it opens":  {withHours(day, 0), func(w *world) { w.h.Final = Final{Rested: true, Demanded: true} }},
		"units unsold after it closed":  {withHours(0, time.Second), func(w *world) { w.h.Final = Final{Rested: true, Demanded: true} }},
		"units unsold without a demand": {newWorld, func(w *world) { w.h.Final.Rested = true }},
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
