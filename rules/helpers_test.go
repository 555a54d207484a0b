package rules

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shopper has an attribute of each type.
var shopper = NewSchema(
	Attribute{"level", Int}, Attribute{"city", String}, Attribute{"score", Double},
	Attribute{"vip", Bool}, Attribute{"since", Timestamp}, Attribute{"tags", Strings})

var (
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ada  = []Value{IntOf(5), StringOf("Wien"), DoubleOf(3.5), BoolOf(true), TimestampOf(noon.AddDate(-1, 0, 0)), StringsOf([]string{"early", "gold"})}
)

// mustNew is a user; values that are left out are missing.
func mustNew(t testing.TB, s *Schema, id string, values ...Value) Attributes {
	t.Helper()
	all := make([]Value, len(s.attributes))
	copy(all, values)
	user, err := s.New(id, all)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

func mustCompile(t testing.TB, d Declaration) *Set {
	t.Helper()
	if d.Attributes == nil {
		d.Attributes = shopper
	}
	s, err := Compile(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requiring is a set of one rule.
func requiring(t testing.TB, require string) *Set {
	t.Helper()
	return mustCompile(t, Declaration{History: true, Rules: []Rule{{Name: "only", Require: require}}})
}

// input is ada's claim at noon.
func input(t testing.TB) *Input {
	return &Input{
		User: mustNew(t, shopper, "ada", ada...).WithHistory([]Purchase{
			{Sale: "drop-3", Units: 1, At: noon.AddDate(0, -1, 0)}, {Sale: "drop-1", Units: 2, At: noon.AddDate(0, -6, 0)},
		}),
		Claim: Claim{Quantity: 2, Key: "click-1", At: noon.Add(-time.Second)},
		Sale:  Sale{Name: "drop-4", Stock: 1000, PerUserLimit: 4, OpensAt: noon.Add(-time.Hour)},
		Now:   noon,
	}
}
