package units

import (
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

// matched marks, in mark.line, a unit that the sale has.
const matched = 1 << 63

// Compare compares the declared units with those that a sale has. It calls have twice if it must
// examine a unit again. A unit that is declared under the name of an existing one, with other
// attributes, is refused. So is all that Check refuses.
func (s *Source) Compare(ctx context.Context, have EachExisting) (*Change, error) {
	marks, _, err := s.index(ctx)
	if err != nil {
		return nil, err
	}
	c := &Change{seen: s.seen}
	doubts, doubtful := map[int64]uint64{}, int64(0) // hashes of names by number; number of doubts without the maximum
	err = have(func(number int64, u Unit) error {
		hash := s.hash(u.Name)
		same := withName(marks, hash)
		if len(same) == 0 {
			c.Gone = append(c.Gone, number)
			return nil
		}
		whole := s.whole(u)
		switch i := slices.IndexFunc(same, func(m mark) bool { return m.whole == whole }); {
		case i < 0:
			if doubtful++; len(doubts) < maxDoubts {
				doubts[number] = hash
			}
		case same[i].line&matched != 0:
			return errors.New("the sale has a unit twice: its ledger is damaged. Run audit")
		default:
			same[i].line |= matched
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.doubted(ctx, have, doubts, doubtful, c); err != nil {
		return nil, err
	}
	slices.Sort(c.Gone)
	for _, m := range marks {
		if m.line&matched == 0 {
			c.Added++
			c.add(m.line)
		}
	}
	return c, nil
}

// doubted examines again the sale's units whose names have the hash of a declared unit that
// differs: either its attributes differ, which is refused, or its name does.
func (s *Source) doubted(ctx context.Context, have EachExisting, doubts map[int64]uint64, doubtful int64, c *Change) error {
	if doubtful == 0 {
		return nil
	}
	names := map[uint64][]string{}
	err := have(func(number int64, u Unit) error {
		if hash, in := doubts[number]; in {
			names[hash] = append(names[hash], strings.Clone(u.Name))
		}
		return nil
	})
	if err != nil {
		return err
	}
	problems := s.problems()
	_, err = s.scan(ctx, s.problems(), func(line int64, u Unit) error {
		if slices.Contains(names[s.hash(u.Name)], u.Name) {
			s.refuseAltered(problems, line, u)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch unseen := doubtful - int64(len(doubts)); {
	case problems.any():
		problems.more += unseen
		return problems.err()
	case unseen > 0:
		return errCollide
	}
	for number := range doubts {
		c.Gone = append(c.Gone, number)
	}
	return nil
}

func (s *Source) refuseAltered(problems *problems, line int64, u Unit) {
	if !s.units.FromFile {
		_ = problems.refuse(0, 0, "Declare the units by a file, as before; or give the unit another name.",
			"the unit %s is in the sale already, with attributes that a range does not have", u.Name)
		return
	}
	_ = problems.refuse(int(line), 1, "Write the line as it was; or give the unit another name, which makes it a new one.",
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
