package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

// The rules see what the input has.
func TestRulesSeeTheInput(t *testing.T) {
	for _, require := range []string{
		"user.id == 'ada' && user.known",
		"user.level == 5 && user.city == 'Wien' && user.score == 3.5 && user.vip",
		"user.since == timestamp('2025-11-21T12:00:00Z') && user.since < now - duration('720h')",
		"'gold' in user.tags && user.tags.size() == 2 && user.tags[0] == 'early'",
		"claim.quantity == 2 && claim.key == 'click-1' && claim.at < now",
		"sale.name == 'drop-4' && sale.stock == 1000 && sale.perUserLimit == 4 && now - sale.opensAt == duration('1h')",
		"!has(sale.closesAt) && has(sale.opensAt) && has(claim.key)",
		"history.size() == 2 && history[0].sale == 'drop-3' && history[1].units == 2",
		"history.units() == 3 && history.filter(h, h.at > now - duration('1000h')).units() == 1",
		"!history.exists(h, h.sale in ['drop-2', 'drop-4', 'drop-5'])",
		"history[0] == history[0] && history[0] != history[1]",
		"now.getHours() == 12 && now.getHours('+08:00') == 20 && now.getDayOfWeek('UTC') == 6",
		"user.city.matches('^W.*n$') && {'Wien': 1, 'Graz': 2}[user.city] == 1",
		"int(user.score) == 3 && double(user.level) == 5.0 && string(user.level) == '5'",
	} {
		if v := requiring(t, require).Decide(input(t)); !v.Allowed() {
			t.Errorf("%s: %+v", require, v.Refusal)
		}
	}
}

