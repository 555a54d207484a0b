package check

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// ledgerFaults are planted into histories of sales of which the owners decide.
var ledgerFaults = map[string]planted{
	"a slot that is no commit": {open, func(w *world) {
		w.stored(w.log(0), uint64(len(w.h.Logs[w.log(0)])), []byte{0xff}, nil)
	}, "decode chain epochs"},
	"a log of nobody": {open, func(w *world) { w.stored("00/ffff/0", 0, nil, nil) }, "decode"},
	"a unit sold twice": {newWorld, func(w *world) {
		a, b := w.user(0), w.user(0)
		w.buy(a, "k", 1)
		w.invoke(b, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(b, "k", 1))
	}, "units"},
	"a unit of another shard": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 4))
	}, "units"},
	"an In applied twice": {open, func(w *world) {
		w.plant(1, new(pb.Commit), &pb.Op{Op: &pb.Op_In{In: &pb.In{From: 0, K: 2, Units: []*pb.Range{{First: 3, Count: 1}}}}})
	}, "units"},
	"an Ack before the In": {open, func(w *world) {
		w.plant(0, new(pb.Commit), &pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: 1, K: 2}}})
	}, "units"},
	"more units received than sent": {open, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetIn() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetIn().Units[0].Count++ })
	}, "units"},
	"a generation taken again that adds units": {newWorld, func(w *world) {
		w.plantOp(&pb.Op{Op: &pb.Op_Generation{Generation: &pb.Generation{Number: 1, Add: []*pb.Range{{First: 1, Count: 3}}}}})
	}, "generations"},
	"units removed of which another shard has sold one": {newWorld, func(w *world) {
		w.plan(0, 3, pb.Phase_OPEN)
		w.change(func(op *pb.Op) bool { return op.GetGeneration().GetNumber() == 2 }, func(c *pb.Commit, _ *pb.Op) {
			c.Ops = append([]*pb.Op{{Op: &pb.Op_In{In: &pb.In{From: 1, K: 1, Units: []*pb.Range{{First: 4, Count: 1}}}}}}, c.Ops...)
		})
	}, "units"},
	"an acknowledgement of no shard": {newWorld, func(w *world) {
		w.plantOp(&pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: shards, K: 1}}})
	}, "units"},
	"a confirmation just at the deadline": {newWorld, func(w *world) {
		w.settle(w.held(0), pb.Settle_CONFIRM)
	}, "units"},
	"a late confirmation": {ended, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetSettle().GetHow() == pb.Settle_EXPIRE }, func(_ *pb.Commit, op *pb.Op) {
			op.GetSettle().How = pb.Settle_CONFIRM
		})
	}, "units ending exports"},
	"a slot left out": {open, func(w *world) {
		w.h.Logs[w.log(1)] = slices.Delete(w.h.Logs[w.log(1)], 2, 3)
	}, "slots chain heads answers refusals progress"},
	"an altered slot": {open, func(w *world) {
		w.h.Logs[w.log(1)][2].Bytes = append(slices.Clone(w.h.Logs[w.log(1)][2].Bytes), 0x18, 0x01)
	}, "chain heads"},
	"another log's slot 0": {open, func(w *world) {
		w.h.Logs["sale/tickets"][0].Bytes = w.h.Logs[w.log(0)][0].Bytes
	}, "chain heads plans generations"},
	"a claim of an earlier time than the one before": {newWorld, func(w *world) {
		w.h.Begin, w.off = time.Time{}, time.Hour
		w.buy(w.user(0), "k", 1)
		w.asks(claimOf(w.user(0), "k", 2))
	}, "chain"},
	"time that goes back": {open, func(w *world) {
		w.rewrite(w.log(0), func(slot int, c *pb.Commit) { c.TimeUs = int64(1000 - slot) })
	}, "chain"},
	"a head of other numbers": {open, func(w *world) {
		e := &w.h.Logs[w.log(0)][2]
		e.Head = []byte(strings.Replace(string(e.Head), `"sold":1`, `"sold":2`, 1))
	}, "heads"},
	"an old epoch": {open, func(w *world) {
		w.rewrite(w.log(0), func(slot int, c *pb.Commit) { c.Epoch = min(c.Epoch, uint64(max(0, 3-slot))) })
	}, "epochs"},
	"a claim by another writer": {open, func(w *world) {
		w.change(claimOp("a1"), func(c *pb.Commit, _ *pb.Op) { c.Writer = []byte("owner-02") })
	}, "epochs"},
	"a watermark reused": {open, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned().GetGeneration() == 4 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().Shards[0].Add[0].First = 1
		})
	}, "plans generations"},
	"a watermark taken back": {open, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned().GetGeneration() == 5 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetPlanned().NextUnit = 1
		})
	}, "plans"},
	"applied before a shard has begun": {emptyWorld, func(w *world) {
		w.declare(3, 0, pb.Phase_OPEN)
		w.say(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
	}, "plans"},
	"applied too early": {open, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetApplied().GetGeneration() == 1 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetApplied().Generation = 2
		})
	}, "plans"},
	"a generation taken twice": {open, func(w *world) {
		w.plant(0, new(pb.Commit), &pb.Op{Op: &pb.Op_Generation{Generation: &pb.Generation{Number: 5, Remove: 1}}})
	}, "generations"},
	"a generation otherwise than planned": {open, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetGeneration().GetNumber() == 5 }, func(_ *pb.Commit, op *pb.Op) {
			op.GetGeneration().Remove = 0
		})
	}, "generations refusals progress"},
	"two processes with the leases": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 3)
		w.holds("executor-1, run 1", testUID, 2, 4)
	}, "leases"},
	"two runs of an executor with the leases": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 3)
		w.holds("executor-0, run 2", testUID, 2, 4)
	}, "leases"},
	"leases that outlast the doubt": {newWorld, func(w *world) {
		w.h.Doubted(1*time.Second, 3*time.Second)
		w.holds("executor-0, run 1", testUID, 0, 4)
		w.holds("executor-1, run 1", testUID, 2, 5)
	}, "leases"},
	"leases beside another's, when a third gave back what it never had": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 4)
		w.h.Freed(1*time.Second, "executor-2, run 1", 0, aToken)
		w.holds("executor-1, run 1", testUID, 2, 5)
	}, "leases"},
	"leases beside another's, who gave another shard's back": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 4)
		w.h.Holds(0, "executor-0, run 1", testUID, 1, aToken, 4*time.Second)
		w.h.Freed(1*time.Second, "executor-0, run 1", 1, aToken)
		w.holds("executor-1, run 1", testUID, 2, 5)
	}, "leases"},
	"leases beside another's, when an earlier release arrives": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 1)
		w.h.Holds(1*time.Second, "executor-0, run 1", testUID, 0, "another token", 5*time.Second)
		w.h.Freed(2*time.Second, "executor-0, run 1", 0, aToken)
		w.holds("executor-1, run 1", testUID, 3, 6)
	}, "leases"},
	"leases that were renewed, beside another's": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 2)
		w.holds("executor-0, run 1", testUID, 1, 6)
		w.holds("executor-1, run 1", testUID, 3, 4)
	}, "leases"},
	"a process that has the leases when it gave them back": {newWorld, func(w *world) {
		w.holds("executor-0, run 1", testUID, 0, 3)
		w.h.Freed(1*time.Second, "executor-0, run 1", 0, aToken)
		w.holds("executor-0, run 1", testUID, 2, 4)
		w.holds("executor-1, run 1", testUID, 3, 5)
	}, "leases"},
	"a claim while paused": {newWorld, func(w *world) {
		a := w.user(0)
		w.plan(0, 0, pb.Phase_PAUSED)
		w.invoke(a, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 1))
	}, "phases"},
	"a commit after the seal": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_CLOSED)
		w.append(0, func(d *ledger.Draft) { d.Seal() })
		w.plant(0, &pb.Commit{Writer: writer, Epoch: 2}, &pb.Op{Op: &pb.Op_Own{Own: new(pb.Own)}})
	}, "phases"},
	"a seal with an open Out": {ended, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetSeal() != nil }, func(c *pb.Commit, _ *pb.Op) {
			out := &pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: 1, K: 1, Units: []*pb.Range{{First: 3, Count: 1}}}}}
			c.Ops = append([]*pb.Op{out}, c.Ops...)
		})
	}, "phases ending exports"},
	"a user beyond the limit": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 3)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 1, 2, 3))
	}, "limits"},
	"an identity twice": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 2))
	}, "identities"},
	"a user away from home": {newWorld, func(w *world) {
		a := w.user(1)
		w.invoke(a, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 1))
	}, "identities"},
	"sealed with another root": {ended, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetSealed() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.GetSealed().Roots[0] = []byte("root")
		})
	}, "ending"},
	"sealed with another count": {ended, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetSealed() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().Claims++ })
	}, "ending"},
	"sealed with another number of units": {ended, func(w *world) {
		w.change(isSealed, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().UnitsSold++ })
	}, "ending"},
	"sealed with a refund and no packets": {ended, func(w *world) {
		w.change(isSealed, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().Refund++ })
	}, "ending"},
	"sealed with a claim that is there twice counted twice": {ended, func(w *world) {
		w.change(claimOp("a<b"), func(c *pb.Commit, op *pb.Op) { c.Ops = append(c.Ops, claimOf(op.GetClaim().GetUser(), "a<b", 9)) })
		w.change(isSealed, func(_ *pb.Commit, op *pb.Op) {
			op.GetSealed().Claims++
			for i := range shards {
				entries := w.h.Logs[w.log(i)]
				root := sha256.Sum256(entries[len(entries)-1].Bytes)
				op.GetSealed().Roots[i] = root[:]
			}
		})
	}, "identities ending exports"},
	"sealed before the export was written": {ended, func(w *world) { w.h.Exports[0].Seq = w.h.Count() + 1 }, "ending"},
	"sealed and destroyed before a shard has begun": {emptyWorld, func(w *world) {
		w.declare(3, 0, pb.Phase_OPEN)
		w.plantInSale(&pb.Op{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: make([][]byte, shards), Slots: make([]uint64, shards)}}})
		w.plantInSale(&pb.Op{Op: &pb.Op_Destroyed{Destroyed: new(pb.Destroyed)}})
	}, "ending"},
	"a second run destroyed before it is sealed": {newWorld, func(w *world) {
		twice(w)
		w.plantInSale(&pb.Op{Op: &pb.Op_Destroyed{Destroyed: new(pb.Destroyed)}})
	}, "ending remains"},
	"deleted just before it is sealed": {ended, func(w *world) { w.h.Deletes[0].Seq = w.h.Exports[0].Seq }, "ending"},
	"destroyed with a log left, after a run that was not destroyed": {newWorld, func(w *world) {
		twice(w)
		w.close()
		w.change(func(op *pb.Op) bool { return op.GetDestroyed() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.Op = &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}
		})
		w.h.Deletes = w.h.Deletes[:len(w.h.Deletes)-1]
	}, "plans remains exports"},
	"sealed without the export":   {ended, func(w *world) { w.h.Exports = nil }, "ending"},
	"deleted before it is sealed": {open, func(w *world) { w.h.Deleted(w.pass(), w.log(0), 99) }, "ending"},
	"the sale's log deleted":      {ended, func(w *world) { w.h.Deleted(w.pass(), "sale/tickets", 0) }, "ending"},
	"destroyed with a log left":   {ended, func(w *world) { w.h.Deletes = w.h.Deletes[:1] }, "remains"},
	"a key left":                  {ended, func(w *world) { w.h.Final.Keys = []string{"salectl:x:marker"} }, "remains"},
	"a late create left by the next destroy": {ended, func(w *world) {
		first := w.h.Logs[w.log(0)][0]
		w.stored(w.log(0), 0, first.Bytes, first.Head)
		w.command("destroy", func() {})
	}, "remains"},
	"an append to a log that is gone": {ended, func(w *world) {
		w.plant(0, new(pb.Commit), &pb.Op{Op: &pb.Op_Own{Own: new(pb.Own)}})
	}, "slots"},
	"a late append of another kind": {grown, func(w *world) {
		w.late(0, 2, func(c *pb.Commit) { c.Ops = []*pb.Op{{Op: &pb.Op_Own{Own: new(pb.Own)}}} })
	}, "slots"},
	"a late append on another create": {grown, func(w *world) {
		w.late(0, 2, func(c *pb.Commit) { c.Prev = make([]byte, 32) })
	}, "slots"},
	"late appends of which one was never stored": {ended, func(w *world) {
		w.late(0, 4, func(c *pb.Commit) { c.TimeUs++ })
	}, "slots"},
	"late appends with one left out": {ended, func(w *world) {
		log := w.log(0)
		w.late(0, 4, func(*pb.Commit) {})
		n := len(w.h.Logs[log])
		w.h.Logs[log] = slices.Delete(w.h.Logs[log], n-2, n-1)
	}, "slots"},
	"a late append without the create": {ended, func(w *world) {
		second := w.h.Logs[w.log(0)][1]
		w.stored(w.log(0), 1, second.Bytes, second.Head)
	}, "slots"},
	"a late append that was stored twice": {ended, func(w *world) {
		second := w.h.Logs[w.log(0)][1]
		w.late(0, 2, func(*pb.Commit) {})
		w.stored(w.log(0), 1, second.Bytes, second.Head)
	}, "slots"},
	"a late append beyond all that the log had": {grown, func(w *world) {
		n := len(w.h.Logs[w.log(0)])
		w.late(0, n, func(*pb.Commit) {})
		entries := w.h.Logs[w.log(0)]
		last := sha256.Sum256(entries[len(entries)-1].Bytes)
		stored, err := proto.Marshal(&pb.Commit{Writer: planner, Prev: last[:], Ops: []*pb.Op{noOp()}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.stored(w.log(0), uint64(n), stored, nil)
	}, "slots"},
	"a late append in a slot of its own": {grown, func(w *world) {
		w.late(0, 2, func(c *pb.Commit) { c.GetOps()[0].GetGeneration().Number = 3 })
		entries := w.h.Logs[w.log(0)]
		entries[len(entries)-1].Slot = 2
	}, "slots"},
	"a late append on a create that is gone again": {grown, func(w *world) {
		w.late(0, 1, func(*pb.Commit) {})
		w.h.Deleted(w.pass(), w.log(0), 0)
		second := w.h.Logs[w.log(0)][1]
		w.stored(w.log(0), 1, second.Bytes, nil)
	}, "slots"},
	"a late append left by the next destroy": {grown, func(w *world) {
		w.late(0, 2, func(*pb.Commit) {})
		w.h.Deleted(w.pass(), w.log(0), 0)
		w.command("destroy", func() {})
	}, "remains"},
	"a sale's head of another phase": {newWorld, func(w *world) {
		e := &w.h.Logs["sale/tickets"][1]
		e.Head = []byte(strings.Replace(string(e.Head), `"phase":"open"`, `"phase":"planned"`, 1))
	}, "heads"},
	"an export with another line": {ended, func(w *world) {
		x := &w.h.Exports[0]
		x.Bytes = []byte(strings.Replace(string(x.Bytes), `"state":"sold"`, `"state":"held"`, 1))
	}, "ending exports"},
	"a claim of the run before under another key": {newWorld, func(w *world) {
		user, old := twice(w)
		w.answer(w.invoke(user, "l", 1), Answer{Outcome: "sold", Claim: old})
	}, "answers"},
	"an answer twice": {open, func(w *world) { w.answer(w.answered("sold").Op, Answer{Outcome: "sold_out"}) }, "operations"},
	"a request twice": {open, func(w *world) {
		w.h.Record(w.pass(), Event{Kind: ClaimInvoked, Op: w.answered("sold").Op, User: w.user(0), Key: "k", Quantity: 1})
	}, "operations"},
	"an answer to nobody": {open, func(w *world) { w.answer(w.h.Op(), Answer{Outcome: "sold_out"}) }, "operations"},
	"a claim that is answered as a read is": {newWorld, func(w *world) {
		w.h.Record(w.pass(), Event{Kind: ReadReturned, Op: w.invoke(w.user(0), "k", 1), Answer: Answer{Outcome: "paused"}})
	}, "operations"},
	"accepted and not in the ledger": {open, func(w *world) {
		w.answered("sold").Answer.Claim.ID = "0-99-0"
	}, "answers requests"},
	"accepted with other units": {open, func(w *world) {
		w.answered("sold").Answer.Claim.Units = []int64{2}
	}, "answers requests"},
	"accepted for another user": {open, func(w *world) { w.answered("sold").Answer.Claim.User = "another" }, "answers requests"},
	"accepted with fewer units than were asked for": {newWorld, func(w *world) {
		a := w.user(0)
		op := w.invoke(a, "k", 2)
		w.answer(op, Answer{Outcome: "sold", Claim: w.store(a, "k", 1)})
	}, "given answers requests"},
	"accepted and not in the ledger, after a request that nobody answered": {newWorld, func(w *world) {
		w.invoke(w.user(0), "k", 1)
		w.buy(w.user(0), "k", 1)
		w.answered("sold").Answer.Claim.Units = []int64{2}
	}, "answers requests"},
	"sold at once and answered as held, by a node that has lost it": {withAckRedis, func(w *world) {
		w.drain(w.early(w.user(0), "k", 1))
		w.h.Lost(w.pass(), 0, 0)
		w.answered("sold").Answer.Outcome = "held"
	}, "answers"},
	"refused as it was sold": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.answered("sold").Answer.Outcome = "overloaded"
	}, "requests"},
	"a read of other units": {open, func(w *world) {
		w.event(func(e *Event) bool { return e.Kind == ReadReturned }).Answer.Claims[0].Units = []int64{2}
	}, "answers"},
	"two who are first, after what a node forgot": {withAckRedis, func(w *world) {
		a, b := w.user(0), w.user(0)
		w.early(a, "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		w.fill()
		w.drain(w.early(a, "k", 1))
		g := w.early(b, "l", 2)
		w.answer(w.invoke(b, "l", 1), Answer{Outcome: "sold", Claim: toldOf(g)})
		w.drain(g)
	}, "first"},
	"a claim that nobody asked for, after one that was": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.store(w.user(0), "k", 1)
	}, "requests"},
	"a claim under another key than it was asked for": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.store(a, "l", 1)
	}, "requests"},
	"a claim of fewer units than were asked for": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 2)
		w.store(a, "k", 1)
	}, "requests"},
	"a claim that is asked for later": {newWorld, func(w *world) {
		a := w.user(0)
		w.store(a, "k", 1)
		w.invoke(a, "k", 1)
	}, "requests"},
	"a claim that is asked for later, without a key": {newWorld, func(w *world) {
		a := w.user(0)
		w.store(a, "", 1)
		w.invoke(a, "", 1)
	}, "requests"},
	"answered before the append": {newWorld, func(w *world) {
		a := w.user(0)
		op := w.invoke(a, "k", 1)
		w.answer(op, Answer{Outcome: "sold", Claim: Claim{ID: "0-2-0", User: a, Units: []int64{1}}})
		w.store(a, "k", 1)
	}, "answers requests"},
	"told of a claim that is not there": {open, func(w *world) {
		w.answered("limit_reached").Answer.Claims[0].Units = []int64{9}
	}, "answers"},
	"a key denied that is under way": {newWorld, func(w *world) {
		w.denied("executor-0, run 1", "executor-0, run 1", "", "no_quorum", false)
	}, "denials"},
	"a key denied that was answered with unknown": {newWorld, func(w *world) {
		w.denied("executor-0, run 1", "executor-0, run 1", "unknown", "draining", false)
	}, "denials"},
	"a key denied that is under way for ever": {newWorld, func(w *world) {
		user := w.user(0)
		w.received(user, "executor-0, run 1")
		w.received(user, "executor-0, run 1")("no_quorum")
		w.store(user, "k", 1)
	}, "denials"},
	"a key denied twice that is under way": {newWorld, func(w *world) {
		user := w.user(0)
		w.received(user, "executor-0, run 1")
		w.received(user, "executor-0, run 1")("no_quorum")
		w.received(user, "executor-0, run 1")("draining")
		w.store(user, "k", 1)
	}, "denials"},
	"a key denied that is under way, and asked for again when it is sold": {newWorld, func(w *world) {
		user := w.user(0)
		w.received(user, "executor-0, run 1")
		w.received(user, "executor-0, run 1")("no_quorum")
		w.store(user, "k", 1)
		w.received(user, "executor-0, run 1")
	}, "denials"},
	"a key denied that is under way, after an identity twice": {newWorld, func(w *world) {
		a, user := w.user(0), w.user(1)
		w.buy(a, "l", 1)
		w.plantOp(claimOf(a, "l", 3))
		w.received(user, "executor-0, run 1")
		w.received(user, "executor-0, run 1")("no_quorum")
		w.store(user, "k", 1)
	}, "identities denials"},
	"an identity twice, the key denied in between": {newWorld, func(w *world) {
		user := w.user(0)
		w.received(user, "executor-0, run 1")
		w.store(user, "k", 1)
		w.received(user, "executor-0, run 1")("no_quorum")
		w.plantOp(claimOf(user, "k", 2))
	}, "identities"},
	"a key of a list denied that is under way with that process alone": {withAckLedger, func(w *world) {
		user := w.user(0)
		w.received(user, "executor-2, run 1")("standby")
		w.received(user, "executor-1, run 1")
		w.received(user, "executor-1, run 1")("no_quorum")
		w.drain(w.give(user, "k", 1))
		w.received(user, "executor-2, run 1")("unknown")
	}, "denials"},
	"two first answers": {open, func(w *world) {
		w.event(func(e *Event) bool { return e.Answer.Replayed }).Answer.Replayed = false
	}, "first"},
	"a repetition of a keyless request": {open, func(w *world) {
		w.event(func(e *Event) bool { return e.Answer.Outcome == "sold" && len(e.Answer.Claim.Units) == 2 }).Answer.Replayed = true
	}, "first"},
	"a claim that nobody asked for": {newWorld, func(w *world) { w.store(w.user(0), "k", 1) }, "requests"},
	"a claim that was refused": {newWorld, func(w *world) {
		a := w.user(0)
		w.refuse(a, "k", 1, "overloaded")
		w.store(a, "k", 1)
	}, "requests"},
	"a claim that was refused, and is answered to a repetition": {newWorld, func(w *world) {
		a := w.user(0)
		w.refuse(a, "k", 1, "no_quorum")
		claim := w.store(a, "k", 1)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: claim, Replayed: true})
	}, "requests"},
	"two claims of one keyless request": {newWorld, func(w *world) {
		a := w.user(0)
		w.answer(w.invoke(a, "", 1), Answer{Outcome: "unknown"})
		w.store(a, "minted", 1)
		w.store(a, "minted again", 1)
	}, "requests"},
	"a claim after close returned": {newWorld, func(w *world) {
		a := w.user(0)
		w.command("close", func() {})
		w.buy(a, "k", 1)
	}, "close"},
	"a claim after pause returned": {newWorld, func(w *world) {
		a := w.user(0)
		w.command("pause", func() {})
		w.buy(a, "k", 1)
	}, "close"},
	"a claim after a pause that found what a resume under way had ended": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		resume := w.begin("resume")
		w.plan(0, 0, pb.Phase_OPEN)
		w.command("pause", func() {})
		w.buy(w.user(0), "k", 1)
		w.end(resume)
	}, "close"},
	"a claim after a pause that found what a killed resume had ended": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		w.begin("resume")
		w.declare(0, 0, pb.Phase_OPEN)
		w.command("pause", func() {})
		w.complete()
		w.buy(w.user(0), "k", 1)
	}, "close"},
	"a claim after a pause that began when the resume was over": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		w.command("resume", func() { w.plan(0, 0, pb.Phase_OPEN) })
		w.command("pause", func() {})
		w.buy(w.user(0), "k", 1)
	}, "close"},
	"a claim after a pause that began when a killed resume was completed": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		w.begin("resume")
		w.plan(0, 0, pb.Phase_OPEN)
		w.command("pause", func() {})
		w.buy(w.user(0), "k", 1)
	}, "close"},
	"a claim after a pause that was planned after an overlapping resume": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		resume := w.begin("resume")
		w.plan(0, 0, pb.Phase_OPEN)
		w.command("pause", func() { w.declare(0, 0, pb.Phase_PAUSED) })
		w.buy(w.user(0), "k", 1)
		w.end(resume)
	}, "close"},
	"a claim after a pause that only an apply overlaps": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		apply := w.begin("apply")
		w.command("resume", func() { w.plan(0, 0, pb.Phase_OPEN) })
		w.command("pause", func() {})
		w.buy(w.user(0), "k", 1)
		w.end(apply)
	}, "close"},
	"a claim after a close that a resume overlaps": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		resume := w.begin("resume")
		w.plan(0, 0, pb.Phase_OPEN)
		w.command("close", func() {})
		w.buy(w.user(0), "k", 1)
		w.end(resume)
	}, "close"},
	"a claim after a pause and before the next resume, under what was before": {newWorld, func(w *world) {
		w.command("pause", func() { w.declare(0, 0, pb.Phase_PAUSED) })
		resume := w.begin("resume")
		w.declare(0, 0, pb.Phase_OPEN)
		w.buy(w.user(0), "k", 1)
		w.end(resume)
	}, "close"},
	"a claim after a close that paused, and a resume": {newWorld, func(w *world) {
		w.command("close", func() { w.plan(0, 0, pb.Phase_PAUSED) })
		w.command("resume", func() { w.plan(0, 0, pb.Phase_OPEN) })
		w.buy(w.user(0), "k", 1)
	}, "close"},
	"a claim after a pause, under an open plan that came amid it": {newWorld, func(w *world) {
		w.command("pause", func() { w.plan(0, 0, pb.Phase_OPEN) })
		w.buy(w.user(0), "k", 1)
	}, "close"},
	"sold out while there are units": {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "sold_out") }, "refusals"},
	"sold out after new units came": {open, func(w *world) {
		w.plan(1, 0, pb.Phase_OPEN)
		w.refuse(w.user(0), "k", 1, "sold_out")
		w.buy(w.user(0), "k", 1)
		w.buy(w.user(1), "k", 1)
	}, "refusals"},
	"sold out when the owner knew of new units": {open, func(w *world) {
		w.planBy(1, pb.Phase_OPEN)
		w.buy(w.user(0), "k", 1)
		w.refuse(w.user(1), "k", 1, "sold_out")
		w.buy(w.user(1), "k", 1)
	}, "refusals"},
	"paused when the owner knew of the resume": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plan(0, 0, pb.Phase_OPEN)
		w.buy(w.user(0), "k", 1)
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused long after the resume": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plan(0, 0, pb.Phase_OPEN)
		w.at += grace
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"sold out when an owner of long ago knew of new units": {open, func(w *world) {
		w.succeed(0)
		w.succeed(1)
		w.at += grace
		w.planBy(1, pb.Phase_OPEN)
		w.succeed(0) // again, in a later session
		w.refuse(w.user(1), "k", 1, "sold_out")
		w.buy(w.user(0), "k", 1)
		w.buy(w.user(1), "k", 1)
	}, "refusals"},
	"sold out before there is an owner": {emptyWorld, func(w *world) {
		w.plan(3, 0, pb.Phase_OPEN)
		w.refuse(w.user(0), "k", 1, "sold_out")
	}, "refusals"},
	"sold out of all but a shard that has not begun": {emptyWorld, func(w *world) {
		w.declare(3, 0, pb.Phase_OPEN)
		w.take(0)
		w.append(0, func(d *ledger.Draft) { d.Own("executor-0") })
		w.buy(w.user(0), "k", 2)
		w.buy(w.user(0), "k", 1)
		w.refuse(w.user(0), "k", 1, "sold_out")
	}, "refusals"},
	"sold out of what the owner knew of, long after new units came": {almostSoldOut, func(w *world) {
		w.planOn(0)
		w.at += grace - 5*time.Millisecond
		w.buy(w.user(1), "k", 1)
		w.refuse(w.user(1), "k", 1, "sold_out")
	}, "refusals"},
	"sold out when the owner knew of new units on another shard": {almostSoldOut, func(w *world) {
		w.planOn(0)
		w.append(0, func(d *ledger.Draft) { d.Own("executor-0") })
		w.buy(w.user(1), "k", 1)
		w.refuse(w.user(1), "k", 1, "sold_out")
	}, "refusals"},
	"sold out after new units came, and something else before": {open, func(w *world) {
		w.append(0, func(d *ledger.Draft) { d.Own("executor-0") })
		w.plan(1, 0, pb.Phase_OPEN)
		w.refuse(w.user(0), "k", 1, "sold_out")
		w.buy(w.user(0), "k", 1)
		w.buy(w.user(1), "k", 1)
	}, "refusals"},
	"paused before there is an owner": {emptyWorld, func(w *world) {
		w.plan(3, 0, pb.Phase_OPEN)
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused just so long after the resume": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plan(0, 0, pb.Phase_OPEN)
		w.at += grace - 3*time.Millisecond
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused when an owner of long ago knew of the resume": {newWorld, func(w *world) {
		w.succeed(0)
		w.at += grace
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plan(0, 0, pb.Phase_OPEN)
		w.refuse(w.user(0), "k", 1, "paused")
		w.buy(w.user(0), "k", 1)
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused just so long after a takeover": {newWorld, func(w *world) {
		w.succeed(0)
		w.plan(0, 0, pb.Phase_PAUSED)
		w.at += grace - 12*time.Millisecond
		w.plan(0, 0, pb.Phase_OPEN)
		w.buy(w.user(0), "k", 1)
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused in a run of which no shard is known": {newWorld, func(w *world) {
		w.refuse(w.user(0), "k", 1, "paused")
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Shards = nil })
	}, "decode"},
	"paused in the run before the last": {newWorld, func(w *world) {
		w.refuse(w.user(0), "k", 1, "paused")
		twice(w)
	}, "refusals"},
	"paused in the last run": {newWorld, func(w *world) {
		twice(w)
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused in a run just so long after the last": {newWorld, func(w *world) {
		w.at = w.follow() + linger - time.Millisecond
		w.refuse(w.user(0), "k", 1, "paused")
	}, "refusals"},
	"paused in a run begun before the last was sealed": {newWorld, func(w *world) {
		twice(w)
		w.refuse(w.user(0), "k", 1, "paused")
		w.change(isSealed, func(_ *pb.Commit, op *pb.Op) { op.Op = &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}} })
	}, "ending"},
	"none now though units have come from another shard": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 2)
		w.buy(w.user(0), "k", 1)
		w.move(1, 0, 1)
		w.refuse(w.user(0), "k", 1, "none_now")
	}, "refusals"},
	"none now for as many as there are": {newWorld, func(w *world) { w.refuse(w.user(0), "k", 3, "none_now") }, "refusals"},
	"paused though only the list has none": {withAckLedger, func(w *world) {
		op := w.invoke(w.user(0), "k", 1)
		w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 0)
		w.answer(op, Answer{Outcome: "paused"})
	}, "refusals"},
	"the limit of a user for another's units": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 2)
		w.refuse(w.user(0), "k", 1, "limit_reached")
	}, "refusals"},
	"the limit of a user who has something later": {newWorld, func(w *world) {
		a := w.user(0)
		w.refuse(a, "k", 1, "limit_reached")
		w.buy(a, "k", 2)
	}, "refusals"},
	"the limit of a user for units of the run before": {newWorld, func(w *world) {
		user, _ := twice(w)
		w.refuse(user, "l", 2, "limit_reached")
	}, "refusals"},
	"the limit of a user for a claim that is there twice": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plantOp(claimOf(a, "k", 2))
		w.refuse(a, "l", 1, "limit_reached")
	}, "identities refusals"},
	"the limit of a user for what a node gave another": {withAckRedis, func(w *world) {
		w.early(w.user(0), "k", 1)
		w.refuse(w.user(0), "k", 1, "limit_reached")
	}, "answers refusals"},
	"the limit of a user for what a node gives later": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.refuse(a, "k", 1, "limit_reached")
		w.drain(w.early(a, "k", 1))
	}, "refusals"},
	"the limit of a user for what a node gave and did not tell": {withAckLedger, func(w *world) {
		a := w.user(0)
		w.give(a, "k", 1)
		w.refuse(a, "l", 1, "limit_reached")
	}, "refusals"},
	"the limit of a user for what a node gave in the run before": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.drain(w.early(a, "k", 1))
		w.rest()
		w.another()
		w.fill()
		w.refuse(a, "l", 1, "limit_reached")
	}, "refusals"},
	"a key reused that is used otherwise later": {newWorld, func(w *world) {
		a := w.user(0)
		w.refuse(a, "k", 1, "key_reused")
		w.buy(a, "k", 2)
	}, "refusals"},
	"a key reused with what it was used for": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.refuse(a, "k", 1, "key_reused")
	}, "refusals"},
	"a key reused, of another user": {newWorld, func(w *world) {
		w.buy(w.user(0), "k", 2)
		w.refuse(w.user(0), "k", 1, "key_reused")
	}, "refusals"},
	"a key reused, another of the user's": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "l", 2)
		w.refuse(a, "k", 1, "key_reused")
	}, "refusals"},
	"a key reused by a keyless request": {newWorld, func(w *world) {
		a := w.user(0)
		w.asks(claimOf(a, "", 1))
		w.refuse(a, "", 2, "key_reused")
	}, "refusals"},
	"a bad request that is just good": {newWorld, func(w *world) {
		w.refuse(strings.Repeat("u", 255), strings.Repeat("k", 255), 1000, "bad_request")
	}, "refusals"},
	"none now while there are units": {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "none_now") }, "refusals"},
	"the limit of a user who has nothing": {newWorld, func(w *world) {
		w.refuse(w.user(0), "k", 2, "limit_reached")
	}, "refusals"},
	"paused while open":          {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "paused") }, "refusals"},
	"closed while open":          {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "closed") }, "refusals"},
	"a key reused that is new":   {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "key_reused") }, "refusals"},
	"a bad request that is good": {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "bad_request") }, "refusals"},
	"an outcome unheard of":      {newWorld, func(w *world) { w.refuse(w.user(0), "k", 1, "perhaps") }, "refusals"},
	"a read that has forgotten": {open, func(w *world) {
		w.event(func(e *Event) bool { return e.Kind == ReadReturned }).Answer.Claims = nil
	}, "linear"},
	"a refusal of what was accepted before": {open, func(w *world) {
		w.event(func(e *Event) bool { return e.Answer.Replayed }).Answer = Answer{Outcome: "none_now"}
	}, "refusals linear"},
	"two reads of which the later knows less": {newWorld, func(w *world) {
		a := w.user(0)
		op := w.invoke(a, "k", 1)
		w.store(a, "k", 1)
		w.read(a)
		w.read(a)
		w.h.Events[len(w.h.Events)-1].Answer.Claims = nil
		w.answer(op, Answer{Outcome: "unknown"})
	}, "linear"},
	"a read that misses a claim, after another that is there twice": {newWorld, func(w *world) {
		a, b := w.user(1), w.user(0)
		w.buy(b, "k", 1)
		w.plantOp(claimOf(b, "k", 2))
		w.buy(a, "k", 1)
		w.readAs(a, Answer{})
	}, "identities linear"},
	"a read of what is there twice": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plantOp(claimOf(a, "k", 3))
		w.asks(claimOf(a, "l", 2))
		w.readAs(a, Answer{Claims: append(w.claims(a), Claim{ID: "0-4-0", User: a, Units: []int64{2}})})
	}, "identities"},
	"a read that has forgotten what was told before its repetition": {newWorld, func(w *world) {
		a := w.user(0)
		late, op := w.invoke(a, "k", 1), w.invoke(a, "k", 1)
		sold := Answer{Outcome: "sold", Claim: w.store(a, "k", 1)}
		w.answer(op, sold)
		w.readAs(a, Answer{})
		sold.Replayed = true
		w.answer(late, sold)
	}, "linear"},
	"a read of a list that has forgotten what was repeated": {withAckRedis, func(w *world) {
		a := w.user(0)
		sold := Answer{Outcome: "sold", Claim: w.drain(w.early(a, "k", 1)), Replayed: true}
		w.at += grace // until then its node may have told what the shard's owner had not heard
		w.answer(w.invoke(a, "k", 1), sold)
		w.readAs(a, Answer{})
	}, "linear"},
	"a read of a list that has forgotten what was read": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.drain(w.early(a, "k", 1))
		w.read(a)
		w.readAs(a, Answer{})
	}, "linear"},
	"a user at the limit who is told of no claims": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 2)
		w.answer(w.invoke(a, "l", 1), Answer{Outcome: "limit_reached"})
	}, "linear"},
	"a user at the limit who is told of no claims, and how many there are": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 2)
		w.answer(w.invoke(a, "l", 1), Answer{Outcome: "limit_reached", Count: 1})
	}, "linear"},
	"a user at the limit who is told of more claims than are counted": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 2)
		w.answer(w.invoke(a, "l", 1), Answer{Outcome: "limit_reached", Claims: w.claims(a)})
	}, "linear"},
	"a read of a claim too many": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.readAs(a, Answer{Claims: append(w.claims(a), Claim{ID: "0-99-0", User: a, Units: []int64{2}})})
	}, "answers linear"},
	"a claim that is answered with nothing": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.refuse(a, "l", 1, "")
	}, "refusals"},
	"sold out for what was accepted before": {open, func(w *world) {
		w.event(func(e *Event) bool { return e.Answer.Replayed }).Answer = Answer{Outcome: "sold_out"}
	}, "refusals linear"},
	"paused for what was accepted before": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plan(0, 0, pb.Phase_PAUSED)
		w.refuse(a, "k", 1, "paused")
	}, "linear"},
	"closed for what was accepted before, and sealed later": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.plan(0, 0, pb.Phase_CLOSED)
		w.refuse(a, "k", 1, "closed")
		w.append(0, func(d *ledger.Draft) { d.Seal() })
	}, "linear"},
	"somebody who waits for ever": {open, func(w *world) { w.h.Final.Vanished = nil }, "progress"},
	"units unsold":                {newWorld, func(w *world) { w.h.Final = Final{Rested: true, Demanded: true} }, "progress"},
	"an Ack lost": {open, func(w *world) {
		w.h.Logs[w.log(0)] = slices.DeleteFunc(w.h.Logs[w.log(0)], func(e Entry) bool {
			c := new(pb.Commit)
			return proto.Unmarshal(e.Bytes, c) == nil && len(c.GetOps()) > 0 && c.GetOps()[0].GetAck() != nil
		})
		for i := range w.h.Logs[w.log(0)] {
			w.h.Logs[w.log(0)][i].Slot = uint64(i)
		}
		w.rewrite(w.log(0), func(int, *pb.Commit) {})
	}, "progress"},
}
