package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestUnitNames(t *testing.T) {
	for text, want := range map[string]string{
		"A1-A3":               "A1 A2 A3",
		"A9-A11":              "A9 A10 A11",
		"A09-A11":             "A09 A10 A11",
		"0-2":                 "0 1 2",
		"12-14":               "12 13 14",
		"Row-C-9-Row-C-10":    "Row-C-9 Row-C-10",
		"座1-座2":               "座1 座2",
		"A7":                  "A7",
		"A007":                "A007",
		"A-7-A-7":             "A-7",
		"VIP":                 "VIP",
		"2nd":                 "2nd",
		"A999-A1001":          "A999 A1000 A1001",
		"A0-A1":               "A0 A1",
		"1st row 1-1st row 2": "1st row 1,1st row 2",
	} {
		u := &Units{Ranges: []string{text}}
		names := slices.Collect(u.Names())
		if got := strings.Join(names, " "); got != want && strings.Join(names, ",") != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
		if err := u.sane(int64(len(names))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if names := slices.Collect((*Units)(nil).Names()); names != nil {
		t.Errorf("of no units: %q", names)
	}
	for name := range (&Units{Ranges: []string{"A1-A100", "B1"}}).Names() {
		if name == "A2" {
			break // must end the loop over both
		}
	}
}

// Two ranges share a name if, and only if, their names written out do.
func TestRangesInCommon(t *testing.T) {
	anyRange := rapid.Custom(func(t *rapid.T) string {
		prefix := rapid.SampledFrom([]string{"", "A", "B", "A-"}).Draw(t, "prefix")
		width := rapid.IntRange(0, 3).Draw(t, "width")
		from := rapid.IntRange(0, 120).Draw(t, "from")
		if width == 0 {
			return fmt.Sprintf("%s%d-%s%d", prefix, from, prefix, from+rapid.IntRange(0, 120).Draw(t, "more"))
		}
		most := []int{0, 9, 99, 999}[width]
		from = min(from, most)
		return fmt.Sprintf("%s%0*d-%s%0*d", prefix, width, from, prefix, width, rapid.IntRange(from, most).Draw(t, "to"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRange.Draw(t, "a"), anyRange.Draw(t, "b")
		left, f := readRange(a)
		right, g := readRange(b)
		if f != nil || g != nil {
			t.Fatalf("%s: %v; %s: %v", a, f, b, g)
		}
		there := map[string]bool{}
		for name := range (&Units{Ranges: []string{a}}).Names() {
			there[name] = true
		}
		want := false
		for name := range (&Units{Ranges: []string{b}}).Names() {
			want = want || there[name]
		}
		name, got := left.common(right)
		if got != want || got && !there[name] {
			t.Fatalf("%s and %s: got %s, %v; want %v", a, b, name, got, want)
		}
	})
}

func TestUnitsOfADocument(t *testing.T) {
	sales, _, err := Load([]string{goodSpecs + "/units.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []*Units
	for _, s := range sales {
		got = append(got, s.Units)
	}
	want := []*Units{
		{Ranges: []string{"A1-A40", "B1-B40", "Row-C-1-Row-C-40", "01-20", "VIP", "7", "Ehrenloge"}, Choose: true},
		{FromFile: true, File: goodSpecs + "/seats.csv", Column: "the seat", Choose: true},
		{FromFile: true, File: goodSpecs + "/codes.csv", KeyEnv: "COUPON_KEY", Secret: true},
		{FromFile: true, File: "/var/codes.csv", KeyFile: goodSpecs + "/keys/coupon.key", Secret: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLimitsOfUnits(t *testing.T) {
	sale := func(stock, units string) string {
		return "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: a}\nspec: {stock: " + stock + ", lockCount: 1, embedded: {}" + units + "}\n"
	}
	ranges := func(items ...string) string { return ", units: {range: [" + strings.Join(items, ", ") + "]}" }
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf("R%d-1-R%d-2", i, i))
	}
	for name, c := range map[string]struct {
		text, want string // begin of the only problem; empty: there is none
	}{
		"numbers beyond those of units": {sale("200000000", ""), ""},
		"all items":                     {sale("2000", ranges(many[1:]...)), ""},
		"an item more":                  {sale("2002", ranges(many...)), "spec.units.range has 1001 items, at most 1000 are allowed"},
		"the longest item":              {sale("1", ranges(strings.Repeat("x", MaxRangeText))), ""},
		"a longer one":                  {sale("1", ranges(strings.Repeat("x", MaxRangeText+1))), "spec.units.range[0] has 257 bytes, at most 256 are allowed"},
		"a zero in the second only":     {sale("10", ranges("A1-A010")), "spec.units.range[0] has a number that begins with a zero"},
		"public, or not":                {sale("1", ", units: {file: x, public: maybe}"), "spec.units.public is neither true nor false"},
	} {
		_, _, err := Load([]string{"-"}, strings.NewReader(c.text))
		switch problems := Problems(err); {
		case c.want == "" && err != nil, c.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0].Message, c.want)):
			t.Errorf("%s: got %v", name, err)
		}
	}
	twice := Sale{Name: "a", Run: 1, Stock: 1, LockCount: 1, PerUserLimit: 1, LockTTL: DefaultLockTTL, Units: &Units{FromFile: true, Secret: true, KeyEnv: "A", KeyFile: "b"}}
	if err := twice.sane(); err == nil || !strings.Contains(err.Error(), "both keyEnv and keyFile") {
		t.Error("units with two keys pass")
	}
}

func TestUnitRows(t *testing.T) {
	u := &Units{Ranges: []string{"A1-A40", "B01-B02", "VIP", "7"}}
	if got := fmt.Sprint(u.Rows()); got != "[40 2 1 1]" {
		t.Errorf("rows of %s units", got)
	}
	for _, u := range []*Units{nil, {FromFile: true, File: "seats.csv"}} {
		if got := u.Rows(); got != nil {
			t.Errorf("%+v has rows of %v units", u, got)
		}
	}
}
