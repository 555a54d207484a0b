package apply

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/planner/machine"
)

// runDestroyUntil carries out a plan of destroy to its end, or to where it is
// killed.
func runDestroyUntil(w *world, plan *planner.Plan, enough func(*process) bool) {
	w.Helper()
	p := w.begin(plan)
	for !p.done && !enough(p) {
		p.step(inOrder)
	}
	if p.err != nil {
		w.Fatal(p.err)
	}
}

// A saved plan says what the sale was when it was made. Whether its export is
// still to come is asked of the sale as it is.
func TestDestroyOfASavedPlanAgain(t *testing.T) {
	for name, test := range map[string]struct {
		enough  func(*process) bool
		changed bool // by the run after
	}{
		"killed after the export": {func(p *process) bool {
			return len(p.queue) > 0 && p.x.result.Export != ""
		}, true},
		"killed between deletes": {func(p *process) bool {
			s := p.world.actual()
			return s.Sale.Sealed() != nil && s.Shards[0].Head == nil
		}, true},
		"killed before the last note": {func(p *process) bool {
			s := p.world.actual()
			return s.Sale.Sealed() != nil && s.Shards[0].Head == nil && s.Shards[1].Head == nil && s.Shards[2].Head == nil
		}, true},
		"ended": {func(*process) bool { return false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			plan := w.planDestroy()
			runDestroyUntil(w, plan, test.enough)
			cfg := w.config()
			cfg.Clock = clockOf(w)
			for _, changed := range []bool{test.changed, false} {
				next := w.actual().Sale.Next()
				r, err := Destroy(t.Context(), cfg, plan, filepath.Join(w.folder, "export.ndjson"))
				if err != nil {
					t.Fatalf("the saved plan again: %v", err)
				}
				if r.Changed != changed || len(r.ExportDigest) == 0 || r.Generation != 2 {
					t.Errorf("the result is %+v, want Changed %v, a digest and generation 2", r, changed)
				}
				if grown := w.actual().Sale.Next() > next; grown != changed {
					t.Errorf("the sale's log grew: %v, want %v", grown, changed)
				}
			}
			w.wantNothingLeft(plan.UID)
			w.wantExport(15)
		})
	}
}

// A destroy that comes to its export when another has deleted the logs has
// nothing left to do but what the other does.
func TestDestroyWhoseExportComesTooLate(t *testing.T) {
	for name, deletes := range map[string]int{"one log is deleted": 1, "all are": 1000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			plan := w.planDestroy()
			late := w.begin(plan)
			for !late.isNext("export") {
				late.step(inOrder)
			}
			seen := 0
			runDestroyUntil(w, plan, func(p *process) bool {
				if p.isNext("delete") {
					seen++
				}
				return seen > deletes
			})
			for !late.done {
				late.step(inOrder)
			}
			if late.err != nil {
				t.Fatalf("the second destroy: %v", late.err)
			}
			w.wantNothingLeft(plan.UID)
			w.wantExport(15)
		})
	}
}

// While the sale's log says nothing of a seal, an export that finds no log is
// tried again, and fails in the end.
func TestExportOfALogThatIsGone(t *testing.T) {
	w := newWorld(t)
	sold(w)
	p := w.begin(w.planDestroy())
	exports := 0
	for !p.done {
		if p.isNext("export") {
			exports++
			p.reply(p.next(0), machine.Reply{Err: ledger.ErrGone})
			continue
		}
		p.step(inOrder)
	}
	if !errors.Is(p.err, ledger.ErrGone) || exports != exportTries {
		t.Errorf("after %d exports: %v", exports, p.err)
	}
	if w.actual().Sale.Sealed() != nil {
		t.Error("the sale is sealed without an export")
	}
}

// A saved plan that is carried out twice changes something once.
func TestApplySaysWhetherItChangedAnything(t *testing.T) {
	w := newWorld(t)
	cfg := w.config()
	cfg.Clock = clockOf(w)
	create := w.mustPlan(tickets(10))
	wantChanged := func(plan *planner.Plan, want ...bool) {
		t.Helper()
		for i, changed := range want {
			r, err := Run(t.Context(), cfg, plan)
			if err != nil {
				t.Fatal(err)
			}
			if r.Changed != changed {
				t.Errorf("time %d: Changed is %v", i+1, r.Changed)
			}
		}
	}
	wantChanged(create, true, false)
	wantChanged(w.mustPlan(tickets(10)), false) // an empty plan
	pause, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
	if err != nil {
		t.Fatal(err)
	}
	wantChanged(pause, true, false)
}

