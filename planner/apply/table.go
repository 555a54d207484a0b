package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/machine"
)

// tableTimeout is the timeout of the call that makes a table.
const tableTimeout = time.Minute

// provideTable ensures that the table exists and is fit before anything is written to it. A
// plan to make it may be older than the table, which is fine. The table of a live sale must
// exist; a failed check does not stop its apply.
func (x *execution) provideTable(then func()) {
	if x.Table == "" || x.plan.Kind != planner.KindApply {
		then()
		return
	}
	x.begin(checkingTable)
	giveUp, pause, made := x.core.Now.Mono+x.core.Patience, machine.FirstPause, false
	address := planner.TableAddress(x.Table)
	var look func()
	again := func(err error) {
		switch {
		case errors.Is(err, fs.ErrPermission):
			x.core.End(fmt.Errorf("%w: table %s: %w", planner.ErrStore, x.Table, err))
			return
		case x.core.Now.Mono > giveUp:
			x.core.End(fmt.Errorf("%w, tried for %v: table %s: %w", planner.ErrStore, x.core.Patience, x.Table, err))
			return
		}
		x.core.After(pause, look)
		pause = min(2*pause, machine.LastPause)
	}
	create := func() {
		before := x.tableMade
		x.tableMade = true
		createTable := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CreateTable(ctx) }
		machine.OnStore(x.core, "create table", tableTimeout, machine.NoValue(createTable), func(_ any, err error) {
			if errors.Is(err, fs.ErrPermission) {
				x.tableMade = before
			}
			if made = err == nil; !made {
				again(err)
				return
			}
			x.core.Changed = true
			look() // another process may have made it
		})
	}
	look = func() {
		x.core.CheckTable(func(err error) {
			planned := x.actions[address] == planner.Create
			switch {
			case err == nil:
				note := ""
				if !made {
					note = "it was there already"
				}
				x.finished(address, note)
				then()
			case errors.Is(err, ledger.ErrTableUnfit):
				x.core.End(planner.UnfitTable(x.Table, err))
			case errors.Is(err, ledger.ErrNoTable) && planned && !made:
				create()
			case errors.Is(err, ledger.ErrNoTable) && !planned:
				x.stale("has lost its table %s", x.Table)
			case x.plan.Phase != "":
				x.warn("table %s could not be checked: %s", x.Table, planner.ShortError(err))
				then()
			default:
				again(err)
			}
		})
	}
	look()
}
