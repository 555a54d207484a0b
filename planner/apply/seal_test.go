package apply

import (
	"errors"
	"slices"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
)

// sealWorld is a sale that is to be destroyed while units are on their way from
// shard 0 to shard 1: the log of shard 0 holds its first generation, Own, Out.
type sealWorld struct {
	*world
	plan   *planner.Plan
	p      *process
	sender *owner
	log    string         // of shard 0
	reads  []memory.Fault // of that, in order; then all are of now
}

func newSealWorld(t *testing.T) *sealWorld {
	w := &sealWorld{world: newWorld(t)}
	w.pass(time.Hour) // no time is counted from 0
	w.mustApply(tickets(30))
	w.sender = w.owner(0)
	if err := w.sender.append(func(d *ledger.Draft) { d.Out(1, 4) }); err != nil {
		t.Fatal(err)
	}
	w.plan = w.planDestroy()
	w.log = spec.ShardLog(w.plan.UID, 0, 3)
	w.faults = memory.On(memory.OpRead, func(c memory.Call) memory.Fault {
		if c.Log != w.log || len(w.reads) == 0 {
			return memory.Fault{}
		}
		next := w.reads[0]
		w.reads = w.reads[1:]
		return next
	})
	w.p = w.begin(w.plan)
	return w
}

// stepUntil steps the destroy.
func (w *sealWorld) stepUntil(enough func() bool) {
	w.Helper()
	for !enough() {
		if w.p.done {
			w.Fatalf("it has ended: %v", w.p.err)
		}
		w.p.step(inOrder)
	}
}

func (w *sealWorld) planned() bool { return w.actual().Sale.Generation() == 2 }

// finish steps to the end, and returns how that came out.
func (w *sealWorld) finish() error {
	w.Helper()
	w.stepUntil(func() bool { return w.p.done })
	return w.p.err
}

// mustFinish checks that all is exported and nothing left.
func (w *sealWorld) mustFinish() {
	w.Helper()
	if err := w.finish(); err != nil {
		w.Fatal(err)
	}
	if len(w.reads) > 0 {
		w.Errorf("%d reads that lag were not made", len(w.reads))
	}
	w.wantNothingLeft(w.plan.UID)
	for i, s := range w.wantExport(0) {
		if !s.Sealed() || s.InFlight > 0 {
			w.Errorf("shard %d is exported when it is %s, with %d units on their way", i, s.Phase, s.InFlight)
		}
	}
}

// ownerCloses has the owner of shard 0 take the newest generation.
func (w *sealWorld) ownerCloses() {
	w.Helper()
	sale := w.actual().Sale
	err := w.sender.append(func(d *ledger.Draft) { d.Generation(sale.ShardGeneration(sale.Generation(), 0)) })
	if err != nil || w.sender.state.Phase != ledger.PhaseClosed {
		w.Fatalf("the shard is %s, %v", w.sender.state.Phase, err)
	}
}

// past answers a read as it was some changes of its log ago.
func past(changes int) memory.Fault {
	return memory.Fault{Kind: memory.Stale, N: changes}
}

// Reads may lag behind the close of a shard, and behind units that it has sent
// before. It is not sealed while they are on their way.
func TestDestroyReadsThePast(t *testing.T) {
	now, gone, beforeOut, beforeClose := memory.Fault{}, past(4), past(2), past(1)
	for name, test := range map[string]struct {
		ownerCloses bool
		reads       []memory.Fault // once the close is planned
	}{
		"the owner took the close":            {true, []memory.Fault{beforeOut}},
		"the owner took it, and more lags":    {true, []memory.Fault{beforeOut, beforeOut, beforeClose}},
		"gone, and then no more than a begin": {false, []memory.Fault{now, gone, beforeOut}},
		"gone, and then all but the close":    {false, []memory.Fault{now, gone, beforeClose}},
		"gone twice, and then a begin":        {false, []memory.Fault{now, gone, gone, beforeOut}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSealWorld(t)
			w.stepUntil(w.planned)
			if test.ownerCloses {
				w.ownerCloses()
			}
			w.reads = test.reads
			w.mustFinish()
		})
	}
}

// A store that answers from the past for good keeps nobody waiting for ever, and
// nothing is sealed by what it says.
func TestDestroyReadsOnlyThePast(t *testing.T) {
	w := newSealWorld(t)
	w.stepUntil(w.planned)
	w.ownerCloses()
	w.reads = slices.Repeat([]memory.Fault{past(2)}, 10000)
	began := w.now.Mono
	if err := w.finish(); !errors.Is(err, planner.ErrPartly) || !errors.Is(err, planner.ErrStore) {
		t.Fatalf("got %v, want ErrPartly for ErrStore", err)
	}
	if took := w.now.Mono - began; took != machine.MaxLag+lagPause {
		t.Errorf("it was tried for %v, want %v", took, machine.MaxLag+lagPause)
	}
	for i, s := range w.actual().Shards {
		if s.Head.Phase != ledger.PhaseClosed {
			t.Errorf("shard %d is %s", i, s.Head.Phase)
		}
	}
	w.reads = nil
	w.mustDestroy()
	w.wantNothingLeft(w.plan.UID)
	w.wantExport(0)
}

// Where somebody else takes the slot of a seal, the shard is looked at again.
func TestDestroyIsNotFirstToSeal(t *testing.T) {
	sealed := func(w *sealWorld) bool { return w.actual().Shards[0].Head.Phase == ledger.PhaseSealed }
	rival := func(w *sealWorld) {
		for other := w.begin(w.planDestroy()); !sealed(w); {
			other.step(inOrder)
		}
	}
	for name, befall := range map[string]func(w *sealWorld){
		"but a new owner":                         func(w *sealWorld) { w.owner(0) },
		"but another destroy":                     rival,
		"but another destroy, and the log lags":   func(w *sealWorld) { rival(w); w.reads = []memory.Fault{past(1)} },
		"but another destroy, and it seems gone":  func(w *sealWorld) { rival(w); w.reads = []memory.Fault{past(9)} },
		"but another destroy, and it seems begun": func(w *sealWorld) { rival(w); w.reads = []memory.Fault{past(9), past(4)} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newSealWorld(t)
			w.stepUntil(func() bool { return slices.ContainsFunc(w.p.queue, func(k calls.Call) bool { return seals(k, w.log) }) })
			befall(w)
			w.mustFinish()
			told := 0
			for _, step := range w.p.log {
				if step.Action == "seal" && step.Address == planner.ShardAddress(0) {
					told++
				}
			}
			if told != 1 {
				t.Errorf("the seal of shard 0 was told of %d times", told)
			}
		})
	}
}

// seals reports whether a call is to seal a log.
func seals(k calls.Call, log string) bool {
	ops := commitOf(k).GetOps()
	return len(ops) > 0 && ops[0].GetSeal() != nil && requestOf(k).Log == log
}
