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
func (x *execution) provideTable() {
	if x.Table == "" || x.plan.Kind != planner.KindApply {
		return
	}
	x.begin("checking the table")
	deadline, pause, made := x.core.Now.Mono+x.core.Patience, machine.FirstPause, false
	address := planner.TableAddress(x.Table)
	for {
		err := x.core.CheckTable()
		planned := x.actions[address] == planner.Create
		switch {
		case err == nil:
			note := ""
			if !made {
				note = "it was there already"
			}
			x.finished(address, note)
			return
		case errors.Is(err, ledger.ErrTableUnfit):
			x.core.Fail(planner.UnfitTable(x.Table, err))
		case errors.Is(err, ledger.ErrNoTable) && planned && !made:
			if err = x.createTable(); err == nil {
				made = true
				continue // another process may have made it
			}
		case errors.Is(err, ledger.ErrNoTable) && !planned:
			x.stale("has lost its table %s", x.Table)
		case x.plan.Phase != "":
			x.warn("table %s could not be checked: %s", x.Table, planner.ShortError(err))
			return
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			x.core.Fail(&planner.StoreError{Err: fmt.Errorf("table %s: %w", x.Table, err)})
		case x.core.Now.Mono > deadline:
			x.core.Fail(&planner.StoreError{Tried: x.core.Patience, Err: fmt.Errorf("table %s: %w", x.Table, err)})
		}
		x.core.Sleep(pause)
		pause = min(2*pause, machine.LastPause)
	}
}

func (x *execution) createTable() error {
	before := x.tableMade
	x.tableMade = true
	createTable := func(ctx context.Context, logs ledger.Logs) error { return logs.(ledger.Table).CreateTable(ctx) }
	_, err := machine.OnStore(x.core, "create table", tableTimeout, machine.NoValue(createTable))
	if errors.Is(err, fs.ErrPermission) {
		x.tableMade = before
	}
	x.core.Changed = x.core.Changed || err == nil
	return err
}
