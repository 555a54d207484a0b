package apply

import (
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/spec"
)

func phased(s spec.Sale, phase spec.Phase) spec.Sale {
	s.Phase = phase
	return s
}

func TestDeclaredPhase(t *testing.T) {
	protect := func(s *spec.Sale) { s.Protect = true }
	for name, test := range map[string]making{
		"a new sale": {
			func(*world) {}, phased(tickets(3), spec.PhasePaused),
			"+sale/tickets phase >paused spec.phase >paused stock >3 perUserLimit >2 lock.ttl >3s; +shard/0 limit >1 units >1; +shard/1 limit >1 units >2; " +
				"+shard/2 limit >1 units >3; +node/node-0 marker >good; +node/node-1 marker >good; +node/node-2 marker >good", nil,
		},
		"a new sale that is closed": {func(*world) {}, phased(tickets(3), spec.PhaseClosed), "would begin closed", planner.ErrRefused},
		"as it is":                  {func(w *world) { w.mustApply(phased(tickets(10), spec.PhaseOpen)) }, phased(tickets(10), spec.PhaseOpen), "", nil},
		"with more units": {
			func(w *world) { w.mustApply(tickets(10)) }, phased(tickets(11), spec.PhasePaused),
			"~sale/tickets phase open>paused spec.phase >paused stock 10>11; ~shard/1 limit 3>4 units >11", nil,
		},
		"set by hand": {
			func(w *world) { w.mustApply(phased(tickets(10), spec.PhaseOpen)); w.mustPhase(pb.Phase_PAUSED) },
			phased(tickets(10), spec.PhaseOpen), "~sale/tickets phase paused>open", nil,
		},
		"set by hand, and declared no more": {
			func(w *world) { w.mustApply(phased(tickets(10), spec.PhaseOpen)); w.mustPhase(pb.Phase_PAUSED) }, tickets(10), "~sale/tickets spec.phase open>", nil,
		},
		"set by hand and back": {
			func(w *world) {
				w.mustApply(phased(tickets(10), spec.PhaseOpen))
				w.mustPhase(pb.Phase_PAUSED)
				w.mustPhase(pb.Phase_OPEN)
			},
			phased(tickets(10), spec.PhaseOpen), "", nil,
		},
		"an apply that did not end": {
			func(w *world) {
				w.mustApply(tickets(10))
				w.runUntil(w.mustPlan(phased(tickets(10), spec.PhasePaused)), 1)
			},
			phased(tickets(10), spec.PhasePaused), "~sale/tickets; ~shard/1; ~shard/2", nil,
		},
		"closed":         {func(w *world) { w.mustApply(tickets(10)) }, phased(tickets(10), spec.PhaseClosed), "~sale/tickets phase open>closed spec.phase >closed", nil},
		"closed by hand": {func(w *world) { w.mustApply(tickets(10)); w.mustPhase(pb.Phase_CLOSED) }, phased(tickets(10), spec.PhaseClosed), "", nil},
		"closed by hand, and open": {
			func(w *world) { w.mustApply(tickets(10)); w.mustPhase(pb.Phase_CLOSED) }, phased(tickets(10), spec.PhaseOpen), "Write spec.phase: closed", planner.ErrRefused,
		},
		"closed by hand, and more units": {
			func(w *world) { w.mustApply(tickets(10)); w.mustPhase(pb.Phase_CLOSED) }, phased(tickets(11), spec.PhaseClosed),
			"a change of its declaration would have no effect", planner.ErrRefused,
		},
		"closed before it was ever on every shard": {
			func(w *world) { w.runUntil(w.mustPlan(tickets(6)), 2) }, phased(tickets(6), spec.PhaseClosed), "planned, but has not reached every shard yet", planner.ErrRefused,
		},
		"closed while it is protected": {
			func(w *world) { w.mustApply(with(tickets(10), protect)) }, phased(tickets(10), spec.PhaseClosed), "is protected", planner.ErrRefused,
		},
		"closed and protected": {
			func(w *world) { w.mustApply(tickets(10)) }, phased(with(tickets(10), protect), spec.PhaseClosed), "is protected", planner.ErrRefused,
		},
	} {
		t.Run(name, test.try)
	}
}

// The reason names the generation in which the phase was set.
func TestReasonOfAPhaseSetByHand(t *testing.T) {
	w := newWorld(t)
	w.mustApply(phased(tickets(10), spec.PhasePaused))
	w.mustPhase(pb.Phase_OPEN)
	p := w.mustPlan(phased(tickets(10), spec.PhasePaused))
	if p.Actions[0].ActionReason != planner.ReasonPhaseByHand {
		t.Errorf("the reason is %s", p.Actions[0].ActionReason)
	}
	if got := p.Actions[0].Reason; got != "its phase was set manually in generation 2 by tester@host, and differs from the declared one" {
		t.Error(got)
	}
}

// Lists of a sale that begins paused give nothing before it is open.
func TestListsOfASaleThatBeginsPaused(t *testing.T) {
	w := newListWorld(t)
	for _, phase := range []spec.Phase{spec.PhasePaused, spec.PhaseOpen} {
		c := w.command(applyJob{phased(numbers(30), phase)})
		if err := c.finish(); err != nil {
			t.Fatal(err)
		}
		if got, planned := c.result.Summary, c.planned.Summary; got != planned {
			t.Errorf("%s: %+v is done of %+v", phase, got, planned)
		}
		if phase == spec.PhasePaused {
			w.wantOff()
		}
	}
	w.wantOn()
	w.grabAll()
	w.wantStock(30)
}
