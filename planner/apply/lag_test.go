package apply

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/spec"
)

// While shards are brought to a generation, a read of the sale's log may say that
// the log is gone, and the one after it show no more than its begin. What was
// known of the sale stays until the log is read as far again: another shard may
// ask for its next generation at any time.
func TestApplyReadsThePast(t *testing.T) {
	now := memory.Fault{}
	gone, begin := memory.Fault{Kind: memory.Stale, N: 2}, memory.Fault{Kind: memory.Stale, N: 1}
	for name, test := range map[string]struct {
		shards int
		reads  []memory.Fault // of the sale's log, in order; then all are of now
		from   []uint64       // the slots from which it is read first
	}{
		"gone, while a shard is at work":      {3, []memory.Fault{now, now, gone}, []uint64{0, 2, 2, 0}},
		"gone, and then no more than a begin": {1, []memory.Fault{now, gone, begin}, []uint64{0, 2, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			small, large := tickets(10), tickets(20)
			small.LockCount, large.LockCount = test.shards, test.shards
			for first := w.begin(w.mustPlan(small)); w.actual().Sale.Generation() == 0; {
				first.step(inOrder)
			}
			log, reads := spec.SaleLog("tickets"), memory.Script(test.reads...)
			var from []uint64
			w.faults = memory.On(memory.OpRead, func(c memory.Call) memory.Fault {
				if c.Log != log {
					return now
				}
				from = append(from, c.Slot)
				return reads(c)
			})
			w.mustApply(large) // generation 2, and 1 with it: no shard has that yet
			w.wantStock(20)
			if n := min(len(from), len(test.from)); !slices.Equal(from[:n], test.from) {
				t.Errorf("the sale's log was read from slots %v, want %v and more", from, test.from)
			}
		})
	}
}

// What is read in the end, after a read that said that the log is gone, counts: that
// another has destroyed the sale since.
func TestApplyReadsThePastOfADestroyedSale(t *testing.T) {
	w := newWorld(t)
	w.stale(0, 100)
	plan := w.mustPlan(tickets(10))
	p := w.begin(plan)
	for !p.x.planned.isKnown() {
		p.step(inOrder)
	}
	w.mustDestroy()
	for !p.done {
		p.step(inOrder)
	}
	if !errors.Is(p.err, planner.ErrStale) || !strings.Contains(p.err.Error(), "was destroyed meanwhile") {
		t.Errorf("it ended with %v", p.err)
	}
	w.wantNothingLeft(plan.UID)
}

// A sale's log that is said to be gone, or to be shorter than the plan knows, may be
// a read that lags. It is believed when it is said again and again.
func TestSaleLogThatIsGone(t *testing.T) {
	appends := func(p *process) bool {
		return p.request().Kind == ledger.AppendRequest
	}
	for name, test := range map[string]struct {
		from func(*process) bool
		says string
	}{
		"from the first":  {func(*process) bool { return true }, "the sale is at slot 0 of its log, the plan was made at 2"},
		"before the plan": {appends, "the sale is gone, with its log"},
		"after the plan":  {func(p *process) bool { return p.x.planned.isKnown() }, "the sale is gone, with its log"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustApply(tickets(10))
			p := w.begin(w.mustPlan(tickets(20)))
			for !test.from(p) {
				p.step(inOrder)
			}
			if err := w.store.Handle(nil).Delete(t.Context(), spec.SaleLog("tickets"), 100); err != nil {
				t.Fatal(err)
			}
			began := w.now.Mono
			for !p.done {
				p.step(inOrder)
			}
			if !errors.Is(p.err, planner.ErrStale) || !strings.Contains(p.err.Error(), test.says) {
				t.Errorf("it ended with %v", p.err)
			}
			if took := w.now.Mono - began; took != lagTries*lagPause {
				t.Errorf("it took %v, want %v", took, lagTries*lagPause)
			}
		})
	}
}

