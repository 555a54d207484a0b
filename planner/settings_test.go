package planner

import (
	"strings"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// The settings in force are what a plan compares with, not what was declared with
// them: a sale that has lost its end is given it again.
func TestSettingsInForce(t *testing.T) {
	w := newWorld(t)
	sale := with(tickets(10), func(s *spec.Sale) { s.ClosesAt = w.now.Wall.Add(time.Hour).UTC() })
	w.mustApply(sale)
	actual := w.actual()
	settings := withPhase(actual.Sale.Newest().GetSettings(), pb.Phase_OPEN)
	settings.ClosesAtUs = 0
	p := newPlan(KindPhase, actual)
	if err := p.carry(follow(actual.Sale, settings)); err != nil {
		t.Fatal(err)
	}
	if err := w.run(p); err != nil {
		t.Fatal(err)
	}
	plan := w.mustPlan(sale)
	if got := brief(plan); plan.Empty() || !strings.Contains(got, "~sale/tickets closesAt >") {
		t.Fatalf("the plan is %q", got)
	}
	if err := w.run(plan); err != nil {
		t.Fatal(err)
	}
	if end := w.actual().Sale.Newest().GetSettings().GetClosesAtUs(); end != sale.ClosesAt.UnixMicro() {
		t.Errorf("it closes at %d, want %d", end, sale.ClosesAt.UnixMicro())
	}
	if plan := w.mustPlan(sale); !plan.Empty() {
		t.Errorf("then the plan is %q", brief(plan))
	}
}
