package ledger

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	pb "salectl/backends/ledger/ledgerpb"
)

// Range is a run of unit numbers: First, First+1, ... (Count of them).
type Range struct{ First, Count int64 }

// End returns the number after the last unit.
func (r Range) End() int64 { return r.First + r.Count }

// Compare returns -1 if the range ends before a unit, 0 if it has it, and 1 if it begins after it.
func (r Range) Compare(unit int64) int {
	switch {
	case r.End() <= unit:
		return -1
	case r.First > unit:
		return 1
	}
	return 0
}

// Valid reports whether the range has units, all with numbers above 0.
func (r Range) Valid() bool { return r.First >= 1 && r.Count >= 1 && r.End() > r.First }

func (r Range) String() string {
	if r.Count == 1 {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.End()-1)
}

// Units is a set of unit numbers: disjoint ranges in ascending order, none
// touching the next. The zero value is the empty set.
type Units []Range

// Valid reports whether the ranges are valid, disjoint and in order. Ranges from another process may
// not be.
func (u Units) Valid() bool {
	for i, r := range u {
		if !r.Valid() || i > 0 && r.First < u[i-1].End() {
			return false
		}
	}
	return true
}

// Count returns the number of units in the set.
func (u Units) Count() (n int64) {
	for _, r := range u {
		n += r.Count
	}
	return n
}

// Add adds a range to the set. It fails, and changes nothing, if the range is
// malformed or one of its units is in the set already.
func (u *Units) Add(r Range) error {
	if !r.Valid() {
		return fmt.Errorf("units %d+%d are no range", r.First, r.Count)
	}
	i := u.after(r.First)
	if i > 0 && (*u)[i-1].End() > r.First || i < len(*u) && (*u)[i].First < r.End() {
		return fmt.Errorf("units %v are here already", r)
	}
	joinsLeft := i > 0 && (*u)[i-1].End() == r.First
	joinsRight := i < len(*u) && (*u)[i].First == r.End()
	switch {
	case joinsLeft && joinsRight:
		(*u)[i-1].Count += r.Count + (*u)[i].Count
		*u = slices.Delete(*u, i, i+1)
	case joinsLeft:
		(*u)[i-1].Count += r.Count
	case joinsRight:
		(*u)[i].First, (*u)[i].Count = r.First, (*u)[i].Count+r.Count
	default:
		*u = slices.Insert(*u, i, r)
	}
	return nil
}

// Remove removes a range from the set. It fails, and changes nothing, if the set
// lacks one of its units.
func (u *Units) Remove(r Range) error {
	i := u.after(r.First) - 1
	if !r.Valid() || i < 0 || (*u)[i].End() < r.End() {
		return fmt.Errorf("units %v are not here", r)
	}
	left := Range{(*u)[i].First, r.First - (*u)[i].First}
	right := Range{r.End(), (*u)[i].End() - r.End()}
	switch {
	case left.Count > 0 && right.Count > 0:
		(*u)[i] = left
		*u = slices.Insert(*u, i+1, right)
	case left.Count > 0:
		(*u)[i] = left
	case right.Count > 0:
		(*u)[i] = right
	case i == 0:
		*u = (*u)[1:] // the usual case: the lowest go first
	default:
		*u = slices.Delete(*u, i, i+1)
	}
	return nil
}

// eachRun calls do for the runs of listed units, until it returns an error. A claim's units usually
// are one run.
func eachRun(units []int64, do func(Range) error) error {
	for len(units) > 0 {
		r := Range{units[0], 1}
		for r.Count < int64(len(units)) && units[r.Count] == r.End() {
			r.Count++
		}
		if err := do(r); err != nil {
			return err
		}
		units = units[r.Count:]
	}
	return nil
}

// hasEach reports whether all listed units are in the set.
func (u Units) hasEach(units []int64) bool {
	return !slices.ContainsFunc(units, func(unit int64) bool { return !u.Has(unit) })
}

// Has reports whether a unit is in the set.
func (u Units) Has(unit int64) bool {
	i := u.after(unit) - 1
	return i >= 0 && unit < u[i].End()
}

// lowest returns the n lowest units. The set must have that many.
func (u Units) lowest(n int64) []int64 {
	rest := slices.Clone(u[:min(int64(len(u)), n)]) // each range has a unit
	return rest.takeLowest(nil, n)
}

// takeLowest appends the n lowest units to dst and removes them. The set must
// have that many.
func (u *Units) takeLowest(dst []int64, n int64) []int64 {
	for ; n > 0; n-- {
		r := &(*u)[0]
		dst = append(dst, r.First)
		r.First++
		r.Count--
		if r.Count == 0 {
			*u = (*u)[1:]
		}
	}
	return dst
}

// takeHighest removes and returns the n highest units; fewer, if the set has no
// more or they are in more than most ranges.
func (u *Units) takeHighest(n int64, most int) Units {
	var out Units
	for n > 0 && len(*u) > 0 && len(out) < most {
		r := &(*u)[len(*u)-1]
		c := min(n, r.Count)
		r.Count -= c
		out = append(out, Range{r.End(), c})
		n -= c
		if r.Count == 0 {
			*u = (*u)[:len(*u)-1]
		}
	}
	slices.Reverse(out)
	return out
}

// addAll adds units to the set, which must have none of them.
func (u *Units) addAll(others Units) error {
	for _, r := range others {
		if err := u.Add(r); err != nil {
			return err
		}
	}
	return nil
}

// takeThose removes and returns the wanted units that are in the set.
func (u *Units) takeThose(wanted Units) Units {
	taken := u.And(wanted)
	*u = u.Minus(wanted)
	return taken
}

// And returns the units that are in both sets.
func (u Units) And(v Units) Units { return u.Minus(u.Minus(v)) }

// Minus returns the units that are in u and not in v.
func (u Units) Minus(v Units) (out Units) {
	for _, r := range u {
		v = v[max(0, v.after(r.First)-1):]
		for i := 0; i < len(v) && v[i].First < r.End(); i++ {
			if n := v[i].First - r.First; n > 0 {
				out = append(out, Range{r.First, n})
			}
			if next := v[i].End(); next > r.First {
				r = Range{next, r.End() - next}
			}
		}
		if r.Count > 0 {
			out = append(out, r)
		}
	}
	return out
}

// after returns the index of the first range that begins after unit.
func (u Units) after(unit int64) int {
	if len(u) == 0 || unit < u[0].First {
		return 0
	}
	return sort.Search(len(u), func(i int) bool { return u[i].First > unit })
}

// Plus returns the set with the units of ranges, of which it must have none.
func (u Units) Plus(ranges []*pb.Range) (Units, error) {
	others, err := UnitsOf(ranges)
	all := slices.Clone(u)
	return all, errors.Join(err, all.addAll(others))
}

// Proto returns the stored form of the set; nil for the empty one.
func (u Units) Proto() []*pb.Range {
	if len(u) == 0 {
		return nil
	}
	out := make([]*pb.Range, len(u))
	for i, r := range u {
		out[i] = &pb.Range{First: r.First, Count: r.Count}
	}
	return out
}

// UnitsOf parses the stored form of a set. The order of the ranges does not matter; a
// unit that occurs twice is an error.
func UnitsOf(ranges []*pb.Range) (Units, error) {
	var u Units
	for _, r := range ranges {
		if err := u.Add(Range{r.GetFirst(), r.GetCount()}); err != nil {
			return nil, err
		}
	}
	return u, nil
}
