package current

import (
	"context"
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/backends/ledger/payload"
	"salectl/planner"
	"salectl/spec"
	"salectl/units"
)

// ReadUnits reads the payloads of a sale and compares them with the present run. It reads the
// shards' logs only if the payloads differ from those applied last, claims were refunded, or
// the shards have too many units. If source is nil, units are numbers, and the result is nil.
func ReadUnits(ctx context.Context, logs ledger.Logs, declared *spec.Units, source *units.Source, actual *planner.Actual) *planner.UnitsActual {
	if source == nil {
		return nil
	}
	u := &planner.UnitsActual{Source: source}
	err := readUnits(ctx, logs, actual, u)
	if err == nil && declared.Choose && u.Added > 0 {
		err = readRows(ctx, declared, u)
	}
	if err != nil {
		return &planner.UnitsActual{Err: err}
	}
	return u
}

func readUnits(ctx context.Context, logs ledger.Logs, actual *planner.Actual, u *planner.UnitsActual) error {
	sale := actual.Sale
	has, _ := actual.Totals()
	is, err := u.Source.Check(ctx)
	if err != nil {
		return err
	}
	u.Digest = is.Digest
	switch {
	case !sale.Live():
		u.Added = is.Count
		return nil
	case string(sale.Newest().GetUnits()) == string(u.Digest[:]) && has.Refunded == 0 && has.Limit <= is.Count:
		return nil // else a unit may be left that was to be removed; a refund may have lowered the limits
	}
	shards, err := ledger.LoadShards(ctx, logs, sale)
	if err != nil {
		return err
	}
	payloads := payload.NewReader(logs, sale.UID(), u.Source.Key())
	payloads.Follow(sale.Added())
	dropped, leaving := make([]ledger.Units, len(shards)), make([]ledger.Units, len(shards))
	for i, s := range shards {
		dropped[i] = s.DroppedUnits()
		for g := s.Generation + 1; g <= sale.Generation(); g++ {
			op := sale.ShardGeneration(g, i)
			restored, _ := ledger.UnitsOf(op.GetRestore()) // accepted generations are well formed
			dropped[i], leaving[i] = dropped[i].Minus(restored), leaving[i].Minus(restored)
			if leaving[i], err = leaving[i].Plus(op.GetDrop()); err != nil {
				return fmt.Errorf("%s, generation %d: %w", planner.ShardAddress(i), g, err)
			}
		}
	}
	u.Change, err = u.Source.Compare(ctx, func(each func(int64, units.Unit) error) error {
		return payloads.EachUnit(ctx, 1, func(number int64, is units.Unit) error {
			if among(dropped, number) {
				return nil
			}
			return each(number, is)
		})
	})
	if err != nil {
		return err
	}
	u.Added = u.Change.Added()
	gone := slices.DeleteFunc(slices.Clone(u.Change.Gone), func(unit int64) bool { return among(leaving, unit) })
	var going, notListed ledger.Units
	going.Include(gone)
	notListed.Include(u.Change.Gone)
	for i, s := range shards {
		u.Gone = append(u.Gone, s.AvailableUnits().And(going))
		u.Leaving = append(u.Leaving, leaving[i].Minus(notListed))
	}
	retired := retiredUnits(shards)
	u.Taken = slices.DeleteFunc(gone, func(unit int64) bool { return among(u.Gone, unit) || retired.Has(unit) })
	return nil
}

// retiredUnits returns the units that refunds have retired: no user has them.
func retiredUnits(shards []*ledger.State) (retired ledger.Units) {
	for _, s := range shards {
		if s.Refunded == 0 {
			continue
		}
		for i := range s.Claims() {
			if c := s.Claim(i); c.Retired {
				retired.Include(c.Units)
			}
		}
	}
	return retired
}

// rowColumn is the column of a file that names the row of a place.
const rowColumn = "row"

// readRows finds which new units are adjacent: those declared consecutively in one range, or
// on lines with the same row.
func readRows(ctx context.Context, declared *spec.Units, u *planner.UnitsActual) error {
	ranges, left := declared.Rows(), int64(0)
	at := slices.Index(u.Source.Columns(), rowColumn) - 1 // index among the attributes
	if len(ranges) == 0 && at < 0 {
		return nil
	}
	row, before, follows := "", "", false
	return u.Source.Read(ctx, u.Change, func(is units.Unit, added bool) error {
		switch {
		case at >= 0 && len(ranges) == 0:
			row = is.Attributes[at]
		case left == 0:
			left, ranges = ranges[0], ranges[1:]
			row = is.Name // name of the first in its range
			fallthrough
		default:
			left--
		}
		switch {
		case !added:
		case follows && row == before:
			u.Rows[len(u.Rows)-1]++
		default:
			u.Rows = append(u.Rows, 1)
		}
		before, follows = row, added
		return nil
	})
}

// among reports whether one of several sets has a unit.
func among(sets []ledger.Units, unit int64) bool {
	return slices.ContainsFunc(sets, func(u ledger.Units) bool { return u.Has(unit) })
}
