package units

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
)

// mark is what is remembered of a unit: a hash of its name, one of all that it is, and its
// line, or with ranges its place among the units from 1 on. Names with the same hash have
// to be looked at again. Units that have both in common are taken to be the same: of ten
// million that are not, two have that with a probability of 2⁻⁸⁰.
type mark struct{ name, whole, line uint64 }

func byName(a, b mark) int { return cmp.Or(cmp.Compare(a.name, b.name), byLine(a, b)) }
func byLine(a, b mark) int { return cmp.Compare(a.line, b.line) }

// withName returns those of the marks, which are sorted by name, that have a hash.
func withName(marks []mark, hash uint64) []mark {
	from, _ := slices.BinarySearchFunc(marks, hash, func(m mark, hash uint64) int { return cmp.Compare(m.name, hash) })
	to := from
	for to < len(marks) && marks[to].name == hash {
		to++
	}
	return marks[from:to]
}

// sparePlaces is how many units beyond the stock are looked at for duplicates.
const sparePlaces = 1000

// index reads everything, and returns the marks of all units, sorted by name.
func (s *Source) index(ctx context.Context) ([]mark, Summary, error) {
	problems := s.problems()
	var marks []mark
	summary, err := s.scan(ctx, problems, func(line int64, u Unit) error {
		if marks == nil {
			marks = make([]mark, 0, s.room())
		}
		if int64(len(marks)) < s.stock+sparePlaces {
			marks = append(marks, mark{s.hash(u.Name), s.whole(u), uint64(line)})
		}
		return nil
	})
	if err != nil {
		return nil, Summary{}, err
	}
	slices.SortFunc(marks, byName)
	if err := s.duplicates(ctx, problems, marks); err != nil {
		return nil, Summary{}, err
	}
	return marks, summary, problems.err()
}

// room is how many marks there will be at most; more only if the file grows meanwhile.
func (s *Source) room() int64 {
	if s.units.FromFile {
		return min(s.stock+sparePlaces, s.size/2+1) // a line takes two bytes
	}
	return s.stock
}

// maxDoubts is how many names are looked at again. Hashes hardly ever collide: names that
// have the same hash are the same, and what is true of the first is of the others.
const maxDoubts = 1000

// errCollide is not to be expected before the end of time.
var errCollide = errors.New("the names of many units have the same hash: try again, and they have others")

// duplicates reports the names that are there twice.
func (s *Source) duplicates(ctx context.Context, problems *problems, marks []mark) error {
	again, first := later(marks)
	if again == 0 {
		return nil
	}
	type named struct {
		name string
		line int64
	}
	seen := map[uint64][]named{} // by hash
	for _, m := range first {
		seen[m.name] = nil
	}
	found, looked := false, int64(0)
	_, err := s.scan(ctx, s.problems(), func(line int64, u Unit) error {
		hash := s.hash(u.Name)
		names, in := seen[hash]
		if !in {
			return nil
		}
		if len(names) > 0 {
			looked++
		}
		if i := slices.IndexFunc(names, func(n named) bool { return n.name == u.Name }); i >= 0 {
			found = true
			return problems.refuse(int(line), 1, "Remove one of them.", "the unit of this line is that of line %d once more", names[i].line)
		}
		seen[hash] = append(names, named{strings.Clone(u.Name), line})
		return nil
	})
	switch unseen := max(0, again-looked); {
	case err != nil:
		return err
	case unseen > 0 && !found:
		return errCollide
	default:
		problems.more += unseen
		return nil
	}
}

// later returns how many of the marks, which are sorted by name, have a hash that one
// before them has, and the first of these in the file.
func later(marks []mark) (again int64, first []mark) {
	for i, m := range marks {
		if i == 0 || marks[i-1].name != m.name {
			continue
		}
		again++
		if first = append(first, m); len(first) == 2*maxDoubts {
			slices.SortFunc(first, byLine)
			first = first[:maxDoubts]
		}
	}
	slices.SortFunc(first, byLine)
	return again, first[:min(len(first), maxDoubts)]
}