// The first deny rule that is not satisfied refuses; audit rules are all counted.
func TestDecideInOrder(t *testing.T) {
	s := mustCompile(t, declaration{
		Variables: []spec.Variable{{Name: "enough", Expression: "user.level >= 7"}},
		Rules: []spec.Rule{
			{Name: "watched", Require: "user.city == 'Graz'", Enforce: spec.EnforceAudit},
			{Name: "fine", Require: "user.known"},
			{Name: "level", Require: "variables.enough", MessageExpression: "'you have level ' + string(user.level) + ', and need 7'"},
			{Name: "never-seen", Require: "false", Message: "not this"},
			{Name: "watched-too", Require: "10 / (user.level - 5) > 0", Enforce: spec.EnforceAudit, Message: "odd"},
		},
	})
	v := s.Decide(input(t))
	if got, want := v.Refusal, (Finding{Rule: "level", Index: 2, Reason: Denied, Message: "you have level 5, and need 7"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want := []Finding{
		{Rule: "watched", Reason: Denied, Message: "the rule watched does not allow this claim"},
		{Rule: "watched-too", Index: 4, Reason: Failed, Message: "odd", Detail: "division by zero"},
	}
	if !slices.Equal(v.Audits, want) {
		t.Errorf("%+v, want %+v", v.Audits, want)
	}
	in := input(t)
	in.User = mustNew(t, shopper, "eve", types.Int(9), types.String("Graz"))
	if v := s.Decide(in); v.Refusal.Rule != "never-seen" || v.Refusal.Message != "not this" || len(v.Audits) != 0 {
		t.Errorf("%+v", v)
	}
}

// What fails refuses, for a reason of its own.
func TestAFailedEvaluationRefuses(t *testing.T) {
	nobody := mustNew(t, shopper, "eve")
	long := make([]Purchase, MaxList+1)
	for name, c := range map[string]struct {
		require string
		change  func(*Input)
		reason  Reason
		detail  string
	}{
		"missing attribute":        {"user.level > 1", func(in *Input) { in.User = nobody }, Missing, "user.level is missing"},
		"unknown user":             {"user.vip", func(in *Input) { in.User = shopper.Unknown("eve") }, Missing, "user.vip is missing"},
		"nobody":                   {"user.id != ''", func(in *Input) { in.User = Attributes{} }, Missing, "user.id is missing"},
		"missing in a list":        {"'x' in user.tags", func(in *Input) { in.User = nobody }, Missing, "user.tags is missing"},
		"missing key":              {"claim.key != ''", func(in *Input) { in.Claim.Key = "" }, Missing, "claim.key is missing"},
		"missing time":             {"now < sale.closesAt", func(*Input) {}, Missing, "sale.closesAt is missing"},
		"missing sale of purchase": {"history[0].sale == ''", func(in *Input) { in.User = in.User.WithHistory([]Purchase{{}}) }, Missing, "the purchase's sale is missing"},
		"division by zero":         {"100 / (user.level - 5) > 3", func(*Input) {}, Failed, "division by zero"},
		"overflow":                 {"user.level * 9223372036854775807 > 0", func(*Input) {}, Failed, "integer overflow"},
		"index":                    {"user.tags[7] == 'x'", func(*Input) {}, Failed, "index out of bounds: 7"},
		"no number":                {"int(user.city) > 1", func(*Input) {}, Failed, "type conversion error from 'string' to 'int'"},
		"history beyond its bound": {"history.size() > 0", func(in *Input) { in.User = in.User.WithHistory(long) }, Failed, "history has 101 purchases, at most 100 are allowed"},
		"units beyond an int":      {"history.units() > 0", func(in *Input) { in.User = in.User.WithHistory([]Purchase{{Units: 1 << 62}, {Units: 1 << 62}}) }, Failed, "the units of the purchases are more than an int can hold"},
		"not hidden by and":        {"user.level > 1 && user.vip", func(in *Input) { in.User = mustNew(t, shopper, "eve", nil, nil, nil, types.Bool(true)) }, Missing, "user.level is missing"},
		"unreadable":               {"!has(user.vip)", func(in *Input) { in.User = shopper.Unreadable("eve", errors.New("column vip: \"yes\" is no bool")) }, Failed, "column vip: \"yes\" is no bool"},
		"needless by and":          {"user.level > 1 && user.vip", func(in *Input) { in.User = mustNew(t, shopper, "eve", nil, nil, nil, types.Bool(false)) }, Denied, ""},
		"needless by or":           {"user.level > 1 || user.id == 'eve'", func(in *Input) { in.User = nobody }, Satisfied, ""},
		"looked for":               {"!has(user.level) || user.level > 1", func(in *Input) { in.User = nobody }, Satisfied, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t)
			c.change(in)
			v := requiring(t, c.require).Decide(in)
			if v.Refusal.Reason != c.reason || v.Refusal.Detail != c.detail {
				t.Errorf("%s: %+v, want %s, %q", c.require, v.Refusal, c.reason, c.detail)
			}
			if v.Allowed() != (c.reason == Satisfied) {
				t.Errorf("allowed: %v", v.Allowed())
			}
		})
	}
}

// An evaluation that costs too much is stopped, also where || hides the error.
func TestTooCostly(t *testing.T) {
	c, err := newCompiler(declaration{Attributes: shopper, History: true}.sale())
	if err != nil {
		t.Fatal(err)
	}
	c.options = programOptions(20)
	c.variable(spec.Variable{Name: "far", Expression: "user.tags.all(x, x != 'no')"}, "")
	c.rule(spec.Rule{Name: "plain", Require: "user.tags.all(x, x != 'no')"}, "")
	c.rule(spec.Rule{Name: "hidden", Require: "variables.far || true", Enforce: spec.EnforceAudit}, "")
	c.rule(spec.Rule{Name: "hidden-too", Require: "variables.far || true", Enforce: spec.EnforceAudit}, "")
	c.rule(spec.Rule{Name: "cheap", Require: "user.known", Enforce: spec.EnforceAudit}, "")
	c.set.priority = c.expression(place{"priority", ""}, "variables.far || true ? 1 : 2", "")
	if len(c.problems) > 0 {
		t.Fatal(c.problems[0])
	}
	in := input(t)
	in.User = mustNew(t, shopper, "ada", nil, nil, nil, nil, nil, listOf(slices.Repeat([]string{"x"}, 50)))
	v := c.set.Decide(in)
	want := Finding{Rule: "plain", Reason: TooCostly, Message: "the rule plain does not allow this claim", Detail: "the evaluation reached its cost limit"}
	if v.Refusal != want || len(v.Audits) != 2 || v.Audits[0].Reason != TooCostly || v.Audits[1].Reason != TooCostly {
		t.Errorf("%+v", v)
	}
	if _, failed := c.set.Priority(in); failed == nil || failed.Reason != TooCostly {
		t.Errorf("priority: %v", failed)
	}
}

