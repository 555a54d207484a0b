package units

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
)

// Change is the difference between the declared units and those that a sale has.
type Change struct {
	Gone  []int64  // numbers of the units that are no longer declared, ascending
	lines []uint32 // lines of the declared units that the sale does not have, ascending
	seen  *seen    // result of the reading that was compared
}

// Added returns the number of declared units that the sale does not have.
func (c *Change) Added() int64 { return int64(len(c.lines)) }

func (c *Change) adds(line int64) bool {
	if c == nil {
		return true
	}
	_, found := slices.BinarySearch(c.lines, uint32(line))
	return found
}

// EachExisting calls each for the units that a sale has, in any order, each with its number, until each
// returns an error, which EachExisting then returns.
type EachExisting = func(each func(number int64, u Unit) error) error

// matched is set in mark.line for a unit that the sale has.
const matched = 1 << 31

// Compare compares the declared units with those that a sale has. A unit that is declared under
// the name of an existing one, with other attributes, is refused. So is all that Check refuses.
func (s *Source) Compare(ctx context.Context, have EachExisting) (*Change, error) {
	marks, _, err := s.index(ctx)
	if err != nil {
		return nil, err
	}
	c := &Change{seen: s.seen}
	var altered []heldUnit // without attributes, and with a name only if there are no lines
	err = have(func(number int64, u Unit) error {
		is := s.marker.mark(0, u)
		switch at, found := slices.BinarySearchFunc(marks, is, byName); {
		case !found:
			c.Gone = append(c.Gone, number)
		case marks[at].line&matched != 0:
			return errors.New("the sale has a unit twice: its ledger is damaged. Run audit")
		default:
			if marks[at].whole != is.whole {
				other := heldUnit{line: int64(marks[at].line)}
				if !s.units.FromFile {
					other.unit.Name = strings.Clone(u.Name)
				}
				altered = append(altered, other)
			}
			marks[at].line |= matched
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	problems := s.problems()
	slices.SortFunc(altered, func(a, b heldUnit) int { return cmp.Compare(a.line, b.line) })
	for _, other := range altered {
		if s.units.FromFile {
			_ = problems.refuse(int(other.line), 1, "Write the line as it was; or rename the unit, which makes it a new one.",
				"the unit of this line is in the sale already, with other attributes")
		} else {
			_ = problems.refuse(0, 0, "Declare the units by a file, as before; or rename the unit.",
				"the unit %s is in the sale already, with attributes that a range does not have", other.unit.Name)
		}
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	slices.Sort(c.Gone)
	for _, m := range marks {
		if m.line&matched == 0 {
			c.lines = append(c.lines, m.line)
		}
	}
	slices.Sort(c.lines)
	return c, nil
}
