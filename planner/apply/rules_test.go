package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/rules"
	"salectl/spec"
)

// fieldLines are the fields of a plan's first action, one a line.
func fieldLines(p *planner.Plan) string {
	text := "\n"
	for _, f := range p.Actions[0].Fields() {
		text += fmt.Sprintf("%s: %s > %s\n", f.Name, f.Before, f.After)
	}
	return text
}

// shortHash is a sale's rule set as plans show it.
func shortHash(t *testing.T, s spec.Sale) string {
	t.Helper()
	hash, ok := rules.HashFor(s)
	if !ok {
		t.Fatal("no rules")
	}
	return hash.String()[:12]
}

// Who may claim may change while the sale is live. Plans show it, shards and status have
// it, and what is applied is no change any more.
func TestRulesOfALiveSale(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	if r := w.status().Rules; r != nil {
		t.Errorf("a sale without rules has the status %v", r)
	}
	all, fewer := choosy(), with(choosy(), func(s *spec.Sale) {
		s.Rules = []spec.Rule{{Name: "members", Require: `user.level == "gold"`, Enforce: spec.EnforceAudit}}
		s.Variables, s.History, s.Queue = nil, nil, &spec.Queue{Order: spec.OrderArrival, Depth: 10}
		s.Users = &spec.Users{Attributes: s.Users.Attributes, Fresh: spec.Duration(time.Second), Cached: 5, Table: &spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/hbase", Table: "users", Family: "u"}, Columns: map[string]string{"level": "lvl"}}}
	})
	for _, step := range []struct {
		sale               spec.Sale
		plan, status, json string
	}{
		{all, `
rules[members].require:  > user.level in ["gold", "silver"]
rules[members].message:  > Members only.
rules[members].enforce:  > deny
rules[adults].require:  > variables.adult
rules[adults].messageExpression:  > 'Hello ' + user.id
rules[adults].enforce:  > audit
variables[adult].expression:  > now - user.born > duration("157680h")
users.attributes:  > born timestamp, level string
users.fresh:  > 90s
users.cached:  > 100000
history.files:  > exports
history.hbase.zookeeper:  > z:1, z:2
history.hbase.zookeeperRoot:  > /hbase
history.hbase.table:  > purchases
history.hbase.family:  > h
queue.order:  > priority
queue.priority:  > user.level == 'gold' ? 1 : 0
queue.depth:  > 5000
rules:  > members, adults
cost of priority:  > at most 3 of 100,000
cost of rule adults:  > at most 8 of 100,000
cost of rule members:  > at most 14 of 100,000
rule set:  > ` + shortHash(t, all) + `
generation: 1 > 2
`, "members; in audit adults; waiting claims by priority (rule set " + shortHash(t, all) + ")",
			`,"deny":["members"],"audit":["adults"],"priority":true}`},
		{fewer, `
rules[members].require: user.level in ["gold", "silver"] > user.level == "gold"
rules[members].message: Members only. > 
rules[members].enforce: deny > audit
users.hbase.zookeeper:  > z:1
users.hbase.zookeeperRoot:  > /hbase
users.hbase.table:  > users
users.hbase.family:  > u
users.hbase.columns:  > level lvl
users.fresh: 90s > 1s
users.cached: 100000 > 5
history.files: exports > 
history.hbase.zookeeper: z:1, z:2 > 
history.hbase.zookeeperRoot: /hbase > 
history.hbase.table: purchases > 
history.hbase.family: h > 
queue.order: priority > arrival
queue.priority: user.level == 'gold' ? 1 : 0 > 
queue.depth: 5000 > 10
rules: members, adults > members
cost of rule members: at most 14 of 100,000 > at most 3 of 100,000
rule set: ` + shortHash(t, all) + ` > ` + shortHash(t, fewer) + `
generation: 2 > 3
rules[adults].require: variables.adult > 
rules[adults].messageExpression: 'Hello ' + user.id > 
rules[adults].enforce: audit > 
variables[adult].expression: now - user.born > duration("157680h") > 
cost of priority: at most 3 of 100,000 > 
cost of rule adults: at most 8 of 100,000 > 
`, "in audit members (rule set " + shortHash(t, fewer) + ")", `,"audit":["members"]}`},
		{with(fewer, func(s *spec.Sale) { s.Rules, s.Users, s.Queue = nil, nil, nil }), "", "", ""},
	} {
		p := w.mustPlan(step.sale)
		if got := fieldLines(p); got != step.plan && step.plan != "" {
			t.Errorf("the plan is %s\nwant %s", got, step.plan)
		}
		if err := w.run(w.mustCheck(p, step.sale)); err != nil {
			t.Fatal(err)
		}
		want := settings(t, p)
		if hash, ok := rules.HashFor(step.sale); ok != (len(want.GetRules()) == 32) || string(want.GetRules()) != string(hash[:len(want.GetRules())]) {
			t.Errorf("the settings have the rules %x", want.GetRules())
		}
		for i := range 3 {
			if got := w.owner(i).state.Settings(); !proto.Equal(got, want) {
				t.Errorf("shard %d has %v, want %v", i, got, want)
			}
		}
		if p := w.mustPlan(step.sale); !p.Empty() {
			t.Errorf("then the plan is %s", fieldLines(p))
		}
		now := w.status().Rules
		if step.status == "" {
			if now != nil {
				t.Errorf("then the status is %v", now)
			}
			continue
		}
		got, err := json.Marshal(now)
		if now.String() != step.status || err != nil || string(got) != fmt.Sprintf(`{"ruleSet":"%x"`, want.GetRules())+step.json {
			t.Errorf("the status is %q, %s, %v", now, got, err)
		}
	}
}

// Rules in force that are not those declared are brought back.
func TestRulesInForce(t *testing.T) {
	w := newWorld(t)
	w.mustApply(choosy())
	w.drift(func(s *pb.Settings) { s.Rules = nil })
	p := w.mustPlan(choosy())
	if got, want := fieldLines(p), "\nrule set:  > "+shortHash(t, choosy())+"\ngeneration: 2 > 3\n"; got != want {
		t.Errorf("the plan is %s\nwant %s", got, want)
	}
	if err := w.run(p); err != nil {
		t.Fatal(err)
	}
	if p := w.mustPlan(choosy()); !p.Empty() {
		t.Errorf("then the plan is %s", fieldLines(p))
	}
}

// What rules stand on must be there before a sale is begun.
func TestUsersThatCannotBeRead(t *testing.T) {
	bad := fmt.Errorf("reading: %w", &spec.Problem{File: "users.csv", Line: 7, Column: 1, Message: "no"})
	away := errors.New("nobody answers")
	for name, test := range map[string]struct {
		users     error
		fresh     string // what the error says of a new sale
		live      string // and of a live one; "": it is a warning
		is        error
		isProblem bool
	}{
		"no table": {&rules.SourceError{What: "users table users does not exist", Remedy: "Make it."},
			"sale tickets: users table users does not exist. Make it.", "sale tickets: users table users does not exist. Make it.", planner.ErrRefused, false},
		"a bad file": {bad, "users.csv:7:1: no", "users.csv:7:1: no", nil, true},
		"away":       {away, "the users of sale tickets cannot be read, which a new sale needs: nobody answers", "", away, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			actual := w.actual()
			actual.Users = test.users
			_, err := planner.Make(choosy(), actual)
			if err == nil || !strings.Contains(withRemedy(err), test.fresh) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("new: got %v, want %s", err, test.fresh)
			}
			if (len(spec.Problems(err)) > 0) != test.isProblem {
				t.Errorf("new: its problems are %v", spec.Problems(err))
			}
			w.mustApply(tickets(10))
			actual = w.actual()
			actual.Users = test.users
			p, err := planner.Make(choosy(), actual)
			switch {
			case test.live != "" && (err == nil || !strings.Contains(withRemedy(err), test.live)):
				t.Errorf("live: got %v", err)
			case test.live == "" && (err != nil || !strings.HasPrefix(fmt.Sprint(p.Warnings), "[the users cannot be checked: nobody answers; while")):
				t.Errorf("live: got %v, %v", p, err)
			}
		})
	}
}