// The worst case that was estimated is no less than what any evaluation costs.
func TestWorstCaseIsTheWorst(t *testing.T) {
	list := slices.Repeat([]string{strings.Repeat("x", MaxText)}, MaxList)
	in := input(t)
	in.User = mustNew(t, shopper, strings.Repeat("u", MaxText), types.Int(-1<<63), types.String(list[0]), types.Double(-1.7976931348623157e308), types.Bool(true), types.Timestamp{Time: noon}, listOf(list))
	in.User = in.User.WithHistory(slices.Repeat([]Purchase{{Sale: list[0], Units: 1, At: noon}}, MaxList))
	for _, require := range []string{
		"user.level < 3 && user.city != 'x' && user.score < 1.0 && user.vip && user.since <= now",
		"!('gold' in user.tags)",
		"user.tags.all(x, x == user.city)",
		"user.tags.all(x, x.matches('^x+$'))",
		"user.tags.all(x, x.contains(user.city))",
		"user.tags.map(x, x + x).all(x, x != user.city)",
		"user.tags.map(x, x + x)[99].size() == 512",
		"(user.city + user.city + user.id).size() == 768",
		"!history.exists(h, h.sale in ['a', 'b', 'c'])",
		"history.filter(h, h.sale.startsWith('x')).units() == 100",
		"history.map(h, h.sale).all(s, s == user.city)",
		"(user.tags + user.tags).size() == 200 && !('x' in user.tags + user.tags)",
		"!((string(user.level) + string(user.score) + string(now)) in user.tags)",
		"bytes(user.city).size() == 256",
		"variables.long.all(x, x == variables.city)",
		"history.exists_one(h, h.units == 2) || true",
		"(user.vip ? user.tags : ['a']).all(x, x != 'a')",
	} {
		s := mustCompile(t, declaration{History: true,
			Variables: []spec.Variable{{Name: "long", Expression: "user.tags.filter(x, x != 'a')"}, {Name: "city", Expression: "user.city"}},
			Rules:     []spec.Rule{{Name: "only", Require: require}}})
		r := s.Explain(in).Rules[0]
		if r.Finding.Reason != Satisfied || r.Cost > r.WorstCost {
			t.Errorf("%s: %+v", require, r)
		}
	}
}

// The message to a buyer is one line of bounded length, whatever the values are.
func TestMessages(t *testing.T) {
	for name, c := range map[string]struct {
		expression, message, want string
		failed                    bool
	}{
		"text":        {"'hello ' + user.city", "", "hello Wien", false},
		"lines":       {`"a\n\tb\u0007c"`, "", "a b\ufffdc", false},
		"long":        {"user.city + '" + strings.Repeat("ü", 200) + "'", "", "Wien" + strings.Repeat("ü", 124) + "…", false},
		"fails":       {"string(1 / (user.level - 5))", "sorry", "sorry", true},
		"fails alone": {"string(1 / (user.level - 5))", "", "the rule only does not allow this claim", true},
		"empty":       {"''", "sorry", "sorry", true},
	} {
		s := mustCompile(t, declaration{Rules: []spec.Rule{{Name: "only", Require: "false", Message: c.message, MessageExpression: c.expression}}})
		f := s.Decide(input(t)).Refusal
		if f.Message != c.want || strings.HasPrefix(f.Detail, "messageExpression: ") != c.failed || f.Reason != Denied || len(f.Message) > MaxMessage {
			t.Errorf("%s: %+v, want %q", name, f, c.want)
		}
	}
}

