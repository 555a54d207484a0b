package ledger

import (
	"fmt"
	"slices"
	"sort"

	pb "salectl/backends/ledger/ledgerpb"
)

// A claim may choose its units: by number, or a quantity of adjacent ones. The rows of the
// settings define adjacency: they are ranges of unit numbers, such as the seats of a row. Two
// units are adjacent if their numbers are consecutive and one row contains both. The log
// records only the units of a claim, not that the claim chose them.

// MaxRows is the maximum number of rows in settings.
const MaxRows = 10_000

// Demand is what a claim requires beyond a quantity. If the settings do not permit choosing, a claim
// with Units or Adjacent is NoChoice. Otherwise it gets all requested units or is Short, even if the
// settings are partial.
type Demand struct {
	Units    []int64 // chosen units, distinct and ascending, which replace the quantity; nil: any
	Adjacent bool    // the lowest adjacent units of a row
	Partial  bool    // where the settings are partial: grant fewer units if the shard has too few; Short only if it has none
}

func (w Demand) chooses() bool { return w.Adjacent || w.Units != nil }

// quantity returns the number of requested units.
func (w Demand) quantity(n int64) int64 {
	if w.Units != nil {
		return int64(len(w.Units))
	}
	return n
}

// fits reports whether a request with this demand may have been answered by a claim with
// units. requested is the quantity of that claim if it got fewer units, else 0. The log does not
// record the choice: named units must be those of the claim, adjacent ones must have
// consecutive numbers. Their row may have changed since, when a unit of it was removed. A
// demand for any units accepts chosen ones.
func (w Demand) fits(units []int64, requested uint32) bool {
	switch {
	case !w.chooses():
		return true
	case requested != 0:
		return false
	case w.Units != nil:
		return slices.Equal(units, w.Units)
	}
	return isRun(units)
}

// Missing returns the units of a set that are not available.
func (draft *Draft) Missing(u Units) Units { return u.Minus(draft.after.available) }

// Pick returns available units, except those in kept, for a transfer to a shard that requested
// them: the units in named; if run is above 0, the lowest adjacent units, run in number; and the
// highest of the others. share returns how many of the others, given their number. The result
// has no more ranges than a transfer may have, provided that named does not either.
func (draft *Draft) Pick(named Units, run int64, share func(spare int64) int64, kept Units) Units {
	rest := draft.after.available.Minus(kept)
	picked := rest.And(named)
	rest = rest.Minus(picked)
	var more []Range
	if run > 0 {
		if first, ok := rest.run(run, draft.state.settings.GetRows()); ok {
			more = append(more, Range{first, run})
			_ = rest.Remove(more[0]) // it is there
		}
	}
	more = append(more, rest.takeHighest(share(rest.Count()), draft.bounds.Ranges-len(picked)-len(more))...)
	for _, r := range more {
		_ = picked.Add(r) // it was not picked before
	}
	return picked
}

// Include adds to the set those of the listed units that it lacks.
func (u *Units) Include(units []int64) {
	for _, unit := range units {
		if !u.Has(unit) {
			_ = u.Add(Range{unit, 1}) // it is not there
		}
	}
}

// HasRun reports whether the set has n units that are adjacent by the settings.
func (u Units) HasRun(n int64, s *pb.Settings) bool {
	_, ok := u.run(n, s.GetRows())
	return ok
}

// run returns the first of the lowest n consecutive units of the set that one row contains.
// The rows are in ascending order.
func (u Units) run(n int64, rows []*pb.Range) (first int64, ok bool) {
	row := 0
	for _, r := range u {
		if r.Count < n {
			continue
		}
		row += sort.Search(len(rows)-row, func(i int) bool { return rows[row+i].GetFirst()+rows[row+i].GetCount() > r.First })
		for i := row; i < len(rows) && rows[i].GetFirst() < r.End(); i++ {
			first, end := max(r.First, rows[i].GetFirst()), min(r.End(), rows[i].GetFirst()+rows[i].GetCount())
			if end-first >= n {
				return first, true
			}
		}
	}
	return 0, false
}

// choosable validates the rows of settings.
func choosable(s *pb.Settings) error {
	rows := s.GetRows()
	switch {
	case len(rows) > 0 && !s.GetChoose():
		return fmt.Errorf("rows of units that nobody may choose")
	case len(rows) > MaxRows:
		return fmt.Errorf("%d rows of units, at most %d are allowed", len(rows), MaxRows)
	}
	for i, row := range rows {
		r := Range{row.GetFirst(), row.GetCount()}
		if !r.Valid() || i > 0 && r.First < rows[i-1].GetFirst()+rows[i-1].GetCount() {
			return fmt.Errorf("row %d has the units %d+%d: rows are ranges in ascending order that share no unit", i+1, r.First, r.Count)
		}
	}
	return nil
}
