package apply

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// appends reports whether a call is to append an op of a kind, the first of its commit.
func appends(is func(*pb.Op) bool) func(calls.Call) bool {
	return func(k calls.Call) bool {
		ops := commitOf(k).GetOps()
		return len(ops) > 0 && is(ops[0])
	}
}

// moments are calls that a destroy of a sold sale is about to make when another comes
// past it. Tests that take every call are slow.
var moments = map[string]func(calls.Call) bool{
	"to close a shard":   appends(func(op *pb.Op) bool { return op.GetGeneration() != nil }),
	"to note the close":  appends(func(op *pb.Op) bool { return op.GetApplied() != nil }),
	"to receive units":   appends(func(op *pb.Op) bool { return op.GetIn() != nil }),
	"to end a transfer":  appends(func(op *pb.Op) bool { return op.GetAck() != nil }),
	"to seal a shard":    appends(func(op *pb.Op) bool { return op.GetSeal() != nil }),
	"to export":          func(k calls.Call) bool { return k.What == "export" },
	"to note the export": appends(func(op *pb.Op) bool { return op.GetSealed() != nil }),
	"to note its end":    appends(func(op *pb.Op) bool { return op.GetDestroyed() != nil }),
}

// stepTo steps a process until it is about to make a call.
func (p *process) stepTo(about func(calls.Call) bool) {
	p.world.Helper()
	for !slices.ContainsFunc(p.queue, about) {
		if p.done {
			p.world.Fatalf("it has ended: %v", p.err)
		}
		p.step(inOrder)
	}
}

// finish steps a process to its end.
func (p *process) finish() error {
	p.world.Helper()
	for steps := 0; !p.done; steps++ {
		if steps > 10000 {
			p.world.Fatal("no end")
		}
		p.step(inOrder)
	}
	return p.err
}

// Another destroys a sale while a destroy is at work. There is nothing left to do but
// what the other has done, and that is told like one's own work.
func TestDestroyBesideAnother(t *testing.T) {
	for name, about := range moments {
		t.Run("about "+name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			plan := w.planDestroy()
			slow := w.begin(plan)
			slow.stepTo(about)
			w.mustDestroy()
			next := w.actual().Sale.Next()
			if err := slow.finish(); err != nil || w.actual().Sale.Next() != next {
				t.Errorf("destroy: %v; the sale's log grew by %d slots", err, w.actual().Sale.Next()-next)
			}
			if r := slow.x.result; r.Generation != 2 || r.ExportDigest == "" || r.Summary != plan.Summary || slow.x.done != len(plan.Actions) {
				t.Errorf("the result is %+v, want generation 2 and %+v", r, plan.Summary)
			}
			w.wantNothingLeft(plan.UID)
			w.wantExport(15)
		})
	}
}

// Another destroys a sale and begins it anew while a destroy is at work. What is there
// now stays as it is.
func TestDestroyBesideANewRun(t *testing.T) {
	for name, about := range moments {
		t.Run("about "+name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			slow := w.begin(w.planDestroy())
			slow.stepTo(about)
			w.mustDestroyAndBegin(tickets(12))
			next := w.actual().Sale.Next()
			if err := slow.finish(); !errors.Is(err, planner.ErrStale) || w.actual().Sale.Next() != next {
				t.Errorf("destroy: %v; the sale's log grew by %d slots", err, w.actual().Sale.Next()-next)
			}
			w.wantStock(12)
		})
	}
}

// mustDestroyAndBegin destroys the sale and begins its second run.
func (w *world) mustDestroyAndBegin(s spec.Sale) {
	w.Helper()
	w.mustDestroy()
	if err := os.Remove(filepath.Join(w.folder, "export.ndjson")); err != nil {
		w.Fatal(err)
	}
	w.mustApply(run(s, 2))
}

// Another destroys a sale, or begins it anew as well, while an apply or a change of
// phase is about to note that every shard has its generation.
func TestApplyBesideADestroy(t *testing.T) {
	for name, plan := range map[string]func(*world) *planner.Plan{
		"create": applies(tickets(10)),
		"more":   func(w *world) *planner.Plan { w.mustApply(tickets(10)); return w.mustPlan(tickets(20)) },
		"pause":  func(w *world) *planner.Plan { w.mustApply(tickets(10)); return pauses(w) },
	} {
		for _, anew := range []bool{false, true} {
			w := newWorld(t)
			slow := w.begin(plan(w))
			slow.stepTo(moments["to note the close"])
			if anew {
				w.mustDestroyAndBegin(tickets(12))
			} else {
				w.mustDestroy()
			}
			next := w.actual().Sale.Next()
			if err := slow.finish(); !errors.Is(err, planner.ErrStale) || w.actual().Sale.Next() != next {
				t.Errorf("%s, begun anew: %v: %v; the sale's log grew by %d slots", name, anew, err, w.actual().Sale.Next()-next)
			}
		}
	}
}

