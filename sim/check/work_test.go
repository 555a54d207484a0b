package check

import (
	"testing"
	"time"

	"salectl/api"
)

// calm is a sale to which nothing happens from the first second to the tenth, both of whose
// shards have an owner until the third.
func calm(t testing.TB) *world {
	w := newWorld(t)
	w.at = time.Second
	w.h.Steady(w.at)
	w.holds("executor-0, run 1", testUID, 0, 3)
	w.h.Holds(0, "executor-0, run 1", testUID, 1, aToken, 3*time.Second)
	return w
}

// goesOn has the shards owned from some second on until the end of the calm.
func (w *world) goesOn(from, other time.Duration) {
	w.holds("executor-1, run 1", testUID, from, 10)
	w.h.Holds(other*time.Second, "executor-2, run 1", testUID, 1, aToken, 10*time.Second)
	w.h.Unsteady(10 * time.Second)
}

// fails has a claim answered some seconds after it was made.
func (w *world) fails(outcome api.Outcome, after time.Duration) {
	op := w.invoke(w.user(0), "k", 1)
	w.at += after * time.Second
	w.answer(op, Answer{Outcome: outcome})
}

// workFaults are what the checkers of planned work find.
var workFaults = map[string]planted{
	"a shard that nobody owns for a while": {calm, func(w *world) { w.goesOn(3, 5) }, "owned"},
	"a shard that nobody owns any more": {calm, func(w *world) {
		w.holds("executor-1, run 1", testUID, 3, 10)
		w.h.Unsteady(10 * time.Second)
	}, "owned"},
	"a shard that is of another run": {calm, func(w *world) {
		w.holds("executor-1, run 1", testUID, 3, 10)
		w.h.Holds(3*time.Second, "executor-2, run 1", "fedcba9876543210", 1, aToken, 10*time.Second)
		w.h.Unsteady(10 * time.Second)
	}, "owned"},
	"a killed owner whose shard is taken over too late": {calm, func(w *world) {
		w.h.Struck(2*time.Second, 4*time.Second)
		w.goesOn(3, 5)
	}, "owned"},
	"a kill that was over when the shard had no owner": {calm, func(w *world) {
		w.h.Struck(time.Second, 2*time.Second)
		w.goesOn(3, 5)
	}, "owned"},
	"work without an end": {newWorld, func(w *world) { w.h.Stuck("it goes on for ever") }, "owned"},
	"a claim that fails while there is planned work": {calm, func(w *world) {
		w.goesOn(3, 3)
		w.fails(api.Standby, 1)
	}, "continuity"},
	"a claim of which nobody knows while there is planned work": {calm, func(w *world) {
		w.goesOn(3, 3)
		w.fails(api.Unknown, 1)
	}, "continuity"},
	"a claim that fails before a kill": {calm, func(w *world) {
		w.goesOn(3, 3)
		w.h.Struck(4*time.Second, 5*time.Second)
		w.fails(api.Standby, 1)
	}, "continuity"},
	"a claim that fails after a kill": {calm, func(w *world) {
		w.goesOn(3, 3)
		w.h.Struck(1*time.Second, 2*time.Second)
		w.at += 2 * time.Second
		w.fails(api.Standby, 1)
	}, "continuity"},
}

// TestPlannedWork has what is not to be reported of planned work.
func TestPlannedWork(t *testing.T) {
	for name, f := range map[string]planted{
		"shards that are handed over":       {calm, func(w *world) { w.goesOn(3, 4) }, ""},
		"a shard that two have one by one":  {calm, func(w *world) { w.goesOn(2, 3); w.h.Leases[0].To = 2 * time.Second }, ""},
		"a claim that is refused for good":  {calm, func(w *world) { w.goesOn(3, 3); w.fails(api.NotOpen, 1) }, ""},
		"a claim that is failed by a kill":  {calm, func(w *world) { w.goesOn(3, 3); w.h.Struck(2*time.Second, 3*time.Second); w.fails(api.Standby, 3) }, ""},
		"a shard that is free after a kill": {calm, func(w *world) { w.h.Struck(2*time.Second, 5*time.Second); w.goesOn(3, 5) }, ""},
		"rules that could not be asked":     {calm, func(w *world) { w.goesOn(3, 3); w.fails(api.NotChecked, 1) }, ""},
		"a claim that fails after the work": {calm, func(w *world) { w.goesOn(3, 3); w.at = 11 * time.Second; w.fails(api.Standby, 1) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := f.from(t)
			f.do(w)
			for _, p := range Check(w.h) {
				if p.Checker == "owned" || p.Checker == "continuity" || p.Checker == "leases" {
					t.Error(p)
				}
			}
		})
	}
}
