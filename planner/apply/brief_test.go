package apply

import (
	"errors"
	"slices"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner/current"
)

func TestBrief(t *testing.T) {
	w := newWorld(t)
	logs := w.store.Handle(nil)
	if names, err := current.ListSales(t.Context(), logs); err != nil || len(names) != 0 {
		t.Errorf("an empty store has the sales %q, %v", names, err)
	}
	if _, err := current.Summarize(t.Context(), logs, "tickets"); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("of a sale that never was: %v", err)
	}
	w.mustApply(tickets(10))
	want := func(want current.Brief) {
		t.Helper()
		got, err := current.Summarize(t.Context(), logs, "tickets")
		if err != nil {
			t.Fatal(err)
		}
		want.Run, want.UID = 1, w.actual().Sale.UID()
		if *got != want {
			t.Errorf("%+v, want %+v", *got, want)
		}
	}
	want(current.Brief{Phase: "open", Generation: 1, Stock: 10, Available: 10})
	w.mustPhase(pb.Phase_PAUSED)
	want(current.Brief{Phase: "paused", Generation: 2, Stock: 10, Available: 10})
	w.mustDestroy()
	want(current.Brief{Phase: "destroyed", Generation: 3, Stock: 10})
	if names, err := current.ListSales(t.Context(), logs); err != nil || !slices.Equal(names, []string{"tickets"}) {
		t.Errorf("the sales are %q, %v", names, err)
	}
	if _, err := current.ListSales(t.Context(), struct{ ledger.Logs }{logs}); err == nil {
		t.Error("a store that cannot name its logs has listed its sales")
	}
}
