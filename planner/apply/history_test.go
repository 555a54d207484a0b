package apply

import (
	"errors"
	"fmt"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner/current"
)

func TestHistory(t *testing.T) {
	w := newWorld(t)
	if _, err := current.ReadHistory(t.Context(), w.store.Handle(nil), "tickets"); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("of a sale that never was: %v", err)
	}
	w.mustApply(tickets(10))
	w.mustPhase(pb.Phase_PAUSED)
	w.runUntil(w.mustPlan(tickets(13)), 1)
	read := func() *current.SaleHistory {
		t.Helper()
		h, err := current.ReadHistory(t.Context(), w.store.Handle(nil), "tickets")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := read()
	if len(h.Runs) != 1 || len(h.Runs[0].Generations) != 3 {
		t.Fatalf("%+v", h)
	}
	g := h.Runs[0].Generations
	for i, want := range []string{"", "[{phase open paused}]", "[{stock 10 13}]"} {
		if got := fmt.Sprint(g[i].Changes); want != "" && got != want {
			t.Errorf("generation %d: %s, want %s", i+1, got, want)
		}
		if g[i].Generation != uint64(i)+1 || (g[i].AppliedAt == "") != (i == 2) || len(g[i].PlanDigest) != 64 || g[i].Who == "" {
			t.Errorf("%+v", g[i])
		}
	}
	w.mustApply(tickets(13))
	w.mustDestroy()
	w.mustApply(run(tickets(3), 2))
	h = read()
	if len(h.Runs) != 2 || h.Runs[0].DestroyedAt == "" || h.Runs[0].SealedAt == "" || len(h.Runs[0].ExportDigest) != 64 || h.Runs[0].Generations[2].AppliedAt == "" {
		t.Fatalf("%+v", h)
	}
	if second := h.Runs[1]; second.Run != 2 || len(second.Generations) != 1 || second.SealedAt != "" || second.Generations[0].Changes[0] != (current.Change{Name: "run", After: "2"}) {
		t.Errorf("%+v", second)
	}
}
