package units

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
)

// mark is the part of a unit that is kept: 96 bits of hashes of its name, a hash of the whole
// unit, and its line or, with ranges, its place among the units from 1 on. Names with the same
// hashes are taken to be the same: for a hundred million that are not, the probability of such a
// pair is 2⁻⁴³.
type mark struct {
	name, whole uint64
	more        uint32 // of the name
	line        uint32
}

// byName compares the names of two marks.
func byName(a, b mark) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.more, b.more)) }

// marker makes marks. It is not safe for concurrent use.
type marker struct {
	name, more, whole maphash.Seed
	fields            []byte // of the last unit
}

func newMarker() *marker {
	return &marker{name: maphash.MakeSeed(), more: maphash.MakeSeed(), whole: maphash.MakeSeed()}
}

func (m *marker) mark(line int64, u Unit) mark {
	m.fields = u.appendFields(m.fields[:0])
	return mark{
		name: maphash.String(m.name, u.Name), more: uint32(maphash.String(m.more, u.Name)),
		whole: maphash.Bytes(m.whole, m.fields), line: uint32(line),
	}
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
			marks = append(marks, s.marker.mark(line, u))
		}
		return nil
	})
	if err != nil {
		return nil, Summary{}, err
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Or(byName(a, b), cmp.Compare(a.line, b.line)) })
	type twin struct{ line, first uint32 }
	var twins []twin
	for i := 1; i < len(marks); i++ {
		for first := i - 1; i < len(marks) && byName(marks[first], marks[i]) == 0; i++ {
			twins = append(twins, twin{marks[i].line, marks[first].line})
		}
	}
	slices.SortFunc(twins, func(a, b twin) int { return cmp.Compare(a.line, b.line) })
	for _, t := range twins {
		_ = problems.refuse(int(t.line), 1, "Remove one of them.", "this line repeats the unit of line %d", t.first)
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
