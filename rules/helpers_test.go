package rules

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"
	"go.uber.org/goleak"

	"salectl/spec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shopper has an attribute of each type.
var shopper = NewSchema(
	spec.Attribute{Name: "level", Type: spec.TypeInt}, spec.Attribute{Name: "city", Type: spec.TypeString}, spec.Attribute{Name: "score", Type: spec.TypeDouble},
	spec.Attribute{Name: "vip", Type: spec.TypeBool}, spec.Attribute{Name: "since", Type: spec.TypeTimestamp}, spec.Attribute{Name: "tags", Type: spec.TypeStrings})

var (
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ada  = []Value{types.Int(5), types.String("Wien"), types.Double(3.5), types.Bool(true), types.Timestamp{Time: noon.AddDate(-1, 0, 0)}, listOf([]string{"early", "gold"})}
)

// mustNew is a user; values that are left out are missing.
func mustNew(t testing.TB, s *Schema, id string, values ...Value) Attributes {
	t.Helper()
	all := make([]Value, len(s.attributes))
	copy(all, values)
	return s.Known(id, all)
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
		s.Users.Attributes = d.Attributes.attributes
	}
	if d.Tables != nil {
		s.Users.Table = &spec.UsersTable{Rows: spec.Rows{Zookeeper: d.Tables}}
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
		Sale:  &spec.Sale{Name: "drop-4", Stock: 1000, PerUserLimit: 4, OpensAt: noon.Add(-time.Hour)},
		Now:   noon,
	}
}
