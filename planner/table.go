package planner

import (
	"errors"
	"fmt"
	"strings"

	"salectl/backends/ledger"
)

// TableActual is the table of the logs.
type TableActual struct {
	Name string
	// Err is the result of ledger.Table.CheckTable; nil if the table is fit, or was not
	// checked (current.ReadSale).
	Err error
}

// Unfit reports whether the table was checked and does not fit a ledger.
func (t *TableActual) Unfit() bool { return t != nil && errors.Is(t.Err, ledger.ErrTableUnfit) }

// UnfitTable returns the refusal of a change if the table is unfit.
func UnfitTable(name string, err error) error {
	// The driver's text ends with the remedy. The position of the cut only affects its
	// display.
	reason, remedy, _ := strings.Cut(err.Error(), ". ")
	return &DriftError{Address: TableAddress(name), Reason: ReasonTableUnfit,
		Err: &Refusal{Reason: fmt.Sprintf("table %s: %s", name, strings.TrimSuffix(reason, ".")), Remedy: remedy}}
}

// table plans the creation of the table for a new run; the logs of a live sale are in it.
// fresh reports that the run is new.
func (p *Plan) table(t *TableActual, fresh bool) error {
	switch {
	case t == nil || t.Err == nil:
	case t.Unfit():
		return UnfitTable(t.Name, t.Err)
	case !fresh:
		p.warn("table %s cannot be checked: %s; the sale goes on", t.Name, ShortError(t.Err))
	case errors.Is(t.Err, ledger.ErrNoTable):
		p.add(Action{Address: TableAddress(t.Name), Action: Create, After: &Attributes{}, ActionReason: ReasonNew, Reason: "it does not exist"})
	default:
		return fmt.Errorf("%w: table %s cannot be checked, as a new sale asks for: %w", ErrStore, t.Name, t.Err)
	}
	return nil
}
