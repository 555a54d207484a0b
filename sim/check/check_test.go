package check

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

func (r reader) Read(_ context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	var head []byte
	var entries [][]byte
	for _, e := range r.w.h.Logs[log] {
		head = e.Head
		if e.Slot >= from && len(entries) < max {
			entries = append(entries, e.Bytes)
		}
	}
	return head, entries, nil
}

func TestGoodHistoriesPass(t *testing.T) {
	for name, w := range map[string]*world{"open": open(t), "ended": ended(t), "empty": {h: &History{Sale: "tickets"}}} {
		for _, p := range Check(w.h) {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// What looks like a fault and is none.
func TestTolerated(t *testing.T) {
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"a claim after a pause that a resume overlaps": {newWorld, func(w *world) {
			w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
			resume := w.begin("resume")
			w.command("pause", func() { w.plan(0, 0, pb.Phase_OPEN) })
			w.buy(w.user(0), "k", 1)
			w.end(resume)
		}},
		"a claim after a pause that a killed resume overlaps": {newWorld, func(w *world) {
			w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
			w.begin("resume")
			w.command("pause", func() { w.declare(0, 0, pb.Phase_OPEN) })
			w.complete()
			w.buy(w.user(0), "k", 1)
		}},
		"a claim under an apply after a pause that a resume overlaps": {newWorld, func(w *world) {
			w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
			resume := w.begin("resume")
			w.command("pause", func() { w.plan(0, 0, pb.Phase_OPEN) })
			w.end(resume)
			w.command("apply", func() { w.plan(1, 0, pb.Phase_OPEN) })
			w.buy(w.user(0), "k", 1)
		}},
		"a claim that looks like one of the run before": {newWorld, func(w *world) {
			user, old := twice(w)
			w.buy(user, "l", 1)
			w.read(user)
			if now := w.claims(user)[0]; now.ID != old.ID || !slices.Equal(now.Units, old.Units) {
				w.t.Fatalf("it is %+v, that of the run before was %+v", now, old)
			}
		}},
		"sold out just when new units came": {open, func(w *world) {
			w.planBy(1, pb.Phase_OPEN)
			w.refuse(w.user(1), "k", 1, "sold_out")
			w.buy(w.user(0), "k", 1)
			w.buy(w.user(1), "k", 1)
		}},
		"sold out while new units came": {open, func(w *world) {
			w.append(0, func(d *ledger.Draft) { d.Own("executor-0") })
			op := w.invoke(w.user(0), "k", 1)
			w.plan(1, 0, pb.Phase_OPEN)
			w.answer(op, Answer{Outcome: "sold_out"})
			w.buy(w.user(0), "k", 1)
			w.buy(w.user(1), "k", 1)
		}},
		"sold out while the owner heard of new units": {open, func(w *world) {
			w.planBy(1, pb.Phase_OPEN)
			op := w.invoke(w.user(1), "k", 1)
			w.buy(w.user(0), "k", 1)
			w.answer(op, Answer{Outcome: "sold_out"})
			w.buy(w.user(1), "k", 1)
		}},
		"sold out just when new units and another generation came": {open, func(w *world) {
			w.planBy(1, pb.Phase_OPEN)
			w.planBy(0, pb.Phase_OPEN)
			w.refuse(w.user(1), "k", 1, "sold_out")
			w.buy(w.user(0), "k", 1)
			w.buy(w.user(1), "k", 1)
		}},
		"sold out by the owner before, who stood still while new units came and the next one took over": {open, func(w *world) {
			w.planBy(1, pb.Phase_OPEN)
			w.succeed(0)
			w.succeed(1)
			w.refuse(w.user(1), "k", 1, "sold_out")
			w.buy(w.user(0), "k", 1)
			w.buy(w.user(1), "k", 1)
		}},
		"sold out of what the owner knew of, new units on another shard": {almostSoldOut, func(w *world) {
			w.planOn(0)
			w.at += grace - 6*time.Millisecond
			w.buy(w.user(1), "k", 1)
			w.refuse(w.user(1), "k", 1, "sold_out")
		}},
		"sold out of what the owner knew of, by a claim that another drained": {withAckLedger, func(w *world) {
			for unit := range int64(5) {
				w.grab(w.user(int(unit/3)), "k", 1+unit)
			}
			w.planOn(0)
			w.writer = planner
			w.grab(w.user(1), "k", 6)
			w.refuse(w.user(1), "k", 1, "sold_out")
		}},
		"none now before the shard has its units": {emptyWorld, func(w *world) {
			w.declare(3, 0, pb.Phase_OPEN)
			w.refuse(w.user(0), "k", 1, "none_now")
			w.complete()
		}},
		"paused for a moment while it was asked": {newWorld, func(w *world) {
			op := w.invoke(w.user(0), "k", 1)
			w.plan(0, 0, pb.Phase_PAUSED)
			w.plan(0, 0, pb.Phase_OPEN)
			w.answer(op, Answer{Outcome: "paused"})
		}},
		"paused not yet long after the resume": {newWorld, func(w *world) {
			w.plan(0, 0, pb.Phase_PAUSED)
			w.plan(0, 0, pb.Phase_OPEN)
			w.at += grace - 4*time.Millisecond
			w.refuse(w.user(0), "k", 1, "paused")
		}},
		"paused just after a planner's resume and another generation": {newWorld, func(w *world) {
			w.plan(0, 0, pb.Phase_PAUSED)
			w.planBy(0, pb.Phase_OPEN)
			w.planBy(0, pb.Phase_OPEN)
			w.refuse(w.user(0), "k", 1, "paused")
		}},
		"paused by the owner before, after a resume and a claim of the next one": {newWorld, func(w *world) {
			w.succeed(0)
			w.plan(0, 0, pb.Phase_PAUSED)
			w.at += grace - 13*time.Millisecond
			w.plan(0, 0, pb.Phase_OPEN)
			w.buy(w.user(0), "k", 1)
			w.refuse(w.user(0), "k", 1, "paused")
		}},
		"paused at the turn of two runs": {newWorld, func(w *world) {
			w.close()
			w.at += 2 * linger
			op := w.invoke(w.user(0), "k", 1)
			w.begins("fedcba9876543210")
			w.serve()
			w.answer(op, Answer{Outcome: "paused"})
		}},
		"paused by who lingers in the run before": {newWorld, func(w *world) {
			w.at = w.follow() + linger - 2*time.Millisecond
			w.refuse(w.user(0), "k", 1, "paused")
		}},
		"bad requests": {newWorld, func(w *world) {
			w.refuse("", "k", 1, "bad_request")
			w.refuse(strings.Repeat("u", 256), "k", 1, "bad_request")
			w.refuse(w.user(0), strings.Repeat("k", 256), 1, "bad_request")
			w.refuse(w.user(0), "k", 1001, "bad_request")
		}},
		"paused just after the resume": {newWorld, func(w *world) {
			w.plan(0, 0, pb.Phase_PAUSED)
			w.plan(0, 0, pb.Phase_OPEN)
			w.refuse(w.user(0), "k", 1, "paused")
		}},
		"paused just after a planner's resume": {newWorld, func(w *world) {
			w.plan(0, 0, pb.Phase_PAUSED)
			w.planBy(0, pb.Phase_OPEN)
			w.refuse(w.user(0), "k", 1, "paused")
		}},
		"an apply of what was declared a moment ago": {withAckLedger, func(w *world) {
			w.raise(7)
			w.as("apply", 6, func() {})
		}},
		"an apply whose phase was set otherwise a moment ago": {newWorld, func(w *world) {
			w.plan(0, 0, pb.Phase_PAUSED)
			w.plan(0, 0, pb.Phase_OPEN)
			w.phased("paused", 0, func() {})
			w.buy(w.user(0), "k", 1)
		}},
		"an apply that pauses": {newWorld, func(w *world) {
			w.phased("paused", 0, func() { w.plan(0, 0, pb.Phase_PAUSED) })
			w.plan(0, 0, pb.Phase_OPEN)
			w.buy(w.user(0), "k", 1)
		}},
		"an apply to a closed sale": {withAckLedger, func(w *world) {
			w.plan(0, 0, pb.Phase_CLOSED)
			w.at += grace
			w.as("apply", 7, func() {})
		}},
		"an apply that failed": {withAckLedger, func(w *world) {
			w.as("apply", 7, func() {})
			w.h.Events[len(w.h.Events)-1].Err = "stale"
		}},
		"a destroy": {newWorld, func(w *world) {
			w.as("destroy", 0, func() { w.declare(0, 0, pb.Phase_CLOSED) })
		}},
		"another's plan": {newWorld, func(w *world) { w.command("pause", func() { w.declare(0, 0, pb.Phase_PAUSED) }) }},
		"a key denied by a process that knows nothing of it": {newWorld, func(w *world) {
			w.denied("executor-0, run 1", "executor-1, run 1", "", "standby", false)
		}},
		"a key denied that was denied before, and sold when asked again": {newWorld, func(w *world) {
			w.denied("executor-0, run 1", "executor-0, run 1", "overloaded", "overloaded", true)
		}},
		"a key denied, and perhaps sold when asked again": {newWorld, func(w *world) {
			w.denied("executor-0, run 1", "executor-0, run 1", "unknown", "no_quorum", true)
		}},
		"a key denied of which unknown was said, and then what it got": {withAckRedis, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-0, run 1")("unknown")
			w.received(user, "executor-0, run 1")("sold")
			w.received(user, "executor-0, run 1")("standby")
			w.drain(w.give(user, "k", 1))
		}},
		"a key denied that is under way elsewhere": {newWorld, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-1, run 1")("unknown")
			w.received(user, "executor-0, run 1")
			w.received(user, "executor-0, run 1")("no_quorum")
			w.store(user, "k", 1)
		}},
		"a key of which unknown is said": {newWorld, func(w *world) {
			w.denied("executor-0, run 1", "executor-0, run 1", "", "unknown", false)
		}},
		"a key denied that another process had under way and sold": {newWorld, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-0, run 1")
			w.received(user, "executor-1, run 1")("unknown")
			w.received(user, "executor-1, run 1")("standby")
			w.store(user, "k", 1)
		}},
		"a key of a list denied that another process had under way": {withAckLedger, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-1, run 1")("unknown")
			w.received(user, "executor-0, run 1")("unknown")
			w.received(user, "executor-0, run 1")("no_quorum")
			w.drain(w.give(user, "k", 1))
		}},
		"a key of a list denied that a process which was killed had under way": {withAckLedger, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-1, run 1")
			w.received(user, "executor-0, run 1")("unknown")
			w.received(user, "executor-0, run 1")("no_quorum")
			w.drain(w.give(user, "k", 1))
		}},
		"a key denied twice that the run of the process before had under way": {newWorld, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-0, run 1")
			w.received(user, "executor-0, run 2")("standby")
			w.received(user, "executor-0, run 2")("standby")
			w.store(user, "k", 1)
		}},
		"a key denied for a quantity that was not sold": {newWorld, func(w *world) {
			user := w.user(0)
			w.h.RequestReceived(w.pass(), w.invoke(user, "k", 1), "executor-0, run 1")
			two := func() func(api.Outcome) {
				return w.h.RequestReceived(w.pass(), w.invoke(user, "k", 2), "executor-0, run 1")
			}
			two()("unknown")
			two()("closed")
			w.store(user, "k", 1)
		}},
		"a key denied when it is sold": {newWorld, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-0, run 1")
			denied := w.received(user, "executor-0, run 1")
			w.store(user, "k", 1)
			denied("no_quorum")
		}},
		"a key under way twice, and never answered": {newWorld, func(w *world) {
			user := w.user(0)
			w.received(user, "executor-0, run 1")("unknown")
			w.received(user, "executor-0, run 1")
			w.store(user, "k", 1)
		}},
		"a request that nobody answered": {newWorld, func(w *world) {
			a := w.user(0)
			w.invoke(a, "", 1)
			w.store(a, "", 1)
			w.answer(w.invoke(w.user(0), "k", 1), Answer{Outcome: Lost})
			w.h.Record(w.pass(), Event{Kind: ReadInvoked, Op: w.h.Op(), User: a})
		}},
		"a read that was refused": {newWorld, func(w *world) {
			a := w.user(0)
			w.buy(a, "k", 1)
			w.readAs(a, Answer{Outcome: "no_quorum"})
		}},
		"a read that lacks a claim of which nobody was told": {newWorld, func(w *world) {
			a := w.user(0)
			w.answer(w.invoke(a, "k", 1), Answer{Outcome: "unknown"})
			w.store(a, "k", 1)
			w.readAs(a, Answer{})
		}},
		"a read of two claims": {newWorld, func(w *world) {
			a := w.user(0)
			w.buy(a, "k", 1)
			w.buy(a, "l", 1)
			w.read(a)
		}},
		"paused for another key than was accepted": {newWorld, func(w *world) {
			a := w.user(0)
			w.buy(a, "k", 1)
			w.plan(0, 0, pb.Phase_PAUSED)
			w.refuse(a, "l", 1, "paused")
		}},
		"closed for what was accepted before, when a shard is sealed": {newWorld, func(w *world) {
			a := w.user(0)
			w.buy(a, "k", 1)
			w.plan(0, 0, pb.Phase_CLOSED)
			w.append(1, func(d *ledger.Draft) { d.Seal() })
			w.refuse(a, "k", 1, "closed")
		}},
		"leases one after another": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 2)
			w.holds("executor-1, run 1", testUID, 2, 5)
			w.holds("executor-0, run 1", testUID, 5, 6)
		}},
		"leases that were given back": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.h.Freed(1*time.Second, "executor-0, run 1", 0, aToken)
			w.holds("executor-1, run 1", testUID, 1, 5)
		}},
		"leases that were given back, by a process that never had any": {newWorld, func(w *world) {
			w.h.Freed(1*time.Second, "executor-0, run 1", 0, aToken)
		}},
		"leases that were given back, while another has those of another run": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.holds("executor-1, run 1", "fedcba9876543210", 0, 3)
			w.h.Freed(1*time.Second, "executor-0, run 1", 0, aToken)
			w.holds("executor-2, run 1", testUID, 2, 5)
		}},
		"leases that were renewed and given back": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 4)
			w.holds("executor-0, run 1", testUID, 1, 6)
			w.h.Freed(2*time.Second, "executor-0, run 1", 0, aToken)
			w.holds("executor-1, run 1", testUID, 3, 5)
		}},
		"leases of the next run, of a process that had those of the last": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.holds("executor-0, run 1", "fedcba9876543210", 1, 6)
			w.holds("executor-1, run 1", testUID, 4, 5)
		}},
		"leases of two shards": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.h.Holds(1*time.Second, "executor-1, run 1", testUID, 1, aToken, 4*time.Second)
		}},
		"leases in doubt": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.h.Doubted(1*time.Second, 4*time.Second)
			w.holds("executor-1, run 1", testUID, 2, 5)
		}},
		"leases of two runs": {newWorld, func(w *world) {
			w.holds("executor-0, run 1", testUID, 0, 3)
			w.holds("executor-1, run 1", "fedcba9876543210", 2, 5)
		}},
		"leases that destroy took away": {ended, func(w *world) {
			w.holds("executor-0, run 1", testUID, 1, 4)
			w.holds("executor-1, run 1", testUID, 2, 5)
		}},
		"a late create": {grown, func(w *world) { w.late(0, 1, func(*pb.Commit) {}) }},
		"a late create of a run before the last": {newWorld, func(w *world) {
			first := w.log(0)
			create := w.h.Logs[first][0]
			w.another()
			w.stored(first, 0, create.Bytes, nil)
			w.close()
		}},
		"a late create, and a destroy that was killed": {grown, func(w *world) {
			w.late(0, 1, func(*pb.Commit) {})
			w.begin("destroy")
		}},
		"a late create, and another command": {grown, func(w *world) {
			w.late(0, 1, func(*pb.Commit) {})
			w.command("apply", func() {})
		}},
		"keys left by a plan that came to nothing": {emptyWorld, func(w *world) { w.h.Final.Keys = []string{"salectl:x:marker"} }},
		"keys left by a sale that goes on": {newWorld, func(w *world) {
			w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
			w.h.Final.Keys = []string{"salectl:x:marker"}
		}},
		"keys left by a destroy that was killed": {ended, func(w *world) {
			w.h.Final.Vanished = map[int]bool{w.begin("destroy"): true}
			w.h.Final.Keys = []string{"salectl:x:marker"}
		}},
		"two runs that were destroyed": {newWorld, func(w *world) {
			twice(w)
			w.close()
			w.h.Final.Rested = true
		}},
		"a pause that overlaps the making of the sale": {emptyWorld, func(w *world) {
			pause := w.begin("pause")
			w.serve()
			w.end(pause)
			w.buy(w.user(0), "k", 1)
		}},
		"a number that no operation has": {newWorld, func(w *world) {
			w.h.Op()
			w.buy(w.user(0), "k", 1)
		}},
		"an owner whose clock is behind": {newWorld, func(w *world) {
			w.h.Begin, w.off = time.Time{}, time.Hour
			w.buy(w.user(0), "k", 1)
			w.plant(0, &pb.Commit{Writer: writer, Epoch: 2}, &pb.Op{Op: &pb.Op_Own{Own: new(pb.Own)}})
		}},
		"units that were held and have expired, sold again": {newWorld, func(w *world) {
			a := w.user(0)
			w.hold(a, "k", 2, pb.Settle_EXPIRE)
			w.off = time.Second
			w.buy(a, "l", 2)
			w.buy(w.user(0), "k", 1)
		}},
		"an expiry just at the deadline":    {newWorld, func(w *world) { w.settle(w.held(0), pb.Settle_EXPIRE) }},
		"a cancellation after the deadline": {newWorld, func(w *world) { w.settle(w.held(time.Second), pb.Settle_CANCEL) }},
		"a claim cancelled, and then expired": {newWorld, func(w *world) {
			slot := w.held(time.Second)
			w.settle(slot, pb.Settle_CANCEL)
			w.settle(slot, pb.Settle_EXPIRE)
		}},
		"a claim confirmed, and then expired": {newWorld, func(w *world) {
			slot := w.held(-time.Millisecond)
			w.settle(slot, pb.Settle_CONFIRM)
			w.at += time.Second
			w.settle(slot, pb.Settle_EXPIRE)
		}},
		"two transfers one after another": {newWorld, func(w *world) {
			w.move(0, 1, 1)
			w.move(0, 1, 1)
		}},
		"a late create and the next append": {grown, func(w *world) { w.late(0, 2, func(*pb.Commit) {}) }},
		"a late create, and a planner that fills its list": {grown, func(w *world) {
			w.late(0, 2, func(c *pb.Commit) { c.Ops = []*pb.Op{{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: 1}}}} })
		}},
		"a late create and the next append, by another planner": {grown, func(w *world) {
			w.late(0, 2, func(c *pb.Commit) { c.Writer = []byte("planner2") })
		}},
		"a late create, and an owner's first append, sent before the delete": {grown, func(w *world) {
			w.late(0, 2, func(c *pb.Commit) { c.Ops = []*pb.Op{{Op: &pb.Op_Own{Own: new(pb.Own)}}} })
			entries := w.h.Logs[w.log(0)]
			entries[len(entries)-1].Sent = 0
		}},
		"late appends that were stored before": {ended, func(w *world) { w.late(0, 5, func(*pb.Commit) {}) }},
		"a late create that a destroy found": {grown, func(w *world) {
			w.late(0, 2, func(*pb.Commit) {})
			w.command("destroy", func() { w.h.Deleted(w.pass(), w.log(0), 1) })
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

// rewrite changes the commits of a log, and has them hash and decode again.
func (w *world) rewrite(log string, change func(slot int, c *pb.Commit)) {
	w.t.Helper()
	prev := sha256.Sum256([]byte(log))
	for i := range w.h.Logs[log] {
		e := &w.h.Logs[log][i]
		c := new(pb.Commit)
		if err := proto.Unmarshal(e.Bytes, c); err != nil {
			w.t.Fatal(err)
		}
		change(i, c)
		c.Prev = prev[:]
		stored, err := proto.Marshal(c)
		if err != nil {
			w.t.Fatal(err)
		}
		e.Bytes, e.Head = stored, nil
		prev = sha256.Sum256(stored)
	}
}

// change changes the first op for which found says yes, in the sale's log or the
// shards'.
func (w *world) change(found func(*pb.Op) bool, change func(c *pb.Commit, op *pb.Op)) {
	w.t.Helper()
	done := false
	for _, log := range []string{"sale/tickets", w.log(0), w.log(1)} {
		w.rewrite(log, func(_ int, c *pb.Commit) {
			for _, op := range c.GetOps() {
				if !done && found(op) {
					done = true
					change(c, op)
				}
			}
		})
	}
	if !done {
		w.t.Fatal("there is no such op")
	}
}

func claimOp(key string) func(*pb.Op) bool {
	return func(op *pb.Op) bool { return string(op.GetClaim().GetKey()) == key }
}

// plant appends a commit to a shard, as no ledger would.
func (w *world) plant(shard int, c *pb.Commit, ops ...*pb.Op) {
	w.t.Helper()
	entries := w.h.Logs[w.log(shard)]
	prev := sha256.Sum256(entries[len(entries)-1].Bytes)
	c.Prev, c.Ops = prev[:], ops
	c.TimeUs = w.at.Microseconds()
	if c.Writer == nil {
		c.Writer, c.Epoch = writer, 1
	}
	stored, err := proto.Marshal(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.stored(w.log(shard), uint64(len(entries)), stored, nil)
}

func claimOf(user, key string, units ...int64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: user, Key: []byte(key), Units: units}}}
}