// A variable is evaluated once a claim, when it is first used, and is held to the
// size that costs were estimated with.
func TestVariables(t *testing.T) {
	s := mustCompile(t, declaration{
		Variables: []spec.Variable{
			{Name: "unused", Expression: "1 / (user.level - 5)"},
			{Name: "list", Expression: "user.tags.map(x, x + x)"},
			{Name: "count", Expression: "variables.list.size()"},
		},
		Rules: []spec.Rule{{Name: "a", Require: "variables.count == 2"}, {Name: "b", Require: "variables.list[0] == 'earlyearly'"}},
	})
	in := input(t)
	if v := s.Decide(in); !v.Allowed() {
		t.Errorf("%+v", v.Refusal)
	}
	e := s.evaluation(in)
	defer s.release(e)
	for i := range s.rules {
		if f := e.apply(i); f.Reason != Satisfied {
			t.Errorf("%+v", f)
		}
	}
	if e.variables[0].done || !e.variables[1].done {
		t.Errorf("%+v", e.variables)
	}
	once := e.spent
	if f := e.apply(0); f.Reason != Satisfied || e.spent > once+5 {
		t.Errorf("evaluating a rule again costs %d after %d", e.spent, once)
	}
	in.User = mustNew(t, shopper, "ada", nil, nil, nil, nil, nil, listOf([]string{strings.Repeat("x", MaxText)}))
	if f := s.Decide(in).Refusal; f.Reason != Failed || f.Detail != "variables.list has an element that has 512 bytes, at most 256 are allowed" {
		t.Errorf("%+v", f)
	}
}

// Rules that are newer than the attributes of a user go by name and type.
func TestAttributesOfAnotherSchema(t *testing.T) {
	older := NewSchema(spec.Attribute{Name: "city", Type: spec.TypeString}, spec.Attribute{Name: "level", Type: spec.TypeString}, spec.Attribute{Name: "vip", Type: spec.TypeBool})
	in := input(t)
	in.User = mustNew(t, older, "ada", types.String("Wien"), types.String("5"), types.Bool(true))
	if v := requiring(t, "user.city == 'Wien' && user.vip").Decide(in); !v.Allowed() {
		t.Errorf("%+v", v.Refusal)
	}
	if v := requiring(t, "user.level > 1").Decide(in); v.Refusal.Reason != Missing {
		t.Errorf("%+v", v.Refusal)
	}
}

