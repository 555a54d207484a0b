package check

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// plantInSale appends to the sale's log, as no ledger would.
func (w *world) plantInSale(op *pb.Op) {
	w.t.Helper()
	log := "sale/tickets"
	entries := w.h.Logs[log]
	prev := sha256.Sum256(entries[len(entries)-1].Bytes)
	stored, err := proto.Marshal(&pb.Commit{Writer: planner, TimeUs: w.at.Microseconds(), Prev: prev[:], Ops: []*pb.Op{op}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.stored(log, uint64(len(entries)), stored, nil)
}

// planned plants a generation that changes the phase and nothing else.
func (w *world) planned(generation uint64, phase pb.Phase) {
	w.plantInSale(&pb.Op{Op: &pb.Op_Planned{Planned: &pb.Planned{
		Generation: generation, Uid: w.uid, Run: w.run, Settings: &pb.Settings{PerUserLimit: 2, Phase: phase},
		Shards: make([]*pb.ShardChange, shards), NextUnit: w.next,
	}}})
}

// plantOp appends one op of the owner to shard 0.
func (w *world) plantOp(op *pb.Op) { w.plant(0, new(pb.Commit), op) }

func outOp(k uint64, units ...*pb.Range) *pb.Op {
	return &pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: 1, K: k, Units: units}}}
}

// noOp is an Ack that says nothing new.
func noOp() *pb.Op { return &pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: 1}}} }

// asks plants the claim of a request that was sent.
func (w *world) asks(op *pb.Op) {
	w.invoke(op.GetClaim().GetUser(), string(op.GetClaim().GetKey()), int64(len(op.GetClaim().GetUnits())))
	w.plantOp(op)
}

// as is a command of the planner.
func (w *world) as(name string, stock int64, do func()) {
	op := w.begin(name)
	e := &w.h.Events[len(w.h.Events)-1]
	e.Stock, e.Writer = stock, string(planner)
	do()
	w.end(op)
}

// raise declares another stock.
func (w *world) raise(stock int64) {
	w.listed.Stock = stock
	w.plan(0, 0, pb.Phase_OPEN)
}

// phased is an apply whose file declares a phase.
func (w *world) phased(phase string, stock int64, do func()) {
	op := w.begin("apply")
	e := &w.h.Events[len(w.h.Events)-1]
	e.Stock, e.Phase, e.Writer = stock, phase, string(planner)
	do()
	w.end(op)
}

// denied has one process asked for a key, and then another, which denies it; the
// claim is sold afterwards, to a third request if there is one. first is what the
// first is answered before that, "" if it still waits.
func (w *world) denied(one, another string, first, denial api.Outcome, again bool) {
	user := w.user(0)
	waits := w.invoke(user, "k", 1)
	answered := w.h.RequestReceived(w.pass(), waits, one)
	w.h.Broke(w.pass(), "executor-0")
	if first != "" {
		answered(first)
		w.answer(waits, Answer{Outcome: first})
	}
	op := w.invoke(user, "k", 1)
	w.h.RequestReceived(w.pass(), op, another)(denial)
	w.answer(op, Answer{Outcome: denial})
	if again {
		third := w.invoke(user, "k", 1)
		w.h.Broke(w.pass(), "executor-0")
		w.h.RequestReceived(w.pass(), third, one)("unknown")
		w.answer(third, Answer{Outcome: "unknown"})
	}
	sold := Answer{Outcome: "sold", Claim: w.store(user, "k", 1)}
	if first == "" {
		answered("sold")
		w.answer(waits, sold)
	}
}

// dealtOtherwise is dealt with other amounts.
func dealtOtherwise(change func(amounts []int64)) Deal {
	return func(declaration, seed []byte) (*Packets, error) {
		p, err := dealt(declaration, seed)
		if err == nil {
			change(p.Amounts)
		}
		return p, err
	}
}

func isSealed(op *pb.Op) bool { return op.GetSealed() != nil }