// Whoever is interrupted in completing what another began has something to complete.
func TestInterruptedInCompletingAnother(t *testing.T) {
	for name, begin := range map[string]func(*world) *planner.Plan{
		"an apply": func(w *world) *planner.Plan {
			plan := w.mustPlan(tickets(10))
			w.runUntil(plan, 1)
			return plan
		},
		"a destroy": func(w *world) *planner.Plan {
			sold(w)
			w.seal()
			return w.planDestroy()
		},
	} {
		w := newWorld(t)
		p := w.begin(begin(w))
		for !p.isNext("read heads") {
			p.step(inOrder)
		}
		p.Stop(w.now, context.Canceled)
		p.take()
		if !p.done || !errors.Is(p.err, planner.ErrPartly) || !errors.Is(p.err, context.Canceled) {
			t.Errorf("%s: done %v, %v", name, p.done, p.err)
		}
		if strings.Contains(p.err.Error(), "the last error") {
			t.Errorf("%s: there was no error before: %v", name, p.err)
		}
	}
}

// Who completes what another has begun tells of all of it.
func TestProgressOfWhatAnotherHasBegun(t *testing.T) {
	for name, begin := range map[string]func(*world) *planner.Plan{
		"an apply": func(w *world) *planner.Plan {
			plan := w.mustPlan(tickets(10))
			w.runUntil(plan, 1)
			return plan
		},
		"a destroy": func(w *world) *planner.Plan {
			sold(w)
			plan := w.planDestroy()
			w.begin(plan).stepTo(func(k calls.Call) bool { return k.What == "sweep marker" })
			return plan
		},
	} {
		w := newWorld(t)
		p := w.begin(begin(w))
		if err := p.finish(); err != nil {
			t.Fatal(err)
		}
		told := make(map[string]bool)
		for _, step := range p.log {
			told[step.Address] = true
		}
		for _, a := range p.x.plan.Actions {
			if !told[a.Address] {
				t.Errorf("%s: %s is not told of", name, a.Address)
			}
		}
	}
}

// What a plan names and another has done meanwhile is told as done.
func TestProgressOfWhatAnotherHasMended(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.nodes[1].RestartEmpty()
	plan := w.mustPlan(tickets(10))
	for _, changed := range []bool{true, false} {
		p := w.begin(plan)
		for !p.done {
			p.step(inOrder)
		}
		if p.err != nil || p.x.core.Changed != changed || len(p.log) != 1 || p.log[0].Address != "node/node-1" {
			t.Errorf("%v, changed %v, told %+v", p.err, p.x.core.Changed, p.log)
		}
	}
}

// That a node has its marker after all is noted, which is a change.
func TestNoteOfAMarkerIsAChange(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	if err := w.run(plan); err != nil {
		t.Fatal(err)
	}
	w.note(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1, Unmarked: []string{"node-0"}}}})
	for _, changed := range []bool{true, false} {
		p := w.begin(plan)
		for !p.done {
			p.step(inOrder)
		}
		if left := w.actual().Sale.Unmarked(); p.err != nil || p.x.core.Changed != changed || len(left) > 0 {
			t.Errorf("%v, changed %v, without a marker %q", p.err, p.x.core.Changed, left)
		}
	}
}

// A change of phase that is stored holds, whatever is stored after it.
func TestPauseBeforeAResume(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	p := w.begin(pauses(w))
	for w.actual().Sale.Generation() == 1 {
		p.step(inOrder)
	}
	w.mustPhase(pb.Phase_OPEN)
	next := w.actual().Sale.Next()
	for !p.done {
		p.step(inOrder)
	}
	if p.err != nil || w.actual().Sale.Next() != next {
		t.Errorf("%v; the sale's log grew by %d slots", p.err, w.actual().Sale.Next()-next)
	}
}

// What another has left to say of a change of phase is a change too.
func TestPauseThatWasNotNoted(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	plan := pauses(w)
	w.runUntil(plan, 3)
	for _, changed := range []bool{true, false} {
		c := w.command(phaseJob{pb.Phase_PAUSED})
		if err := c.finish(); err != nil || c.result.Changed != changed {
			t.Errorf("%v, %+v, want Changed %v", err, c.result, changed)
		}
	}
}