// A set is safe for concurrent use, and nothing of one claim gets into another.
func TestDecideConcurrently(t *testing.T) {
	s := mustCompile(t, declaration{History: true, Variables: []spec.Variable{{Name: "text", Expression: "user.id + string(claim.quantity)"}},
		Rules: []spec.Rule{{Name: "only", Require: "user.level > 1 && history.size() == 7", MessageExpression: "variables.text"}}})
	var all sync.WaitGroup
	for i := range 8 {
		in := input(t)
		in.User, in.Claim.Quantity = mustNew(t, shopper, fmt.Sprint("user", i), types.Int(int64(i+2))), int64(i)
		all.Go(func() {
			for range 500 {
				if v := s.Decide(in); v.Refusal.Message != fmt.Sprintf("user%d%d", i, i) {
					t.Errorf("%+v", v.Refusal)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestPriority(t *testing.T) {
	level := mustCompile(t, declaration{Priority: "user.level * 9007199254740993"})
	score := mustCompile(t, declaration{Priority: "user.score / 3.0"})
	none := requiring(t, "true")
	with := func(n int64, f float64) *Input {
		in := input(t)
		in.User = mustNew(t, shopper, "x", types.Int(n), nil, types.Double(f))
		return in
	}
	for _, s := range []*Set{level, score} {
		low, err1 := s.Priority(with(1, 1))
		high, err2 := s.Priority(with(2, 2))
		if err1 != nil || err2 != nil || high.Compare(low) != 1 || low.Compare(high) != -1 || low.Compare(low) != 0 || s.priority == nil {
			t.Errorf("%+v, %v, %+v, %v", low, err1, high, err2)
		}
	}
	// As doubles these two would be equal.
	big := mustCompile(t, declaration{Priority: "9007199254740992 + user.level"})
	a, _ := big.Priority(with(0, 0))
	if b, _ := big.Priority(with(1, 0)); b.Compare(a) != 1 {
		t.Errorf("%+v does not come before %+v", b, a)
	}
	if p, err := none.Priority(with(1, 1)); err != nil || p != (Priority{}) || none.priority != nil {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := level.Priority(&Input{User: shopper.Unknown("x")}); p != Last || err == nil || *err != (PriorityFailure{Missing, "user.level is missing"}) {
		t.Errorf("%v", err)
	}
	if _, err := level.Priority(&Input{User: shopper.Unreadable("x", errors.New("odd"))}); err == nil || err.Reason != Failed {
		t.Errorf("%v", err)
	}
	if _, err := mustCompile(t, declaration{Priority: "0.0 / (user.score - user.score)"}).Priority(with(1, 1)); err == nil {
		t.Error("NaN is a priority")
	}
}

// Explain lists rule by rule what the verdict rests on.
func TestExplain(t *testing.T) {
	s := mustCompile(t, declaration{History: true,
		Variables: []spec.Variable{{Name: "old", Expression: "user.since < now - duration('24h')"}, {Name: "bad", Expression: "1 / (user.level - 5)"}},
		Rules: []spec.Rule{
			{Name: "old", Require: "variables.old && !has(sale.closesAt)"},
			{Name: "few", Require: "history.units() + claim.quantity <= 4", Message: "at most 4"},
			{Name: "odd", Require: "variables.bad > 0", Enforce: spec.EnforceAudit},
		},
		Priority: "user.score",
	})
	var got strings.Builder
	x := s.Explain(input(t))
	for _, r := range x.Rules {
		fmt.Fprintf(&got, "%s %s %s: %s %q %q cost %d of %d\n", r.Enforce, r.Name, r.Require, r.Finding.Reason, r.Finding.Message, r.Finding.Detail, r.Cost, r.WorstCost)
		for _, v := range r.Values {
			fmt.Fprintf(&got, "  %s = %s\n", v.Name, v.Value)
		}
	}
	fmt.Fprintf(&got, "%s = %s %v\n", x.Priority.Expression, x.Priority.Value, x.Priority.Values)
	want := `deny old variables.old && !has(sale.closesAt): satisfied "" "" cost 10 of 11
  now = timestamp("2026-11-21T12:00:00Z")
  user.since = timestamp("2025-11-21T12:00:00Z")
  sale.closesAt = missing
  variables.old = true
deny few history.units() + claim.quantity <= 4: denied "at most 4" "" cost 8 of 106
  claim.quantity = 2
  history = [1 of drop-3 at 2026-10-21T12:00:00Z, 2 of drop-1 at 2026-05-21T12:00:00Z]
audit odd variables.bad > 0: evaluation_failed "the rule odd does not allow this claim" "division by zero" cost 6 of 7
  user.level = 5
  variables.bad = error: division by zero
user.score = 3.5 [{user.score 3.5}]
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
	if x.Verdict.Refusal.Rule != "few" || len(x.Verdict.Audits) != 1 {
		t.Errorf("%+v", x.Verdict)
	}
}

func BenchmarkDecide(b *testing.B) {
	five := "user.level >= 3 && user.city == 'Wien' && user.score > 1.5 && user.vip && user.since < now"
	for _, c := range []struct {
		name  string
		rules []spec.Rule
	}{
		{"attributes=1", []spec.Rule{{Name: "a", Require: "user.level >= 3"}}},
		{"attributes=5", []spec.Rule{{Name: "a", Require: five}}},
		{"attributes=5/rules=2", []spec.Rule{{Name: "a", Require: "user.level >= 3 && user.city == 'Wien'"}, {Name: "b", Require: "user.score > 1.5 && user.vip && user.since < now"}}},
		{"history=2", []spec.Rule{{Name: "a", Require: "!history.exists(h, h.sale in ['drop-5', 'drop-6', 'drop-7'])"}}},
		{"refused", []spec.Rule{{Name: "a", Require: "user.level >= 7", MessageExpression: "'you have level ' + string(user.level)"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := mustCompile(b, declaration{History: true, Rules: c.rules})
			in := input(b)
			b.ReportAllocs()
			for b.Loop() {
				s.Decide(in)
			}
		})
	}
}

// A decision on attributes is taken for each claim.
func TestDecideDoesNotAllocate(t *testing.T) {
	s := mustCompile(t, declaration{Rules: []spec.Rule{{Name: "a", Require: "user.level >= 3"}}})
	in := input(t)
	if n := testing.AllocsPerRun(1000, func() { s.Decide(in) }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}
