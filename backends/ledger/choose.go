package ledger

import (
	"fmt"
	"slices"
	"sort"

	pb "salectl/backends/ledger/ledgerpb"
)

// Claims that choose their units: by their numbers, or so many that lie side by side.
// What lies side by side is said by the rows of the settings: ranges of unit numbers, such
// as the seats of a row. Two units are adjacent if their numbers follow each other and one
// row has both. The log does not say that a claim has chosen; its units do.

// MaxRows is how many rows settings may have.
const MaxRows = 10_000

// Demand is what a claim asks for beyond a quantity. Where the settings let nobody choose, a claim with
// Units or Adjacent is NoChoice; otherwise it gets all that it asks for or is Short, also where they
// have partial.
type Demand struct {
	Units    []int64 // these, distinct and in ascending order, which replace the quantity; nil: any
	Adjacent bool    // the lowest that lie side by side in a row
	Partial  bool    // where the settings are partial: grant fewer units if the shard has too few; Short only if it has none
}

func (w Demand) chooses() bool { return w.Adjacent || w.Units != nil }

// quantity returns how many units are asked for.
func (w Demand) quantity(n int64) int64 {
	if w.Units != nil {
		return int64(len(w.Units))
	}
	return n
}

// fits reports whether a claim that was given units, of so many asked for if those were
// more, else 0, may be one of this demand. The log does not have what a claim has chosen:
// named units are what it was given, and adjacent ones have numbers that follow each other.
// Their row may have changed since, when a unit of it was taken out. Whoever asks for any
// units is content with those that another chose.
func (w Demand) fits(units []int64, asked uint32) bool {
	switch {
	case !w.chooses():
		return true
	case asked != 0:
		return false
	case w.Units != nil:
		return slices.Equal(units, w.Units)
	}
	return isRun(units)
}

// choose reports whether the units that a claim chooses are here, and where adjacent ones begin.
func (d *Draft) choose(quantity int64, w Demand) (first int64, ok bool) {
	switch {
	case w.Units != nil:
		return 0, d.available.hasEach(w.Units)
	case w.Adjacent:
		return d.available.run(quantity, d.state.settings.GetRows())
	}
	return 0, true
}

// takeUnits takes the n units of a claim, which are available: those that it asks for, those
// from first on if they are to be adjacent, or the lowest.
func (d *Draft) takeUnits(n int, first int64, w Demand) []int64 {
	units := d.unitSlice(n)
	switch {
	case w.Units != nil:
		units = append(units, w.Units...)
	case w.Adjacent:
		for i := range int64(n) {
			units = append(units, first+i)
		}
	default:
		return d.available.takeLowest(units, int64(n))
	}
	if err := d.available.removeEach(units); err != nil {
		panic("ledger: a claim takes what is not available: " + err.Error())
	}
	return units
}

// Missing puts those of the units listed into a set that are not available here.
func (d *Draft) Missing(u *Units, units []int64) {
	for _, unit := range units {
		if !d.available.Has(unit) {
			u.include(unit)
		}
	}
}

// Pick returns units that are available here, but for those kept, to be sent to a shard that
// asks for them: those of the set named; if run is above 0 the lowest so many adjacent ones;
// and of the others the highest, as many as share says when it is told how many there are.
// They lie in no more ranges than a transfer may have, if those named do.
func (d *Draft) Pick(named Units, run int64, share func(spare int64) int64, kept Units) Units {
	rest := d.available.Minus(kept)
	picked := rest.Minus(rest.Minus(named))
	rest = rest.Minus(picked)
	var more []Range
	if run > 0 {
		if first, ok := rest.run(run, d.state.settings.GetRows()); ok {
			more = append(more, Range{first, run})
			_ = rest.Remove(more[0]) // it is there
		}
	}
	more = append(more, rest.takeHighest(share(rest.Count()), d.bounds.Ranges-len(picked)-len(more))...)
	for _, r := range more {
		_ = picked.Add(r) // it was not picked before
	}
	return picked
}

// Include puts those of the units listed into the set that are not there.
func (u *Units) Include(units []int64) {
	for _, unit := range units {
		u.include(unit)
	}
}

func (u *Units) include(unit int64) {
	if !u.Has(unit) {
		_ = u.Add(Range{unit, 1}) // it is not there
	}
}

// HasRun reports whether the set has n units that are adjacent by the settings.
func (u Units) HasRun(n int64, s *pb.Settings) bool {
	_, ok := u.run(n, s.GetRows())
	return ok
}

// run returns where the lowest n units begin that follow each other in the set and lie in
// one row. The rows are in ascending order.
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

// choosable checks what settings say of choosing.
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