func TestRulesThatCannotBePlanned(t *testing.T) {
	sale := with(choosy(), func(s *spec.Sale) { s.History, s.Rules[0].Require = nil, "history.units() < 1" })
	w := newWorld(t)
	for _, when := range []string{"a new sale", "a live one"} {
		if _, err := planner.Make(sale, w.actual()); len(spec.Problems(err)) != 1 || !strings.Contains(err.Error(), "history is not declared") {
			t.Errorf("%s: %v", when, err)
		}
		w.mustApply(tickets(10))
	}
	idle := with(choosy(), func(s *spec.Sale) { s.Rules, s.Queue = nil, nil })
	if p := w.mustPlan(idle); fmt.Sprint(p.Warnings) != "[users or history are declared, but no rules read them]" {
		t.Errorf("the warnings are %q", p.Warnings)
	}
}

// A pattern of a history that matches nothing may be a slip, which would let everybody in.
func TestHistoryThatMatchesNothing(t *testing.T) {
	w := newWorld(t)
	for _, when := range []string{"a new sale", "a live one"} {
		actual := w.actual()
		actual.NoHistory = []string{"exprots/*.ndjson"}
		p, err := planner.Make(choosy(), actual)
		if err != nil || !strings.Contains(fmt.Sprint(p.Warnings), "no file matches exprots/*.ndjson of history.files") {
			t.Errorf("%s: %v, %v", when, p, err)
		}
		w.mustApply(tickets(10))
	}
}