// The end of a transfer is appended only once its receipt stands: who reads that the
// transfer has ended looks no more for its units.
func TestDestroyEndsWhatWasReceived(t *testing.T) {
	w := newWorld(t)
	sold(w)
	p := w.begin(w.planDestroy())
	ends := 0
	for !p.done {
		for _, k := range p.queue {
			for _, op := range commitOf(k).GetOps() {
				ack := op.GetAck()
				if ack == nil {
					continue
				}
				ends++
				from := slices.Index(w.actual().Sale.ShardLogs(), requestOf(k).Log)
				s := ledger.NewState(spec.ShardLog(p.x.plan.UID, int(ack.GetTo()), 3))
				if _, err := ledger.Load(t.Context(), w.store.Handle(nil), spec.ShardLog(p.x.plan.UID, int(ack.GetTo()), 3), s); err != nil {
					t.Fatal(err)
				}
				if s.Received(from) < ack.GetK() {
					t.Fatalf("transfer %d from shard %d to %d ends before it is received", ack.GetK(), from, ack.GetTo())
				}
			}
		}
		p.step(inOrder)
	}
	if p.err != nil || ends == 0 {
		t.Errorf("%d transfers have ended, %v", ends, p.err)
	}
}

// A transfer of units that the other shard has already is damage, by which nothing is
// sealed.
func TestDestroyOfATransferThatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(30))
	if err := w.owner(1).append(func(d *ledger.Draft) {
		if err := d.In(2, 1, ledger.Units{{First: 1, Count: 2}}); err != nil {
			t.Fatal(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.owner(0).append(func(d *ledger.Draft) { d.OutUnits(1, ledger.Units{{First: 1, Count: 2}}) }); err != nil {
		t.Fatal(err)
	}
	p := w.begin(w.planDestroy())
	if err := p.finish(); !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "shard 1: transfer 1 from shard 0: units 1-2 are here already") {
		t.Errorf("destroy: %v", err)
	}
	if w.actual().Sale.Sealed() != nil || p.x.result.Generation != 2 {
		t.Errorf("the sale is sealed, or the result is not of generation 2: %+v", p.x.result)
	}
}

// A sale that never was on every shard is destroyed without being said to be: nobody
// may begin to serve it now.
func TestDestroyOfWhatWasNeverApplied(t *testing.T) {
	w := newWorld(t)
	w.runUntil(w.mustPlan(tickets(10)), 1)
	w.mustDestroy()
	if g := w.actual().Sale.Applied(); g != 0 {
		t.Errorf("generation %d is said to be on every shard", g)
	}
}

// A shard whose log is gone while a destroy works on it is told of, once that is no read
// that lags.
func TestDestroyOfAShardThatGoes(t *testing.T) {
	for name, to := range map[string]func(*sealWorld){
		"before it is read": func(w *sealWorld) {
			w.p.stepTo(moments["to note the close"])
			w.p.stepTo(func(k calls.Call) bool { return k.What == "find owner" })
		},
		"when it is read but for its close": func(w *sealWorld) {
			w.stepUntil(w.planned)
			w.ownerCloses()
			w.reads = []memory.Fault{past(1)}
			w.stepUntil(func() bool { return len(w.reads) == 0 })
		},
		"before it ends its transfer": func(w *sealWorld) { w.p.stepTo(moments["to end a transfer"]) },
		"before its seal":             func(w *sealWorld) { w.p.stepTo(moments["to seal a shard"]) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSealWorld(t)
			to(w)
			if err := w.store.Handle(nil).Delete(t.Context(), w.log, 100); err != nil {
				t.Fatal(err)
			}
			began := w.now.Mono
			if err := w.finish(); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "shard/0 of a live sale has no log") {
				t.Errorf("destroy: %v", err)
			}
			if took := w.now.Mono - began; took > time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// An export that another has made in vain, since a third one has destroyed the sale
// meanwhile, is a change: there is a file.
func TestExportBesideAnotherIsAChange(t *testing.T) {
	w := newWorld(t)
	sold(w)
	plan := w.planDestroy()
	w.begin(plan).stepTo(moments["to export"])
	p := w.begin(plan)
	for _, about := range []string{"to export", "to note the export"} {
		if p.stepTo(moments[about]); about == "to export" && p.x.core.Changed {
			t.Error("it has changed something before its export")
		}
	}
	w.mustDestroy()
	if err := p.finish(); err != nil || !p.x.core.Changed {
		t.Errorf("%v, changed %v", err, p.x.core.Changed)
	}
}

// A log that comes back after a sale was destroyed, while a destroy sweeps what is left,
// is a change once it is deleted.
func TestDeletingALateCreateIsAChange(t *testing.T) {
	w := newWorld(t)
	first := w.begin(w.mustPlan(tickets(10)))
	creates := func(k calls.Call) bool {
		return moments["to close a shard"](k) && strings.HasSuffix(requestOf(k).Log, "/1")
	}
	first.stepTo(creates)
	late := first.next(slices.IndexFunc(first.queue, creates))
	w.mustDestroy()
	for _, comes := range []bool{true, false} {
		p := w.begin(w.planDestroy())
		p.stepTo(func(k calls.Call) bool { return k.What == "delete" })
		p.stepTo(func(k calls.Call) bool { return k.What == "read heads" }) // all is deleted
		if comes {
			if r := first.perform(late); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if err := p.finish(); err != nil || p.x.core.Changed != comes {
			t.Errorf("%v, changed %v, want %v", err, p.x.core.Changed, comes)
		}
		w.wantNothingLeft(first.x.plan.UID)
	}
}

// The last export that finds a log gone asks the sale's log why. A read of that log that
// reports the phase gone, too, is no answer.
func TestExportOfALogThatIsGoneWhileReadsLag(t *testing.T) {
	w := newWorld(t)
	sold(w)
	plan := w.planDestroy()
	lagging := false
	w.faults = memory.On(memory.OpRead, func(c memory.Call) memory.Fault {
		if c.Log != spec.SaleLog("tickets") || !lagging {
			return memory.Fault{}
		}
		lagging = false
		return past(100)
	})
	p := w.begin(plan)
	for exports := 1; exports <= exportTries; exports++ {
		p.stepTo(moments["to export"])
		if exports == exportTries {
			w.mustDestroy()
			lagging = true
		}
		k := p.next(slices.IndexFunc(p.queue, moments["to export"]))
		p.reply(k, machine.Reply{Err: ledger.ErrGone})
	}
	if err := p.finish(); err != nil || lagging {
		t.Errorf("destroy: %v; a read was to lag: %v", err, lagging)
	}
}

// Red packets that do not add up are not sealed, even where there is no export that would
// notice.
func TestDestroyOfPacketsThatDoNotAddUp(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(packets(30))
	w.mustPhase(pb.Phase_PAUSED)
	if err := w.owner(1).append(func(d *ledger.Draft) {
		if err := d.In(2, 1, ledger.Units{{First: 1, Count: 1}}); err != nil {
			t.Fatal(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.beginPurge().finish(); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), "are left, of 30.00") {
		t.Errorf("destroy: %v", err)
	}
	if w.actual().Sale.Sealed() != nil {
		t.Error("the sale is sealed")
	}
}

// What is given back is told again by whoever finds the sale destroyed.
func TestRefundIsToldAgain(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(packets(30))
	w.grabAll()
	exported := new(sink)
	for range 2 {
		c := w.command(exported.job())
		if err := c.finish(); err != nil || c.result.Refund == nil || c.result.Refund.Packets != 24 {
			t.Errorf("destroy: %v, %+v", err, c.result.Refund)
		}
	}
}

// A purge that comes to where the sale's log is deleted has changed something, whoever
// did all before, and tells of all that it has planned.
func TestPurgeTellsWhatItHasDone(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	deletes := func(k calls.Call) bool { return k.What == "delete" && requestOf(k).Log == spec.SaleLog("tickets") }
	first := w.beginPurge()
	first.stepTo(deletes)
	if second := w.beginPurge(); second.finish() != nil || !second.x.core.Changed {
		t.Errorf("%v, changed %v", second.err, second.x.core.Changed)
	}
	if err := first.finish(); err != nil || first.x.result.Summary != first.x.plan.Summary {
		t.Errorf("%v, done is %+v of %+v", err, first.x.result.Summary, first.x.plan.Summary)
	}
}