// Nothing is stored twice in the sale's log where replies are lost and the reads
// after them say that the log is gone, or that it has not come as far.
func TestSaleLogThatSeemsGone(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	lost := false
	w.faults = func(c memory.Call) memory.Fault {
		switch {
		case c.Log != spec.SaleLog("tickets"):
		case c.Op == memory.OpAppend:
			lost = true
			return memory.Fault{Kind: memory.LostReply}
		case c.Op == memory.OpRead && lost:
			lost = false
			return past(100)
		}
		return memory.Fault{}
	}
	slots := func(plan *planner.Plan, want uint64) {
		t.Helper()
		from := w.actual().Sale.Next()
		if err := w.run(plan); err != nil {
			t.Error(err)
		}
		if got := w.actual().Sale.Next() - from; got != want {
			t.Errorf("%s has stored %d slots, want %d", plan.Kind, got, want)
		}
	}
	slots(w.mustPlan(tickets(20)), 2)
	slots(w.planDestroy(), 4)
	w.wantExport(0)
	w = newWorld(t)
	w.mustApply(tickets(10))
	plan := w.mustPlan(tickets(20))
	w.stale(1, 100)
	if err := w.run(plan); err != nil {
		t.Errorf("a log that lags, and then is gone: %v", err)
	}
}

// stale has the first reads of the sale's log answered from so many slots ago.
func (w *world) stale(slots ...int) {
	lags := make([]memory.Fault, len(slots))
	for i, n := range slots {
		if n > 0 {
			lags[i] = memory.Fault{Kind: memory.Stale, N: n}
		}
	}
	reads := memory.Script(lags...)
	w.faults = memory.On(memory.OpRead, func(c memory.Call) memory.Fault {
		if c.Log != spec.SaleLog("tickets") {
			return memory.Fault{}
		}
		return reads(c)
	})
}

// A pause that finds the sale paused may have read what was so before the last
// resume. It must not say that the sale is paused.
func TestPauseReadsThePast(t *testing.T) {
	for name, lags := range map[string][]int{
		"applied":                      {2, 2},
		"planned and not applied":      {3, 3},
		"applied, by the last read":    {3, 3, 2},
		"applied, by the first read":   {2},
		"planned, by the first read":   {3},
		"applied again, by the others": {3, 2, 1},
		"planned just like this pause": {4, 3},
		"and that by two reads":        {4, 3, 3},
		"and applied":                  {4, 4, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustApply(tickets(10))
			w.mustPhase(pb.Phase_PAUSED)
			w.mustPhase(pb.Phase_OPEN)
			w.stale(lags...)
			if err := w.command(phaseJob{pb.Phase_PAUSED}).finish(); !errors.Is(err, planner.ErrStale) {
				t.Errorf("a pause of an open sale: %v, want %v", err, planner.ErrStale)
			}
			w.stale()
			w.mustPhase(pb.Phase_PAUSED)
		})
	}
}

// A resume comes in beside a pause that finds the sale paused already, before each
// of its calls. The pause succeeds where its note stands before the resume, and
// only there.
func TestPauseOfAPausedSaleBesideAResume(t *testing.T) {
	succeeded, pausedAfter, stale := 0, 0, 0
	for calls := 0; ; calls++ {
		w := newWorld(t)
		w.mustApply(tickets(10))
		w.mustPhase(pb.Phase_PAUSED)
		before := w.actual().Sale.Next()
		c := w.command(phaseJob{pb.Phase_PAUSED})
		for len(c.trace) < calls && !c.done {
			c.step(inOrder, c.served)
		}
		ended := c.done
		noted := w.actual().Sale.Next() > before
		if got := w.actual().Sale.Next(); got > before+1 {
			t.Fatalf("a pause of a paused sale has stored %d slots", got-before)
		}
		w.mustPhase(pb.Phase_OPEN)
		planned := w.actual().Sale.Generation()
		switch err := c.finish(); {
		case err == nil && !noted && w.actual().Sale.Generation() > planned: // it read of the resume in time
			pausedAfter++
		case err == nil && noted:
			succeeded++
		case errors.Is(err, planner.ErrStale) && !noted:
			stale++
		default:
			t.Errorf("resumed after %d calls, where the note is stored: %v: %v", calls, noted, err)
		}
		if ended {
			break
		}
	}
	if succeeded == 0 || pausedAfter == 0 || stale == 0 {
		t.Errorf("it succeeded %d times, paused after the resume %d times and was stale %d times", succeeded, pausedAfter, stale)
	}
}

// A create of a shard that the store has not taken is sent again.
func TestCreateThatIsNotStored(t *testing.T) {
	w := newWorld(t)
	failed := 0
	w.faults = memory.On(memory.OpAppend, func(c memory.Call) memory.Fault {
		if !strings.HasSuffix(c.Log, "/1") || failed == 2 {
			return memory.Fault{}
		}
		failed++
		return memory.Fault{Kind: memory.ErrorBefore}
	})
	w.mustApply(tickets(10))
	if w.wantStock(10); failed != 2 {
		t.Errorf("%d creates have failed", failed)
	}
}
