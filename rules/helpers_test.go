package rules

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"salectl/spec"
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

// declaration is a sale's rules, and what they read.
type declaration struct {
	Attributes *Schema
	History    bool
	Variables  []spec.Variable
	Rules      []spec.Rule
	Priority   string
	Tables     []string // the ZooKeepers of a table of users
}

func (d declaration) sale() spec.Sale {
	s := spec.Sale{Name: "tickets", Variables: d.Variables, Rules: slices.Clone(d.Rules), Queue: &spec.Queue{Priority: d.Priority}}
	for i, r := range s.Rules {
		s.Rules[i].Enforce = cmp.Or(r.Enforce, spec.EnforceDeny)
	}
	if d.History {
		s.History = new(spec.History)
	}
	if d.Attributes != nil || d.Tables != nil {
		s.Users = new(spec.Users)
	}
	if d.Attributes != nil {
		for _, a := range d.Attributes.attributes {
			s.Users.Attributes = append(s.Users.Attributes, spec.Attribute{Name: a.Name, Type: a.Type.String()})
		}
	}
	if d.Tables != nil {
		s.Users.Table = &spec.UsersTable{Zookeeper: d.Tables}
	}
	return s
}

func compile(d declaration) (*Set, error) { return ForSale(d.sale()) }

func mustCompile(t testing.TB, d declaration) *Set {
	t.Helper()
	if d.Attributes == nil {
		d.Attributes = shopper
	}
	s, err := compile(d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// requiring is a set of one rule.
func requiring(t testing.TB, require string) *Set {
	t.Helper()
	return mustCompile(t, declaration{History: true, Rules: []spec.Rule{{Name: "only", Require: require}}})
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
