package current

import (
	"context"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/planner/machine"
)

// ReadActual reads all of a sale that Make needs. If the sale's own log cannot be read, the
// error is ErrStore. A shard, node or table that cannot be read is no error; its Err is set.
func ReadActual(ctx context.Context, from machine.Backends, name string) (*planner.Actual, error) {
	return read(ctx, from, from.Names(), name)
}

// ReadSale is ReadActual without the check of the table, for callers that make no table and
// cannot wait for its servers.
func ReadSale(ctx context.Context, from machine.Backends, name string) (*planner.Actual, error) {
	names := from.Names()
	table := names.Table
	names.Table = ""
	a, err := read(ctx, from, names, name)
	if a != nil && table != "" {
		a.Table = &planner.TableActual{Name: table}
	}
	return a, err
}

func read(ctx context.Context, from machine.Backends, names machine.Names, name string) (*planner.Actual, error) {
	m, actual := NewReading(ReadTerms{names, ledger.ReadTries, from.ReadTimeout}, name)
	if err := from.Run(ctx, name, m); err != nil {
		return nil, err
	}
	return actual, nil
}
