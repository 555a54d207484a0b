package planner

import (
	"fmt"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// firstPhase returns the phase in which a run begins.
func firstPhase(desired spec.Sale, actual *Actual) (pb.Phase, error) {
	switch desired.Phase {
	case "":
		return pb.Phase_OPEN, nil
	case spec.PhaseClosed:
		return 0, Refuse("sale %s would begin closed for good", actual.Name).
			With("Write spec.phase: paused to sell later, or open, or leave it out.")
	}
	return phaseOf(desired.Phase), nil
}

// nextPhase returns the next phase of a live run: the declared one, or, if none is declared,
// the current one. A closed sale stays closed; its declared phase is then replaced by that of
// the old declaration, so that it is no change.
func nextPhase(desired *spec.Sale, old spec.Sale, actual *Actual) (pb.Phase, error) {
	now, next := actual.Sale.Newest().GetSettings().GetPhase(), phaseOf(desired.Phase)
	switch {
	case now == pb.Phase_CLOSED && next != now && next != pb.Phase_PHASE_UNSPECIFIED:
		return 0, Refuse("sale %s is closed for good, but its file declares spec.phase: %s", actual.Name, desired.Phase).
			With("Write spec.phase: closed, or leave it out; or destroy the sale and write metadata.run: %d to sell under this name again.",
				actual.Sale.Run()+1)
	case now == pb.Phase_CLOSED:
		desired.Phase = old.Phase
		return now, nil
	case next == pb.Phase_CLOSED && actual.Sale.Applied() == 0:
		return 0, Refuse("sale %s is planned, but has not reached every shard yet, and its file declares spec.phase: closed", actual.Name).
			With("Run 'salectl apply' without it first, or destroy the sale.")
	case next == pb.Phase_CLOSED:
		for _, file := range []spec.Sale{old, *desired} {
			if err := protected(file, actual.Name, "its file cannot declare spec.phase: closed"); err != nil {
				return 0, err
			}
		}
	case next == pb.Phase_PHASE_UNSPECIFIED:
		return now, nil
	}
	return next, nil
}

// thenApply describes the effect of the next apply after a phase was set by hand that differs
// from the declared one.
func thenApply(phase pb.Phase) string {
	if phase == pb.Phase_CLOSED {
		return "and a closed sale is not opened again: change the file, too"
	}
	return "and the next apply brings it back to that: change the file, too"
}

// MakePhase plans a pause (PAUSED), resume (OPEN) or final close (CLOSED) of an applied sale.
// If the sale and every shard are in that phase, the plan is empty; apply.Run verifies that.
func MakePhase(actual *Actual, phase pb.Phase) (*Plan, error) {
	sale := actual.Sale
	if err := exists(actual, "changes its phase"); err != nil {
		return nil, err
	}
	if sale.Applied() == 0 {
		return nil, Refuse("sale %s is planned, but has not reached every shard yet", actual.Name).
			With("Run 'salectl apply' first.")
	}
	shards, err := actual.project()
	if err != nil {
		return nil, err
	}
	newest := sale.Newest()
	old, err := Declared(newest)
	if err != nil {
		return nil, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	if err := actual.CheckLists(); err != nil {
		return nil, err
	}
	now := newest.GetSettings().GetPhase()
	p := newPlan(KindPhase, actual)
	settings := withPhase(newest.GetSettings(), phase)
	if now == phase {
		return p.Plan, p.remaining(shards)
	}
	if phase == pb.Phase_CLOSED {
		if err := protected(old, actual.Name, "it is not closed"); err != nil {
			return nil, err
		}
	}
	if now == pb.Phase_CLOSED {
		return nil, Refuse("sale %s is closed for good", actual.Name).
			With("Destroy it and write metadata.run: %d to sell under this name again.", sale.Run()+1)
	}
	if declares := phaseOf(old.Phase); declares != pb.Phase_PHASE_UNSPECIFIED && declares != phase {
		p.warn("the sale's file declares spec.phase: %s, %s", old.Phase, thenApply(phase))
	}
	planned := follow(sale, settings)
	p.updateSale(ReasonRequested, "requested", saleAttributes(old, old.Stock, ledger.PhaseName(now), newest.GetGeneration()),
		saleAttributes(old, old.Stock, ledger.PhaseName(phase), planned.GetGeneration()))
	p.shards(shards, planned, ReasonRequested)
	p.lists(phase)
	p.warnings(settings)
	return p.Plan, p.setPlanned(planned)
}
