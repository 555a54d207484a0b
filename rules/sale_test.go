package rules

import (
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

// load reads one sale with the given part of its spec.
func load(t *testing.T, part string) spec.Sale {
	t.Helper()
	sales, _, err := spec.Load([]string{"-"}, strings.NewReader("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec:\n"+
		"  stock: 10\n  lockCount: 2\n  embedded: {}\n"+part))
	if err != nil {
		t.Fatal(err)
	}
	return sales[0]
}

const goodRules = `
  users: {attributes: {level: int, born: timestamp}, file: users.csv}
  variables: [{name: adult, expression: now - user.born > duration("157680h")}]
  rules:
    - {name: members, require: user.level > 1, message: Members only.}
    - {name: adults, require: variables.adult, enforce: audit}
  queue: {order: priority, priority: user.level}
`

func TestForSale(t *testing.T) {
	sale := load(t, goodRules)
	set, err := ForSale(sale)
	if err != nil {
		t.Fatal(err)
	}
	user := set.Schema().Known("ada", []Value{types.Timestamp{Time: noon.AddDate(-17, 0, 0)}, types.Int(1)})
	v := set.Decide(&Input{User: user, Claim: Claim{Quantity: 1}, Sale: &sale, Now: noon})
	if v.Refusal.Message != "Members only." || len(v.Audits) != 1 || v.Audits[0].Rule != "adults" || set.priority == nil {
		t.Errorf("the verdict is %+v", v)
	}
	want := mustCompile(t, declaration{
		Attributes: NewSchema(spec.Attribute{Name: "level", Type: spec.TypeInt}, spec.Attribute{Name: "born", Type: spec.TypeTimestamp}),
		Variables:  []spec.Variable{{Name: "adult", Expression: `now - user.born > duration("157680h")`}},
		Rules:      []spec.Rule{{Name: "members", Require: "user.level > 1", Message: "Members only."}, {Name: "adults", Require: "variables.adult", Enforce: spec.EnforceAudit}},
		Priority:   "user.level",
	}).Hash()
	hash, ok := HashFor(sale)
	if set.Hash() != want || hash != want || !ok {
		t.Errorf("the hash is %v, and %v without compiling; want %v", set.Hash(), hash, want)
	}
	stored, err := sale.JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := spec.FromJSON(stored)
	if err != nil {
		t.Fatal(err)
	}
	if hash, _ := HashFor(again); hash != want {
		t.Errorf("as the ledger has it, the hash is %v", hash)
	}
	sale.History = new(spec.History)
	if hash, _ := HashFor(sale); hash == want {
		t.Error("a sale with a history has the same hash")
	}
}

// A sale without rules and a priority has nothing to evaluate. Its variables are
// checked all the same.
func TestForSaleWithoutRules(t *testing.T) {
	for name, part := range map[string]string{
		"nothing":   "",
		"users":     "  users: {attributes: {level: int}, file: users.csv}\n  queue: {depth: 5}\n",
		"variables": "  variables: [{name: one, expression: \"1\"}]\n",
	} {
		sale := load(t, part)
		if set, err := ForSale(sale); set != nil || err != nil {
			t.Errorf("%s: got %v, %v", name, set, err)
		}
		if _, ok := HashFor(sale); ok {
			t.Errorf("%s: it has a hash", name)
		}
	}
	if set, err := ForSale(load(t, "  variables: [{name: one, expression: user.level}]\n")); set != nil || len(spec.Problems(err)) != 1 {
		t.Errorf("a wrong variable: got %v, %v", set, err)
	}
	if s := SchemaFor(load(t, "")); len(s.Attributes()) != 0 {
		t.Errorf("without users they have %v", s.Attributes())
	}
}

// All that is wrong is reported at once, each at its place in the file.
func TestForSaleProblems(t *testing.T) {
	sale := load(t, `
  users: {attributes: {level: int, tags: list of string}, file: users.csv}
  variables:
    - {name: gold, expression: user.level == "gold"}
    - name: unused
      expression: "{'a': 1}"
  rules:
    - name: misspelt
      require: |
        user.known &&
          user.levle > 3
    - {name: number, require: user.level, message: "two\nlines"}
    - name: costly
      require: user.tags.all(a, user.tags.all(b, user.tags.exists(c, c == a + b)))
    - {name: past, require: history.units() < 2, messageExpression: 'user.level + "x"'}
    - name: endless
      require: "user.level >"
  queue: {order: priority, priority: "'gold'"}
`)
	_, err := ForSale(sale)
	if err == nil {
		t.Fatal("all is fine")
	}
	const want = `<stdin>:11:43: variable gold: == does not work with (int, string)
        - {name: gold, expression: user.level == "gold"}
                                              ^
  Values of different types are never equal`
	if got := err.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got := "\n"
	for _, p := range spec.Problems(err) {
		got += strings.TrimPrefix(p.Error(), "<stdin>:") + "\n"
	}
	const places = `
11:43: variable gold: == does not work with (int, string)
13:20: variable unused: a variable cannot be of type map(string, int)
18:16: rule misspelt, require: user has no attribute "levle"
19:31: rule number, require: this is an int and not a bool
19:53: rule number, message: the message is more than one line of text
21:16: rule costly, require: its worst-case cost is 85060603, at most 100000 is allowed
22:29: rule past, require: history is not declared
22:81: rule past, messageExpression: + does not work with (int, string)
24:29: rule endless, require: this is no CEL: mismatched input '<EOF>'
25:39: priority: this is a string and not an int
`
	if got != places {
		t.Errorf("got%swant%s", got, places)
	}
}

// A declaration that stands in no file names the wrong expression.
func TestForSaleProblemsWithoutFile(t *testing.T) {
	sale := spec.Sale{Name: "tickets", Rules: []spec.Rule{{Name: "only", Require: "user.levle", Enforce: spec.EnforceDeny}}}
	_, err := ForSale(sale)
	if err == nil || !strings.HasPrefix(err.Error(), "sale tickets, rule only, require:1:6: user has no attribute \"levle\"\n") {
		t.Errorf("got %v", err)
	}
}
