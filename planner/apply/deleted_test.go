package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// The lock nodes know of a sale whose ledger was deleted: nothing advises to apply it, and a plan
// that would sell its units again warns. After a destroy no node knows anything.
func TestLedgerDeleted(t *testing.T) {
	const says = "3 of 3 lock nodes know a run of sale tickets, and the ledger has none"
	w := newWorld(t)
	sold(w)
	cfg := w.config()
	for _, log := range append(planner.ShardLogs(w.actual().Sale), spec.SaleLog("tickets")) {
		if err := cfg.Logs.Delete(t.Context(), log, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if plan := w.mustPlan(tickets(30)); !slices.ContainsFunc(plan.Warnings, func(s string) bool { return strings.Contains(s, says) }) {
		t.Errorf("plan warns of %q", plan.Warnings)
	}
	for what, err := range map[string]error{
		"status": func() error { _, err := current.NewStatus(w.actual()); return err }(),
		"pause":  func() error { _, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED); return err }(),
	} {
		if !errors.Is(err, planner.ErrRefused) || !strings.Contains(err.Error(), says) || strings.Contains(fmt.Sprint(err), "salectl apply") {
			t.Errorf("%s: %v", what, err)
		}
	}
	w = newWorld(t)
	sold(w)
	w.mustDestroy()
	if err := w.config().Logs.Delete(t.Context(), spec.SaleLog("tickets"), 1000); err != nil {
		t.Fatal(err)
	}
	if lost := w.actual().Lost(); lost != "" {
		t.Errorf("after a destroy %s", lost)
	}
}
