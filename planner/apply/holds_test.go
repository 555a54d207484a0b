package apply

import (
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/current"
)

// held begins a sale of three shards with a hold on each, which end after 20 s, 150 s and 95 s.
func held(t *testing.T) *world {
	w := newWorld(t)
	w.mustApply(tickets(30))
	for shard, ends := range []time.Duration{20 * time.Second, 150 * time.Second, 95 * time.Second} {
		if err := w.owner(shard).claimHeld(1, w.now.Wall.Add(ends).UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// destroyHeld destroys the sale, and returns what it reported to wait for and how long it took.
func (w *world) destroyHeld(cancel bool) (waits []string, took time.Duration) {
	w.Helper()
	began := w.now.Mono
	p := w.begin(w.planDestroy())
	p.x.CancelHolds = cancel
	for !p.done {
		p.step(inOrder)
	}
	if p.err != nil {
		w.Fatal(p.err)
	}
	for _, step := range p.log {
		if step.Action == "wait" {
			waits = append(waits, step.Note)
		}
	}
	return waits, w.now.Mono - began
}

// A destroy waits until the last hold is released, and reports once a minute which it waits for.
func TestDestroyReportsHoldsOnceAMinute(t *testing.T) {
	w := held(t)
	waits, took := w.destroyHeld(false)
	want := []string{
		"for 3 open holds; the first ends in 20s, the last in 2m30s",
		"for 2 open holds; the first ends in 35s, the last in 1m30s",
		"for 1 open hold, which ends in 30s",
	}
	if !slices.Equal(waits, want) || took < 149*time.Second || took > 160*time.Second {
		t.Errorf("in %v it reported %q, want %q", took, waits, want)
	}
	for i, s := range w.wantExport(0) {
		if c := s.Claim(0); c.State != ledger.StateExpired {
			t.Errorf("the hold of shard %d is %v", i, c.State)
		}
	}
}

// With CancelHolds a destroy waits for no hold.
func TestDestroyCancelsHolds(t *testing.T) {
	w := held(t)
	if waits, took := w.destroyHeld(true); len(waits) > 0 || took > 5*time.Second {
		t.Errorf("it took %v and waited %q", took, waits)
	}
	for i, s := range w.wantExport(0) {
		c := s.Claim(0)
		if who, why := c.Who, c.Reason; c.State != ledger.StateCancelled || who != "tester@host" || why != "the sale is destroyed" {
			t.Errorf("the hold of shard %d is %v, by %s: %s", i, c.State, who, why)
		}
	}
}

// The plan of a destroy says what becomes of holds, and until when it waits.
func TestPlanOfADestroyWithHolds(t *testing.T) {
	w := held(t)
	actual := w.actual()
	warns := func(want, until string) {
		t.Helper()
		p, err := planner.MakeDestroy(actual)
		if err != nil {
			t.Fatal(err)
		}
		if ends := p.Actions[len(p.Actions)-1].Before.Ends; ends.Held != 3 || ends.HeldUntil != until {
			t.Errorf("the plan has %+v, want until %q", ends, until)
		}
		if !slices.ContainsFunc(p.Warnings, func(warning string) bool { return strings.Contains(warning, want) }) {
			t.Errorf("it warns %q, want %q in it", p.Warnings, want)
		}
	}
	warns("3 units are held for payments: destroy closes the sale, then waits until each of these claims is paid, cancelled or released;", "")
	actual.Ledger = current.ReadLedger(t.Context(), w.config().Logs, actual)
	last := planner.TimeText(w.now.Wall.Add(150 * time.Second).Truncate(time.Second).Add(time.Second))
	warns("at the latest at "+last+" unless some are extended; --cancel-holds cancels them instead", last)
	actual.CancelHolds = true
	warns("3 units are held for payments: these claims are cancelled, and payments that come for them must be paid back", "")
	w.destroyHeld(true)
	actual.CancelHolds = false
	actual.Ledger = current.ReadLedger(t.Context(), w.config().Logs, actual) // of before: there are no logs any more
	warns("3 units are held for payments: destroy closes the sale, then waits until each of these claims is paid, cancelled or released;", "")
	if holds := current.ReadLedger(t.Context(), w.config().Logs, w.actual()); holds != nil {
		t.Errorf("once it is destroyed: %+v", holds)
	}
}
