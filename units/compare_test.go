package units

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "salectl/internal/rapidseed"
	"salectl/spec"
)

// having is a sale with units, which it hands over in the order of their numbers.
func having(units map[int64]Unit) EachExisting {
	return func(each func(int64, Unit) error) error {
		for _, number := range slices.Sorted(maps.Keys(units)) {
			if err := each(number, units[number]); err != nil {
				return err
			}
		}
		return nil
	}
}

func added(t testing.TB, s *Source, c *Change) []string {
	t.Helper()
	var names []string
	err := s.Read(t.Context(), c, func(u Unit, added bool) error {
		if added {
			names = append(names, u.Name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		have  map[int64]Unit
		gone  []int64
		added string
	}{
		"nothing there": {nil, nil, "b a d c"},
		"all there":     {map[int64]Unit{1: {"b", []string{"2"}}, 2: {"a", []string{"1"}}, 3: {"d", []string{"4"}}, 4: {"c", []string{"3"}}}, nil, ""},
		"some there":    {map[int64]Unit{7: {"a", []string{"1"}}, 9: {"c", []string{"3"}}}, nil, "b d"},
		"others there":  {map[int64]Unit{3: {"x", []string{"1"}}, 12: {"y", nil}, 5: {"a", []string{"1"}}, 11: {"w", nil}}, []int64{3, 11, 12}, "b d c"},
	} {
		t.Run(name, func(t *testing.T) {
			s := secretFile(t, 4, "code,pin\nb,2\na,1\nd,4\nc,3\n")
			change, err := s.Compare(t.Context(), having(c.have))
			if err != nil {
				t.Fatal(err)
			}
			names := added(t, s, change)
			if !slices.Equal(change.Gone, c.gone) || strings.Join(names, " ") != c.added || change.Added() != int64(len(names)) {
				t.Errorf("gone %v, %d added: %v", change.Gone, change.Added(), names)
			}
		})
	}
}

// What is there with other attributes cannot be made another unit silently.
func TestCompareRefusesAlteredUnits(t *testing.T) {
	const want = `codes.csv:3:1: the unit of this line is in the sale already, with other attributes
  Write the line as it was; or rename the unit, which makes it a new one.
codes.csv:5:1: the unit of this line is in the sale already, with other attributes
  Write the line as it was; or rename the unit, which makes it a new one.
`
	s := secretFile(t, 4, "code,pin\nb,2\na,1\nd,4\nc,3\n")
	_, err := s.Compare(t.Context(), having(map[int64]Unit{1: {"a", []string{"9"}}, 2: {"b", []string{"2"}}, 3: {"c", nil}, 4: {"x", nil}}))
	if got := printed(t, s, err); got != want {
		t.Errorf("got\n%s", got)
	}
	// Where one attribute ends matters.
	s = publicFile(t, 1, "code,x,y\na,bc,d\n")
	if _, err := s.Compare(t.Context(), having(map[int64]Unit{1: {"a", []string{"b", "cd"}}})); err == nil {
		t.Error("attributes are taken together")
	}
	s = mustSource(t, 2, spec.Units{Ranges: []string{"A1-A2"}})
	_, err = s.Compare(t.Context(), having(map[int64]Unit{5: {"A2", []string{"x"}}}))
	if got := printed(t, s, err); got != "sale.yaml:1: the unit A2 is in the sale already, with attributes that a range does not have\n"+
		"  Declare the units by a file, as before; or rename the unit.\n" {
		t.Errorf("of a range: %s", got)
	}
}

func TestCompareManyAlteredUnits(t *testing.T) {
	text, have := "code,pin\n", map[int64]Unit{}
	for i := range 3000 {
		text += fmt.Sprintf("c%d,1\n", i)
		have[int64(i)] = Unit{fmt.Sprintf("c%d", i), []string{"2"}}
	}
	s := publicFile(t, 3000, text)
	_, err := s.Compare(t.Context(), having(have))
	problems := spec.Problems(err)
	if len(problems) != maxProblems+1 || problems[0].Line != 2 || problems[maxProblems].Message != "it has 2,990 more problems" {
		t.Errorf("got %v", err)
	}
}

func TestCompareErrors(t *testing.T) {
	s := publicFile(t, 2, "code\na\nb\n")
	broken := errors.New("broken")
	if _, err := s.Compare(t.Context(), func(func(int64, Unit) error) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("what the sale has cannot be read: %v", err)
	}
	if _, err := s.Compare(t.Context(), having(map[int64]Unit{1: {"a", nil}, 2: {"a", nil}})); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("the sale has a unit twice: %v", err)
	}
	s = publicFile(t, 2, "code\na\na\n")
	if _, err := s.Compare(t.Context(), having(nil)); len(spec.Problems(err)) != 1 {
		t.Errorf("the file has a unit twice: %v", err)
	}
}

// Compare agrees with a comparison of sets of names.
func TestCompareAgreesWithSets(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringMatching("[a-d]{1,3}")
		declared := rapid.SliceOfNDistinct(name, 1, 12, rapid.ID[string]).Draw(r, "declared")
		there := rapid.SliceOfNDistinct(name, 0, 12, rapid.ID[string]).Draw(r, "there")
		s := publicFile(t, int64(len(declared)), "code\n"+strings.Join(declared, "\n")+"\n")
		have := map[int64]Unit{}
		var gone []int64
		for i, name := range there {
			have[int64(i)] = Unit{Name: name}
			if !slices.Contains(declared, name) {
				gone = append(gone, int64(i))
			}
		}
		c, err := s.Compare(t.Context(), having(have))
		if err != nil {
			r.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(declared), func(name string) bool { return slices.Contains(there, name) })
		if got := added(t, s, c); !slices.Equal(c.Gone, gone) || !slices.Equal(got, want) || c.Added() != int64(len(want)) {
			r.Fatalf("gone %v, want %v; added %v (%d), want %v", c.Gone, gone, got, c.Added(), want)
		}
	})
}
