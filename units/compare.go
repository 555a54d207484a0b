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
	Gone  []int64 // numbers of the units that are no longer declared, ascending
	Added int64   // number of declared units that the sale does not have

	lines []uint64 // bitmap of the lines whose unit is added
	seen  *seen    // result of the reading that was compared
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
		s.refuseAltered(problems, other)
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	slices.Sort(c.Gone)
	for _, m := range marks {
		if m.line&matched == 0 {
			c.Added++
			c.add(uint64(m.line))
		}
	}
	return c, nil
}

func (s *Source) refuseAltered(problems *problems, other heldUnit) {
	if !s.units.FromFile {
		_ = problems.refuse(0, 0, "Declare the units by a file, as before; or give the unit another name.",
			"the unit %s is in the sale already, with attributes that a range does not have", other.unit.Name)
		return
	}
	_ = problems.refuse(int(other.line), 1, "Write the line as it was; or give the unit another name, which makes it a new one.",
		"the unit of this line is in the sale already, with other attributes")
}

func (c *Change) add(line uint64) {
	for uint64(len(c.lines)) <= line/64 {
		c.lines = append(c.lines, 0)
	}
	c.lines[line/64] |= 1 << (line % 64)
}

func (c *Change) added(line uint64) bool {
	return line/64 < uint64(len(c.lines)) && c.lines[line/64]>>(line%64)&1 == 1
}

// New calls each for the added units in order; for all if c is nil. As with Read, these are
// units that the first reading has seen, even if New returns an error.
func (s *Source) New(ctx context.Context, c *Change, each func(Unit) error) error {
	if c == nil {
		return s.Read(ctx, each)
	}
	s.seen = c.seen // also if this is another source than the one that compared
	problems := s.problems()
	if _, err := s.scan(ctx, problems, func(line int64, u Unit) error {
		if !c.added(uint64(line)) {
			return nil
		}
		return each(u)
	}); err != nil {
		return err
	}
	return problems.err()
}
