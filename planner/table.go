package planner

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"salectl/backends/ledger"
)

// TableActual is the table that the logs are kept in.
type TableActual struct {
	Name string
	// Err is what ledger.Table.CheckTable said; nil if the table is fit, or was
	// not asked for (ReadSale).
	Err error
}

// namedTable is the table that logs are kept in, unasked; nil where there is
// none.
func namedTable(cfg Config) *TableActual {
	if t, ok := cfg.Logs.(ledger.Table); ok {
		return &TableActual{Name: t.Table()}
	}
	return nil
}

func (t *TableActual) unfit() bool { return t != nil && errors.Is(t.Err, ledger.ErrTableUnfit) }

// refusal is what a change says of a table that is unfit.
func (t *TableActual) refusal() error { return unfitTable(t.Name, t.Err) }

func unfitTable(name string, err error) error {
	// The driver's words end with the remedy. Where they are parted only matters
	// for how they are shown.
	reason, remedy, _ := strings.Cut(err.Error(), ". ")
	return &DriftError{Address: tableAddress(name), Reason: ReasonTableUnfit,
		Err: &Refusal{Reason: fmt.Sprintf("table %s: %s", name, strings.TrimSuffix(reason, ".")), Remedy: remedy}}
}

func tableAddress(name string) string { return "table/" + name }

// table plans the making of the table, which only a new run asks for: a live one
// has its logs in it. fresh says that the run is new.
func (p *Plan) table(t *TableActual, fresh bool) error {
	switch {
	case t == nil || t.Err == nil:
	case t.unfit():
		return t.refusal()
	case !fresh:
		p.warn("table %s cannot be checked: %s; the sale goes on", t.Name, inShort(t.Err))
	case errors.Is(t.Err, ledger.ErrNoTable):
		p.add(Action{Address: tableAddress(t.Name), Action: Create, After: &Attributes{}, ActionReason: ReasonNew, Reason: "it does not exist"})
	default:
		return fmt.Errorf("%w: table %s cannot be checked, as a new sale asks for: %w", ErrStore, t.Name, t.Err)
	}
	return nil
}

// provideTable sees to it that the table is there and fit before anything is
// written to it. A plan to make it may be older than the table: that is fine,
// as long as the table is. Of a live sale the table must be there, and that it
// cannot be asked is no reason to stop.
func (x *execution) provideTable(then func()) {
	if x.table == "" || x.plan.Kind != KindApply {
		then()
		return
	}
	x.begin(checkingTable)
	giveUp, pause, made := x.core.now.Mono+x.core.patience, firstPause, false
	address := tableAddress(x.table)
	var look func()
	again := func(err error) {
		switch {
		case errors.Is(err, fs.ErrPermission):
			x.core.end(fmt.Errorf("%w: table %s: %w", ErrStore, x.table, err))
			return
		case x.core.now.Mono > giveUp:
			x.core.end(fmt.Errorf("%w, tried for %v: table %s: %w", ErrStore, x.core.patience, x.table, err))
			return
		}
		x.core.after(pause, look)
		pause = min(2*pause, lastPause)
	}
	create := func() {
		before := x.tableMade
		x.tableMade = true
		x.core.call(call{kind: callCreateTable}, func(r reply) {
			if errors.Is(r.err, fs.ErrPermission) {
				x.tableMade = before
			}
			if made = r.err == nil; !made {
				again(r.err)
				return
			}
			x.core.changed = true
			look() // somebody else may have made it, and otherwise
		})
	}
	look = func() {
		x.core.call(call{kind: callCheckTable}, func(r reply) {
			planned := x.actions[address] == Create
			switch {
			case r.err == nil:
				note := ""
				if !made {
					note = "it was there already"
				}
				x.finished(address, note)
				then()
			case errors.Is(r.err, ledger.ErrTableUnfit):
				x.core.end(unfitTable(x.table, r.err))
			case errors.Is(r.err, ledger.ErrNoTable) && planned && !made:
				create()
			case errors.Is(r.err, ledger.ErrNoTable) && !planned:
				x.stale("has lost its table %s", x.table)
			case x.plan.Phase != "":
				x.warn("table %s could not be checked: %s", x.table, inShort(r.err))
				then()
			default:
				again(r.err)
			}
		})
	}
	look()
}