// event returns the first event for which found says yes.
func (w *world) event(found func(*Event) bool) *Event {
	w.t.Helper()
	for i := range w.h.Events {
		if found(&w.h.Events[i]) {
			return &w.h.Events[i]
		}
	}
	w.t.Fatal("there is no such event")
	return nil
}

// answered returns the first answer with an outcome.
func (w *world) answered(outcome api.Outcome) *Event {
	return w.event(func(e *Event) bool { return e.Kind == ClaimReturned && e.Answer.Outcome == outcome })
}

type planted struct {
	from func(testing.TB) *world
	do   func(w *world)
	want string
}

func TestPlantedFaults(t *testing.T) {
	reported := make(map[string]bool)
	for name, f := range plantedFaults() {
		t.Run(name, func(t *testing.T) {
			w := f.from(t)
			f.do(w)
			problems := Check(w.h)
			var got []string
			for _, p := range problems {
				reported[p.Checker] = true
				if !slices.Contains(got, p.Checker) {
					got = append(got, p.Checker)
				}
			}
			if want := strings.Fields(f.want); !slices.Equal(got, want) {
				t.Errorf("reported by %q, want %q", got, want)
				for _, p := range problems {
					t.Log(p)
				}
			}
		})
	}
	for _, name := range Names() {
		if !reported[name] {
			t.Errorf("no fault here is reported by the checker %s", name)
		}
	}
}

// A soak checks 150 histories a second beside all else that it does.
func BenchmarkCheck(b *testing.B) {
	w := newWorld(b)
	w.plan(300, 0, pb.Phase_OPEN)
	for range 100 {
		a := w.user(w.users % shards)
		w.buy(a, "k", 1)
		w.read(a)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: w.claims(a)[0], Replayed: true})
		w.buy(a, "l", 1)
	}
	for range 40 {
		w.move(0, 1, 1)
	}
	if p := Check(w.h); len(p) > 0 {
		b.Fatal(p)
	}
	b.ReportMetric(float64(len(w.h.Events)/2), "operations")
	b.ReportMetric(float64(len(w.h.Logs[w.log(0)])+len(w.h.Logs[w.log(1)])), "slots")
	for b.Loop() {
		Check(w.h)
	}
}