// Another destroys the sale before any step of a command that changes it.
func TestDestroyedAtEveryStep(t *testing.T) {
	for name, plan := range map[string]func(*world) *planner.Plan{
		"create": applies(tickets(10)),
		"more":   func(w *world) *planner.Plan { w.mustApply(tickets(10)); return w.mustPlan(tickets(20)) },
		"pause":  func(w *world) *planner.Plan { w.mustApply(tickets(10)); return pauses(w) },
	} {
		t.Run(name, func(t *testing.T) {
			for steps := 0; ; steps++ {
				w := newWorld(t)
				p := w.begin(plan(w))
				for range steps {
					if !p.done {
						p.step(inOrder)
					}
				}
				ended, exists := p.done, w.actual().Sale.UID() != ""
				w.mustDestroy()
				for !p.done {
					p.step(inOrder)
				}
				if want := exists && !ended; errors.Is(p.err, planner.ErrStale) != want || !want && p.err != nil {
					t.Fatalf("after %d steps: %v", steps, p.err)
				}
				if ended {
					break
				}
			}
		})
	}
}

// Another destroys the sale and begins it anew before any step of a command. What
// belongs to the new run stays as it is.
func TestBegunAnewAtEveryStep(t *testing.T) {
	for name, plan := range map[string]func(*world) *planner.Plan{
		"apply": func(w *world) *planner.Plan { return w.mustPlan(tickets(10)) },
		"more":  func(w *world) *planner.Plan { w.mustApply(tickets(10)); return w.mustPlan(tickets(20)) },
		"pause": func(w *world) *planner.Plan { w.mustApply(tickets(10)); return pauses(w) },
		"destroy": func(w *world) *planner.Plan {
			w.mustApply(tickets(10))
			w.owner(0).append(func(d *ledger.Draft) { d.Out(1, 2) })
			return w.planDestroy()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for steps := 0; ; steps++ {
				w := newWorld(t)
				p := w.begin(plan(w))
				for range steps {
					if !p.done {
						p.step(inOrder)
					}
				}
				ended := p.done
				if s := w.actual().Sale; s.UID() != "" && !s.Destroyed() {
					w.mustDestroy()
				}
				if err := os.RemoveAll(filepath.Join(w.folder, "export.ndjson")); err != nil {
					t.Fatal(err)
				}
				w.mustApply(run(tickets(12), 2))
				next := w.actual().Sale.Next()
				for !p.done {
					p.step(inOrder)
				}
				if !ended && !errors.Is(p.err, planner.ErrStale) || ended && p.err != nil {
					t.Fatalf("after %d steps: %v", steps, p.err)
				}
				if w.wantStock(12); w.actual().Sale.Next() != next {
					t.Fatalf("after %d steps: something was appended to the new run", steps)
				}
				if ended {
					break
				}
			}
		})
	}
}

// Nobody is told to destroy what is destroyed.
func TestPhaseOfASaleThatHasEnded(t *testing.T) {
	w := newWorld(t)
	sold(w)
	wantRemedy := func(want string) {
		t.Helper()
		_, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
		var refusal *planner.Refusal
		if !errors.As(err, &refusal) || refusal.Remedy != want {
			t.Errorf("pause: %v, want %s", err, want)
		}
	}
	runDestroyUntil(w, w.planDestroy(), func(*process) bool { return w.actual().Sale.Sealed() != nil })
	wantRemedy("To sell under this name again, destroy it, write metadata.run: 2 and run 'salectl apply'.")
	w.mustDestroy()
	wantRemedy("To sell under this name again, write metadata.run: 2 and run 'salectl apply'.")
}

// An empty plan of a phase has the sale's log say that the phase still holds; other empty plans
// append nothing.
func TestAnEmptyPlanOfAPhase(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.mustPhase(pb.Phase_PAUSED)
	empty := pauses(w)
	if !empty.Empty() {
		t.Fatalf("the plan is %+v", empty)
	}
	next := w.actual().Sale.Next()
	if r, err := Run(t.Context(), w.running(), w.mustPlan(tickets(10))); err != nil || r.Changed || w.actual().Sale.Next() != next {
		t.Errorf("apply: %+v, %v, the log grew by %d", r, err, w.actual().Sale.Next()-next)
	}
	if r, err := Run(t.Context(), w.running(), empty); err != nil || r.Changed || w.actual().Sale.Next() != next+1 {
		t.Errorf("confirm: %+v, %v, the log grew by %d", r, err, w.actual().Sale.Next()-next)
	}
	w.mustPhase(pb.Phase_OPEN)
	if _, err := Run(t.Context(), w.running(), empty); !errors.Is(err, planner.ErrStale) {
		t.Errorf("of a sale that was resumed since: %v", err)
	}
}
