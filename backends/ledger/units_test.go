package ledger

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// unitSet is what Units must be like.
type unitSet map[int64]bool

func (m unitSet) sorted() []int64 {
	all := []int64{}
	for unit := range m {
		all = append(all, unit)
	}
	slices.Sort(all)
	return all
}

// list names each unit of u, and fails if u has not the form that Units promises.
func list(t interface{ Fatalf(string, ...any) }, u Units) []int64 {
	all := []int64{}
	for i, r := range u {
		if !r.Valid() || i > 0 && u[i-1].End() >= r.First {
			t.Fatalf("%v is not disjoint, ascending and joined", u)
		}
		for unit := r.First; unit < r.End(); unit++ {
			all = append(all, unit)
		}
	}
	return all
}

func TestUnitsAgainstModel(t *testing.T) {
	ranges := rapid.Custom(func(t *rapid.T) Range {
		return Range{rapid.Int64Range(-1, 60).Draw(t, "first"), rapid.Int64Range(-1, 12).Draw(t, "count")}
	})
	has := func(m unitSet, r Range) (some, all bool) {
		all = true
		for unit := r.First; unit < r.First+r.Count; unit++ {
			some, all = some || m[unit], all && m[unit]
		}
		return some, all
	}
	rapid.Check(t, func(t *rapid.T) {
		var u Units
		model := unitSet{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				r := ranges.Draw(t, "range")
				some, _ := has(model, r)
				if ok := r.First >= 1 && r.Count >= 1 && !some; (u.Add(r) == nil) != ok {
					t.Fatalf("adding %+v: success is not %v", r, ok)
				} else if ok {
					for unit := r.First; unit < r.First+r.Count; unit++ {
						model[unit] = true
					}
				}
			},
			"remove": func(t *rapid.T) {
				r := ranges.Draw(t, "range")
				_, all := has(model, r)
				if ok := r.First >= 1 && r.Count >= 1 && all; (u.Remove(r) == nil) != ok {
					t.Fatalf("removing %+v: success is not %v", r, ok)
				} else if ok {
					for unit := r.First; unit < r.First+r.Count; unit++ {
						delete(model, unit)
					}
				}
			},
			"lowest": func(t *rapid.T) {
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				want := model.sorted()[:n]
				if got := u.takeLowest([]int64{}, int64(n)); !slices.Equal(got, want) {
					t.Fatalf("took %v, the lowest are %v", got, want)
				}
				for _, unit := range want {
					delete(model, unit)
				}
			},
			"highest": func(t *rapid.T) {
				n := rapid.IntRange(0, 70).Draw(t, "n")
				most := rapid.IntRange(0, 4).Draw(t, "most")
				got := u.takeHighest(int64(n), most)
				all := model.sorted()
				if units := list(t, got); !slices.Equal(units, all[len(all)-len(units):]) || len(got) > most {
					t.Fatalf("took %v in at most %d ranges of %v", got, most, all)
				} else if len(units) < min(n, len(all)) && len(got) < most || len(units) > n {
					t.Fatalf("took %d units, %d were wanted of %d", len(units), n, len(all))
				}
				for _, unit := range list(t, got) {
					delete(model, unit)
				}
			},
			"minus": func(t *rapid.T) {
				var v Units
				for _, r := range rapid.SliceOfN(ranges, 0, 5).Draw(t, "without") {
					_ = v.Add(r) // some are malformed or overlap
				}
				want := []int64{}
				for _, unit := range model.sorted() {
					if !slices.Contains(list(t, v), unit) {
						want = append(want, unit)
					}
				}
				if got := list(t, u.Minus(v)); !slices.Equal(got, want) {
					t.Fatalf("%v without %v is %v, not %v", u, v, got, want)
				}
			},
			"": func(t *rapid.T) {
				if got := list(t, u); !slices.Equal(got, model.sorted()) || u.Count() != int64(len(model)) {
					t.Fatalf("%v, the model has %v", u, model.sorted())
				}
				read, err := UnitsOf(u.Proto())
				if err != nil || !slices.Equal(read, u) {
					t.Fatalf("%v is read back as %v: %v", u, read, err)
				}
			},
		})
	})
}

func TestUnitsAtTheEdge(t *testing.T) {
	u := Units{{1, 10}}
	for name, r := range map[string]Range{
		"beyond int64":    {5, math.MaxInt64},
		"lowest int64":    {math.MinInt64, 5},
		"count of all":    {1, math.MaxInt64},
		"negative count":  {5, -1},
		"the last number": {math.MaxInt64, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if err := u.Remove(r); err == nil {
				t.Errorf("removed %+v", r)
			}
			if err := u.Add(r); err == nil {
				t.Errorf("added %+v", r)
			}
			if !slices.Equal(u, Units{{1, 10}}) {
				t.Fatalf("a refusal left %v", u)
			}
		})
	}
}

// What joins becomes one range, and what is there in part is not added at all.
func TestUnitsJoin(t *testing.T) {
	for name, test := range map[string]struct {
		add  Range
		want Units // nil: it is refused
	}{
		"before all":               {Range{1, 2}, Units{{1, 2}, {10, 5}, {20, 5}}},
		"to the left of one":       {Range{8, 2}, Units{{8, 7}, {20, 5}}},
		"to the right of one":      {Range{15, 4}, Units{{10, 9}, {20, 5}}},
		"between the two":          {Range{15, 5}, Units{{10, 15}}},
		"apart from the two":       {Range{16, 3}, Units{{10, 5}, {16, 3}, {20, 5}}},
		"behind all":               {Range{26, 1}, Units{{10, 5}, {20, 5}, {26, 1}}},
		"the last of the one":      {Range{14, 3}, nil},
		"the first of the other":   {Range{17, 4}, nil},
		"the first of all":         {Range{9, 2}, nil},
		"some of the middle":       {Range{11, 2}, nil},
		"more than there is":       {Range{9, 20}, nil},
		"the very same":            {Range{20, 5}, nil},
		"the last of all and more": {Range{24, 3}, nil},
	} {
		u := Units{{10, 5}, {20, 5}}
		want, refused := test.want, test.want == nil
		if refused {
			want = slices.Clone(u)
		}
		if err := u.Add(test.add); (err != nil) != refused || !slices.Equal(u, want) {
			t.Errorf("%s: %v, %v, want %v", name, u, err, want)
		}
	}
}

// Listed units are there if each of them is, and the lowest go on in the next range.
func TestUnitsListed(t *testing.T) {
	u := Units{{10, 3}, {20, 2}}
	for _, test := range []struct {
		units []int64
		want  bool
	}{
		{nil, true}, {[]int64{10, 11, 12}, true}, {[]int64{12, 20, 21}, true}, {[]int64{21, 10}, true},
		{[]int64{9}, false}, {[]int64{12, 13}, false}, {[]int64{10, 19}, false}, {[]int64{21, 22}, false},
	} {
		if got := u.hasEach(test.units); got != test.want {
			t.Errorf("%v: %v", test.units, got)
		}
	}
	for n := range 6 {
		if want := []int64{10, 11, 12, 20, 21}[:n]; !slices.Equal(u.lowest(int64(n)), want) {
			t.Errorf("the lowest are %v, want %v", u.lowest(int64(n)), want)
		}
	}
}
