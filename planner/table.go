package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"salectl/backends/ledger"
)

// TableActual is the table of the logs.
type TableActual struct {
	Name string
	// Err is the result of ledger.Table.CheckTable; nil if the table is fit, or was not
	// checked (ReadSale).
	Err error
}

// namedTable returns the table of the logs without a check; nil if there is none.
func namedTable(cfg Config) *TableActual {
	if t, ok := cfg.Logs.(ledger.Table); ok {
		return &TableActual{Name: t.Table()}
	}
	return nil
}

func (t *TableActual) unfit() bool { return t != nil && errors.Is(t.Err, ledger.ErrTableUnfit) }

// refusal returns the error of a change if the table is unfit.
func (t *TableActual) refusal() error { return unfitTable(t.Name, t.Err) }

func unfitTable(name string, err error) error {
	// The driver's text ends with the remedy. The position of the cut only affects its
	// display.
	reason, remedy, _ := strings.Cut(err.Error(), ". ")
	return &DriftError{Address: tableAddress(name), Reason: ReasonTableUnfit,
		Err: &Refusal{Reason: fmt.Sprintf("table %s: %s", name, strings.TrimSuffix(reason, ".")), Remedy: remedy}}
}

func tableAddress(name string) string { return "table/" + name }

// table plans the creation of the table for a new run; the logs of a live sale are in it.
// fresh reports that the run is new.
func (p *Plan) table(t *TableActual, fresh bool) error {
	switch {
	case t == nil || t.Err == nil:
	case t.unfit():
		return t.refusal()
	case !fresh:
		p.warn("table %s cannot be checked: %s; the sale goes on", t.Name, shortError(t.Err))
	case errors.Is(t.Err, ledger.ErrNoTable):
		p.add(Action{Address: tableAddress(t.Name), Action: Create, After: &Attributes{}, ActionReason: ReasonNew, Reason: "it does not exist"})
	default:
		return fmt.Errorf("%w: table %s cannot be checked, as a new sale asks for: %w", ErrStore, t.Name, t.Err)
	}
	return nil
}

// checkTable checks the table of the logs.
func (c *core) checkTable(then func(error)) {
	check := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CheckTable(ctx) }
	onStore(c, "check table", callTimeout, noValue(check), func(_ any, err error) { then(err) })
}

// provideTable ensures that the table exists and is fit before anything is written to it. A
// plan to make it may be older than the table, which is fine. The table of a live sale must
// exist; a failed check does not stop its apply.
func (x *execution) provideTable(then func()) {
	if x.Table == "" || x.plan.Kind != KindApply {
		then()
		return
	}
	x.begin(checkingTable)
	giveUp, pause, made := x.core.now.Mono+x.core.patience, firstPause, false
	address := tableAddress(x.Table)
	var look func()
	again := func(err error) {
		switch {
		case errors.Is(err, fs.ErrPermission):
			x.core.end(fmt.Errorf("%w: table %s: %w", ErrStore, x.Table, err))
			return
		case x.core.now.Mono > giveUp:
			x.core.end(fmt.Errorf("%w, tried for %v: table %s: %w", ErrStore, x.core.patience, x.Table, err))
			return
		}
		x.core.after(pause, look)
		pause = min(2*pause, lastPause)
	}
	create := func() {
		before := x.tableMade
		x.tableMade = true
		createTable := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CreateTable(ctx) }
		onStore(x.core, "create table", tableTimeout, noValue(createTable), func(_ any, err error) {
			if errors.Is(err, fs.ErrPermission) {
				x.tableMade = before
			}
			if made = err == nil; !made {
				again(err)
				return
			}
			x.core.changed = true
			look() // another process may have made it
		})
	}
	look = func() {
		x.core.checkTable(func(err error) {
			planned := x.actions[address] == Create
			switch {
			case err == nil:
				note := ""
				if !made {
					note = "it was there already"
				}
				x.finished(address, note)
				then()
			case errors.Is(err, ledger.ErrTableUnfit):
				x.core.end(unfitTable(x.Table, err))
			case errors.Is(err, ledger.ErrNoTable) && planned && !made:
				create()
			case errors.Is(err, ledger.ErrNoTable) && !planned:
				x.stale("has lost its table %s", x.Table)
			case x.plan.Phase != "":
				x.warn("table %s could not be checked: %s", x.Table, shortError(err))
				then()
			default:
				again(err)
			}
		})
	}
	look()
}