// reportFaults are what a single report of a checker tells of. TestEveryReportIsNeeded
// names a report that has none.
var reportFaults = map[string]planted{
	// units
	"an op of no kind": {newWorld, func(w *world) { w.plantOp(new(pb.Op)) }, "units"},
	"unit 0":           {newWorld, func(w *world) { w.asks(claimOf(w.user(0), "k", 0)) }, "units"},
	"a unit beyond all": {newWorld, func(w *world) {
		w.asks(claimOf(w.user(0), "k", maxUnit+1))
	}, "units"},
	"no units sent": {newWorld, func(w *world) { w.plantOp(outOp(1, &pb.Range{First: 1})) }, "units"},
	"units without end sent": {newWorld, func(w *world) {
		w.plantOp(outOp(1, &pb.Range{First: 1, Count: maxUnit + 1}))
	}, "units"},
	"the end of a claim that is not there": {newWorld, func(w *world) {
		w.plantOp(&pb.Op{Op: &pb.Op_Settle{Settle: &pb.Settle{Slot: 1}}})
	}, "units"},
	"a transfer left out": {newWorld, func(w *world) { w.plantOp(outOp(2, &pb.Range{First: 1, Count: 1})) }, "units"},
	"a transfer to the shard itself": {newWorld, func(w *world) {
		w.plantOp(&pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: 0, K: 1, Units: []*pb.Range{{First: 1, Count: 1}}}}})
	}, "units"},
	"a transfer to no shard": {newWorld, func(w *world) {
		w.plantOp(&pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: shards, K: 1, Units: []*pb.Range{{First: 1, Count: 1}}}}})
	}, "units"},
	"a transfer before the last was acknowledged": {newWorld, func(w *world) {
		w.append(0, func(d *ledger.Draft) { d.Out(1, 1) })
		w.plantOp(outOp(2, &pb.Range{First: 1, Count: 1}))
	}, "units"},
	"fewer units received than sent": {newWorld, func(w *world) {
		var sent ledger.Transfer
		w.append(0, func(d *ledger.Draft) { sent = d.Out(1, 2) })
		w.plant(1, new(pb.Commit), &pb.Op{Op: &pb.Op_In{In: &pb.In{From: 0, K: 1, Units: []*pb.Range{{First: sent.Units[0].First, Count: 1}}}}})
	}, "units"},

	// epochs and phases
	"an epoch to come":       {newWorld, func(w *world) { w.plant(0, &pb.Commit{Writer: writer, Epoch: 2}, noOp()) }, "epochs"},
	"units sent when closed": {newWorld, func(w *world) { w.plan(0, 0, pb.Phase_CLOSED); w.plantOp(outOp(1, &pb.Range{First: 1, Count: 1})) }, "phases"},
	"a seal while open":      {newWorld, func(w *world) { w.plantOp(&pb.Op{Op: &pb.Op_Seal{Seal: new(pb.Seal)}}) }, "phases"},

	// plans and generations
	"a run begun before the last was destroyed": {newWorld, func(w *world) {
		twice(w)
		w.change(func(op *pb.Op) bool { return op.GetDestroyed() != nil }, func(_ *pb.Commit, op *pb.Op) {
			op.Op = &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}
		})
	}, "plans"},
	"a run's number again": {newWorld, func(w *world) {
		twice(w)
		w.change(func(op *pb.Op) bool { return op.GetPlanned().GetRun() == 2 }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Run = 1 })
	}, "plans"},
	"a generation of a sealed run": {ended, func(w *world) { w.planned(3, pb.Phase_CLOSED) }, "plans"},
	"a closed sale opened":         {newWorld, func(w *world) { w.plan(0, 0, pb.Phase_CLOSED); w.planned(3, pb.Phase_OPEN) }, "plans"},
	"an op before the first generation": {newWorld, func(w *world) {
		w.rewrite(w.log(0), func(slot int, c *pb.Commit) {
			if slot == 0 {
				c.Ops = append([]*pb.Op{noOp()}, c.Ops...)
			}
		})
	}, "generations"},

	// ending and exports
	"destroyed before it is sealed": {open, func(w *world) {
		w.plantInSale(&pb.Op{Op: &pb.Op_Destroyed{Destroyed: new(pb.Destroyed)}})
	}, "ending remains"},
	"sealed twice": {ended, func(w *world) { w.change(isSealed, func(c *pb.Commit, op *pb.Op) { c.Ops = append(c.Ops, op) }) }, "ending"},
	"sealed with too few roots": {ended, func(w *world) {
		w.change(isSealed, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().Roots = op.GetSealed().Roots[:1] })
	}, "ending"},
	"sealed with too few slots": {ended, func(w *world) {
		w.change(isSealed, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().Slots = op.GetSealed().Slots[:1] })
	}, "ending"},
	"sealed with another slot":    {ended, func(w *world) { w.change(isSealed, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().Slots[0]++ }) }, "ending"},
	"sealed before a shard is":    {newWorld, sealedEarly, "ending"},
	"an export without a header":  {ended, func(w *world) { w.h.Exported(w.pass(), []byte("nothing")) }, "exports"},
	"an export of an unheard run": {ended, func(w *world) { w.h.Exported(w.pass(), []byte(`{"uid":"fedcba9876543210"}`)) }, "exports"},

	// answers, first and linear
	"sold at once and answered as held": {open, func(w *world) { w.answered("sold").Answer.Outcome = "held" }, "answers"},
	"two at once who are first": {newWorld, func(w *world) {
		a := w.user(0)
		one, two := w.invoke(a, "k", 1), w.invoke(a, "k", 1)
		c := w.store(a, "k", 1)
		w.answer(one, Answer{Outcome: "sold", Claim: c})
		w.answer(two, Answer{Outcome: "sold", Claim: c})
	}, "first"},
	"the first after it was stored": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		c := w.store(a, "k", 1)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: c})
	}, "first"},
	"claims in another order": {newWorld, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 1)
		w.buy(a, "l", 1)
		w.read(a)
		slices.Reverse(w.h.Events[len(w.h.Events)-1].Answer.Claims)
	}, "linear"},

	// commands
	"a pause whose plan is not applied": {newWorld, func(w *world) {
		w.as("pause", 0, func() { w.declare(0, 0, pb.Phase_PAUSED) })
	}, "commands"},
	"a pause whose plan is applied later": {newWorld, func(w *world) {
		w.as("pause", 0, func() { w.declare(0, 0, pb.Phase_PAUSED) })
		w.complete()
	}, "commands"},
	"an apply of what was never declared": {withAckLedger, func(w *world) {
		w.as("apply", 7, func() { w.plan(0, 0, pb.Phase_OPEN) })
	}, "commands"},
	"an apply of what was declared long ago": {withAckLedger, func(w *world) {
		w.raise(7)
		w.raise(8)
		w.raise(9)
		w.at += grace
		w.as("apply", 6, func() {})
	}, "commands"},
	"an apply of what is declared later": {withAckLedger, func(w *world) {
		w.as("apply", 7, func() {})
		w.raise(7)
	}, "commands"},

	"an apply whose phase was never in force": {newWorld, func(w *world) {
		w.phased("paused", 0, func() {})
	}, "commands"},
	"an apply whose phase was set otherwise long ago": {newWorld, func(w *world) {
		w.plan(0, 0, pb.Phase_PAUSED)
		w.plan(0, 0, pb.Phase_OPEN)
		w.plan(0, 0, pb.Phase_OPEN)
		w.plan(0, 0, pb.Phase_OPEN)
		w.at += grace
		w.phased("paused", 0, func() {})
	}, "commands"},
	"a claim after an apply that paused the sale": {newWorld, func(w *world) {
		w.phased("paused", 0, func() { w.plan(0, 0, pb.Phase_PAUSED) })
		w.asks(claimOf(w.user(0), "k", 1))
	}, "phases close"},
	"a claim after an apply that closed the sale": {newWorld, func(w *world) {
		w.phased("closed", 0, func() { w.plan(0, 0, pb.Phase_CLOSED); w.plan(0, 0, pb.Phase_OPEN) })
		w.buy(w.user(0), "k", 1)
	}, "plans close"},

	// progress
	"a generation not taken": {newWorld, func(w *world) { w.declare(0, 0, pb.Phase_OPEN); w.h.Final.Rested = true }, "progress"},

	// decode, fills and grants
	"a declaration that cannot be read": {newWorld, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Spec = []byte("{") })
	}, "decode"},
	"a packet below the least": {withPackets, func(w *world) {
		w.h.Deal = dealtOtherwise(func(a []int64) { a[0], a[1] = 4, a[1]+a[0]-4 })
	}, "decode"},
	"packets that are too much": {withPackets, func(w *world) { w.h.Deal = dealtOtherwise(func(a []int64) { a[5]++ }) }, "decode"},
	"packets too few": {withPackets, func(w *world) {
		w.h.Deal = func(declaration, seed []byte) (*Packets, error) {
			p, err := dealt(declaration, seed)
			p.Amounts[0] += p.Amounts[5]
			p.Amounts = p.Amounts[:5]
			return p, err
		}
	}, "decode"},
	"a fill without a list": {newWorld, func(w *world) {
		op := claimOf(w.user(0), "k", 1)
		op.GetClaim().Fill = 1
		w.asks(op)
	}, "fills"},
	"a grant without a list": {newWorld, func(w *world) {
		op := claimOf(w.user(0), "k", 1)
		op.GetClaim().GrantedUs = 1
		w.asks(op)
	}, "fills"},
	"two units of a list for one user": {withAckLedger, func(w *world) { w.asks(w.givenOp(1, 2)) }, "limits fills"},
	"a unit of a list that is held": {withAckLedger, func(w *world) {
		op := w.givenOp(1)
		op.GetClaim().HeldUntilUs = w.at.Microseconds() + 10_000
		w.asks(op)
	}, "units fills"},
	"a unit of a list of no run":     {withAckLedger, func(w *world) { w.h.Granted(w.pass(), 0, "fedcba9876543210", 0, "u", "k", 1, 0) }, "grants"},
	"a unit of a list of no shard":   {withAckLedger, func(w *world) { w.h.Granted(w.pass(), 0, w.uid, shards, "u", "k", 1, 0) }, "grants"},
	"a unit of a list where is none": {newWorld, func(w *world) { w.h.Granted(w.pass(), 0, w.uid, 0, "u", "k", 1, 0) }, "grants"},
}

