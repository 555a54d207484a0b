package units

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
)

// mark is the part of a unit that is kept: the hash of its name, the hash of the whole unit, and
// its line or, with ranges, its place among the units from 1 on. Names with the same hash must
// be examined again. Units with both hashes in common are taken to be the same: for ten million
// that are not, the probability of such a pair is 2⁻⁸⁰.
type mark struct{ name, whole, line uint64 }

func byName(a, b mark) int { return cmp.Or(cmp.Compare(a.name, b.name), byLine(a, b)) }
func byLine(a, b mark) int { return cmp.Compare(a.line, b.line) }

// withName returns the marks whose names have a hash. marks must be sorted by name.
func withName(marks []mark, hash uint64) []mark {
	from, _ := slices.BinarySearchFunc(marks, hash, func(m mark, hash uint64) int { return cmp.Compare(m.name, hash) })
	to := from
	for to < len(marks) && marks[to].name == hash {
		to++
	}
	return marks[from:to]
}

// sparePlaces is the number of units beyond the stock that are checked for duplicates.
const sparePlaces = 1000

// index reads all units, and returns their marks sorted by name.
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

// room returns the maximum number of marks; a file that grows meanwhile may have more.
func (s *Source) room() int64 {
	if s.units.FromFile {
		return min(s.stock+sparePlaces, s.size/2+1) // a line takes two bytes
	}
	return s.stock
}

// maxDoubts is the maximum number of names that are examined again. Hashes hardly ever collide:
// names with the same hash are the same, and a result for the first holds for the others.
const maxDoubts = 1000

// errCollide is practically impossible.
var errCollide = errors.New("the names of many units have the same hash: try again, and they have others")

// duplicates reports the names that occur twice.
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

// later returns the number of marks whose hash an earlier mark has, and the first of these in the
// file, at most maxDoubts. marks must be sorted by name.
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
