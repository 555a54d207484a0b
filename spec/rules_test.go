package spec

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// withoutPlaces is a sale without the places of its texts.
func withoutPlaces(s Sale) Sale {
	s.places = nil
	return s
}

func TestRulesAreRead(t *testing.T) {
	sales, _, err := Load([]string{filepath.Join(goodSpecs, "rules.yaml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	type who struct {
		Rules     []Rule
		Variables []Variable
		Users     *Users
		History   *History
		Queue     *Queue
	}
	want := map[string]who{
		"everything": {
			Rules: []Rule{
				{Name: "members", Require: `user.level in ["gold", "silver"]`, Message: "Members only.", Enforce: EnforceDeny},
				{Name: "adults", Require: "user.known &&\n  variables.adult", MessageExpression: `"You were born on " + string(user.born)`, Enforce: EnforceAudit},
			},
			Variables: []Variable{{Name: "adult", Expression: `now - user.born > duration("157680h")`}},
			Users: &Users{
				Attributes: []Attribute{{"born", TypeTimestamp}, {"level", TypeString}},
				Table: &UsersTable{Rows: Rows{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/other", Table: "users", Family: "u"},
					Columns: map[string]string{"level": "lvl"}},
				Fresh: Duration(time.Minute), Cached: 5,
			},
			History: &History{
				Files: []string{filepath.Join(goodSpecs, "exports/*.ndjson"), "/var/exports/a.ndjson"},
				Table: &Rows{Zookeeper: []string{"z:2"}, ZookeeperRoot: "/hbase", Table: "purchases", Family: "h"},
			},
			Queue: &Queue{Order: OrderPriority, Priority: "user.level == 'gold' ? 1 : 0", Depth: 7},
		},
		"least": {
			Rules: []Rule{{Name: "known", Require: "user.known", Enforce: EnforceDeny}},
			Users: &Users{File: filepath.Join(goodSpecs, "users.csv"), Fresh: Duration(30 * time.Second), Cached: 100_000},
			Queue: &Queue{Order: OrderArrival, Depth: 10_000},
		},
		"tables": {
			Users: &Users{
				Attributes: []Attribute{{"age", TypeInt}, {"score", TypeDouble}, {"tags", TypeStrings}, {"vip", TypeBool}},
				Table:      &UsersTable{Rows: Rows{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/hbase-unsecure", Table: "users", Family: "u"}},
				Fresh:      Duration(30 * time.Second), Cached: 100_000,
			},
			History: &History{Table: &Rows{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/older", Table: "shop:purchases", Family: "h"}},
		},
	}
	got := map[string]who{}
	for _, s := range sales {
		s = withoutPlaces(s)
		got[s.Name] = who{s.Rules, s.Variables, s.Users, s.History, s.Queue}
	}
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got[name], want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d sales, want %d", len(got), len(want))
	}
}

// A pattern finds the files beside its document, whatever the folder is called.
func TestPatternsBesideTheirDocument(t *testing.T) {
	dir := write(t, map[string]string{`a[b]*?\c/sale.yaml`: strings.Replace(aSale("a"), "embedded", `history: {files: ["*.ndjson"]}, embedded`, 1),
		`a[b]*?\c/x.ndjson`: ""})
	sales, _, err := Load([]string{filepath.Join(dir, `a[b]*?\c/sale.yaml`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := filepath.Glob(sales[0].History.Files[0]); err != nil || len(found) != 1 {
		t.Errorf("%s finds %q, %v", sales[0].History.Files[0], found, err)
	}
}

// What is wrong in a text is shown where it stands in the file, however the text is
// written.
func TestPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		require      string // as YAML, behind "require:"
		line, column int    // in the text
		at           string // line and column in the file
		then         string // what stands there
	}{
		"plain":           {" user.level == 3", 1, 6, "8:21", "level == 3"},
		"as a whole":      {" user.level == 3", 0, 0, "8:16", "user.level == 3"},
		"at its end":      {" user.level", 1, 11, "8:26", ""},
		"beyond it":       {" user.level  # who", 5, 99, "8:26", "  # who"},
		"plain, folded":   {" user.level\n          == 3", 1, 15, "9:14", "3"},
		"single quotes":   {` 'it''s' # ''`, 1, 4, "8:21", "s' # ''"},
		"a quote in them": {` 'it''s' # ''`, 1, 3, "8:19", "''s' # ''"},
		"behind quotes":   {` 'it''s x'`, 1, 6, "8:23", "x'"},
		"double quotes":   {` "\"\u00e4\x41\n\" + user.levle"`, 2, 10, "8:41", `levle"`},
		"double, folded":  {" \"user.known &&\\\n         \\  user.levle\"", 1, 21, "9:18", `levle"`},
		"literal":         {" |\n        user.known &&\n          user.levle", 2, 8, "10:16", "levle"},
		"literal, end":    {" |\n        user.known &&\n", 2, 1, "9:22", ""},
		"literal, gap":    {" |-\n        user.known &&\n\n        user.levle", 3, 6, "11:14", "levle"},
		"literal, indent": {" |2\n          user.known &&\n        user.levle", 1, 3, "9:11", "user.known &&"},
		"folded":          {" >-\n        user.known &&\n        user.levle", 1, 20, "10:14", "levle"},
		"folded, gap":     {" >\n        user.known &&\n\n        user.levle", 2, 6, "11:14", "levle"},
		"folded, deeper":  {" >\n        user.known &&\n          user.levle", 2, 8, "10:16", "levle"},
		"an anchor":       {" &one user.levle", 1, 6, "8:26", "levle"},
		"anchor, below":   {" &one\n        user.levle", 1, 6, "9:14", "levle"},
		"wide characters": {` "'票' + user.levle"`, 1, 12, "8:28", `levle"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Split(aSale("a"), "spec:")[0] + "spec:\n  stock: 9\n  rules:\n    - name: only\n      require:" +
				test.require + "\n  lockCount: 1\n  embedded: {}\n"
			sales, _, err := Load([]string{"-"}, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			p := sales[0].Place("spec.rules[0].require").Problem(test.line, test.column, "no", "")
			at, then := fmt.Sprintf("%d:%d", p.Line, p.Column), string([]rune(p.Source)[p.Column-1:])
			if at != test.at || then != test.then {
				t.Errorf("got %s, before %q; want %s, before %q", at, then, test.at, test.then)
			}
		})
	}
	if (Place{}).Known() {
		t.Error("nowhere is known")
	}
}

// Of a text that is written in a way that cannot be followed, the begin is shown.
func TestPlaceThatCannotBeFollowed(t *testing.T) {
	sales, _, err := Load([]string{"-"}, strings.NewReader(strings.Replace(aSale("a"), "embedded", "rules: [{name: a, require: user.known}], embedded", 1)))
	if err != nil {
		t.Fatal(err)
	}
	place := sales[0].Place("spec.rules[0].require")
	place.node.Value = "something else"
	if p := place.Problem(1, 5, "no", ""); p.Line != 4 || p.Column != place.node.Column {
		t.Errorf("got %v", p)
	}
}

// An alias is shown where the text stands that it is for.
func TestPlaceOfAnAlias(t *testing.T) {
	sales, _, err := Load([]string{"-"}, strings.NewReader(strings.Replace(aSale("a"), "embedded",
		"rules: [{name: a, require: &known user.known}, {name: b, require: *known}], embedded", 1)))
	if err != nil {
		t.Fatal(err)
	}
	in := sales[0]
	if a, b := in.Place("spec.rules[0].require").Problem(1, 6, "no", ""), in.Place("spec.rules[1].require").Problem(1, 6, "no", ""); *a != *b || in.Rules[1].Require != "user.known" {
		t.Errorf("got %v and %v", a, b)
	}
}

// A Sale made by hand is held to the same as one that was stored.
func TestRulesThatCannotBeStored(t *testing.T) {
	rule := func(name, require string, enforce Enforce) Sale {
		return Sale{Rules: []Rule{{Name: name, Require: require, Enforce: enforce}}}
	}
	users := func(u Users) Sale {
		if u.Fresh == 0 {
			u.Fresh, u.Cached = Duration(MinFresh), 1
		}
		return Sale{Users: &u}
	}
	for want, s := range map[string]Sale{
		`rules[A].name "A" is no DNS label`:                rule("A", "true", EnforceDeny),
		"rules[a].require is missing":                      rule("a", "", EnforceDeny),
		`rules[a].enforce "" is not known to this program`: rule("a", "true", ""),
		`variables[1st].name "1st" is no identif`:          {Variables: []Variable{{Name: "1st", Expression: "1"}}},
		`variables[one].expression is mis`:                 {Variables: []Variable{{Name: "one"}}},
		`attribute "known" is no identifier`:               users(Users{Attributes: []Attribute{{"known", TypeBool}}}),
		`attribute "a" is no identifier, or not in`:        users(Users{Attributes: []Attribute{{"b", TypeBool}, {"a", TypeBool}}}),
		`the type "set" of the users' attribute a`:         users(Users{Attributes: []Attribute{{"a", "set"}}}),
		"users has both file and hbase":                    users(Users{File: "a.csv", Table: &UsersTable{Rows: Rows{Table: "t", Family: "f"}}}),
		"fresh of 1ns is no positive number of":            users(Users{Fresh: 1, Cached: 1}),
		"fresh of -1s":                                     users(Users{Fresh: Duration(-time.Second), Cached: 1}),
		"cached must be at least 1":                        users(Users{Fresh: Duration(time.Second)}),
		"history has neither":                              {History: &History{}},
		`order "" is not known to this program`:            {Queue: &Queue{Depth: 1}},
		"a priority and no order":                          {Queue: &Queue{Order: OrderArrival, Priority: "1", Depth: 1}},
		"a priority and no order by it, or":                {Queue: &Queue{Order: OrderPriority, Depth: 1}},
		"depth must be at least 1":                         {Queue: &Queue{Order: OrderArrival}},
		"engine redis does not take queue":                 {Engine: EngineRedis, Ack: AckLedger, Backlog: 1, Queue: &Queue{Order: OrderArrival, Depth: 1}},
	} {
		s.Name, s.Run, s.Stock, s.LockCount, s.PerUserLimit, s.LockTTL, s.Embedded = "a", 1, 9, 1, 1, DefaultLockTTL, &Embedded{}
		if data, err := s.JSON(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %s, %v; want %s", data, err, want)
		}
	}
}