// givenOp is the claim of units that a node gave together.
func (w *world) givenOp(units ...int64) *pb.Op {
	g := w.give(w.user(0), "k", units[0])
	op := claimOf(g.User, g.Key, units...)
	op.GetClaim().Fill, op.GetClaim().GrantedUs = 1, g.GrantedUs
	return op
}

// sealedEarly is a sale that was sealed just before its last shard, and destroyed
// after.
func sealedEarly(w *world) {
	w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
	w.command("destroy", w.destroy)
	sale, last := w.h.Logs["sale/tickets"], w.h.Logs[w.log(1)]
	sealed, destroyed, seal := &sale[len(sale)-2], &sale[len(sale)-1], &last[len(last)-1]
	seal.Seq = sealed.Seq + 1
	for i := range w.h.Deletes {
		w.h.Deletes[i].Seq += 10
	}
	destroyed.Seq += 20
}

// plantedFaults are all. Each is planted into a history that is good otherwise;
// want are the checkers that report it.
func plantedFaults() map[string]planted {
	faults := maps.Clone(ledgerFaults)
	maps.Copy(faults, listFaults)
	maps.Copy(faults, hourFaults)
	maps.Copy(faults, reportFaults)
	maps.Copy(faults, edgeFaults)
	maps.Copy(faults, settlementFaults)
	maps.Copy(faults, paymentFaults)
	maps.Copy(faults, readingFaults)
	maps.Copy(faults, ruleFaults)
	maps.Copy(faults, partialFaults)
	maps.Copy(faults, chosenFaults)
	maps.Copy(faults, namedFaults)
	maps.Copy(faults, workFaults)
	maps.Copy(faults, strangerFaults)
	maps.Copy(faults, drawFaults)
	maps.Copy(faults, feedFaults)
	maps.Copy(faults, reloadFaults)
	maps.Copy(faults, shownFaults)
	maps.Copy(faults, verdictFaults)
	maps.Copy(faults, orderFaults)
	maps.Copy(faults, figureFaults)
	maps.Copy(faults, auditFaults)
	return faults
}

// Of several users the one is named whose claims fit into no order, with what was
// seen of them.
func TestUserOutOfOrderIsNamed(t *testing.T) {
	w := newWorld(t)
	a, b := w.user(0), w.user(1)
	w.buy(a, "k", 1)
	w.buy(b, "k", 1)
	w.read(a)
	w.readAs(b, Answer{})
	problems := Check(w.h)
	want := fmt.Sprintf("linear: the 1 claims of user %q in run %s and what was seen of them (operations [3]) fit into no order", b, testUID)
	if len(problems) != 1 || problems[0].String() != want {
		t.Errorf("reported are %q, want %q", problems, want)
	}
}
