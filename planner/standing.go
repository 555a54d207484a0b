package planner

import (
	"fmt"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// Standing is the relation of the sale's log to the plan.
type Standing int

const (
	IsDue     Standing = iota // the plan's slot is the next one
	IsPlanned                 // the log has the plan
	IsEnded                   // the run is sealed or destroyed
	IsBehind                  // the log ends before the plan's slot
	IsOther                   // the log has diverged
)

// Standing returns the relation of the sale's log, as it was read, to the plan. intent is the op
// that the plan appends; nil: none.
func (p *Plan) Standing(intent *pb.Planned, s *ledger.Sale) Standing {
	switch {
	case s.Next() < p.Slot:
		return IsBehind
	case p.UID != "" && s.UID() == p.UID && !s.Live():
		return IsEnded
	case intent == nil && s.UID() == p.UID && s.Generation() == p.Generation:
		return IsPlanned
	case s.Root() == p.After:
		return IsDue
	}
	if p.storedIn(s) {
		return IsPlanned
	}
	return IsOther
}

// storedIn reports whether the sale's log has the plan.
func (p *Plan) storedIn(s *ledger.Sale) bool {
	for g := uint64(1); g <= s.Generation(); g++ {
		if op, slot := s.Planned(g); slot == p.Slot && string(op.GetPlanDigest()) == string(p.Digest[:]) {
			return true
		}
	}
	return false
}

// CheckState returns ErrStale if a plan could no longer be carried out when the sale's log was read.
// A caller with several plans checks all of them first. A plan that was carried out before,
// fully or in part, fits. An execution checks again.
func (p *Plan) CheckState(sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil {
		return err
	}
	switch p.Standing(intent, sale) {
	case IsOther:
		return Stale("has changed since the plan was made")
	case IsEnded:
		if p.Kind != KindDestroy {
			return Stale("was destroyed since the plan was made")
		}
	}
	return nil // the log ends before the plan's slot: the read lags
}

// checkDeclaration returns ErrStale if a plan of apply does not lead to the declaration in the sale
// file, because the file has changed or the plan was made for another. The sale's log was read
// as for CheckState.
func (p *Plan) checkDeclaration(desired spec.Sale, sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil || p.Kind != KindApply {
		return err
	}
	repeats := intent == nil // of an earlier declaration
	if repeats {
		if intent = sale.Newest(); intent == nil {
			return nil // the read lags
		}
	}
	old, err := Declared(intent)
	switch {
	case err != nil && repeats:
		return fmt.Errorf("sale %s: %w", p.Sale, err)
	case err != nil:
		return fmt.Errorf("%w: sale %s: %w", ErrBadPlan, p.Sale, err)
	}
	if repeats && intent.GetSettings().GetPhase() == pb.Phase_CLOSED && desired.Phase != spec.PhaseOpen && desired.Phase != spec.PhasePaused {
		desired.Phase = old.Phase // as in nextPhase
	}
	_, changed, err := differ(desired, old)
	if err != nil || !changed {
		return err
	}
	var names []string
	for _, f := range (Action{Before: saleAttributes(old, old.Stock, "", 0), After: saleAttributes(desired, desired.Stock, "", 0)}).Fields() {
		names = append(names, f.Name)
	}
	return Stale("%s", strings.Join(append([]string{"has another declaration in its file than in the plan"}, names...), ", "))
}

// Stale returns the error of a plan that the sale has moved past.
func Stale(format string, args ...any) error {
	return fmt.Errorf("%w: the sale %s; make a new plan", ErrStale, fmt.Sprintf(format, args...))
}
