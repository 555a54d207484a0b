package rules

import (
	"maps"
	"strings"
	"testing"

	"salectl/spec"
)

// ruleOf returns a declaration of one rule over shopper, with history.
func ruleOf(require string) declaration {
	return declaration{Attributes: shopper, History: true, Rules: []spec.Rule{{Name: "only", Require: require}}}
}

// What is wrong with a declaration is reported with its place and a remedy.
func TestCompileSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		declaration declaration
		want        string
	}{
		"bad syntax": {ruleOf("user.level >= "), `
rule only, require:1:15: this is no CEL: mismatched input '<EOF>'
    user.level >= 
                  ^
  Complete the expression or correct it here.
`},
		"unknown attribute in the second line": {ruleOf("user.vip\n  && has(user.levl)"), `
rule only, require:2:15: user has no attribute "levl"
      && has(user.levl)
                  ^
  Did you mean level?
`},
		"unknown attribute behind wide letters": {ruleOf("user.city == '維也納' && user.cty == ''"), `
rule only, require:1:28: user has no attribute "cty"
    user.city == '維也納' && user.cty == ''
                  　　　          ^
  Did you mean city?
`},
		"unknown field": {ruleOf("claim.units < 3"), `
rule only, require:1:7: claim has no field "units"
    claim.units < 3
          ^
  The fields are quantity, key, at.
`},
		"unknown field of a purchase": {ruleOf("history.all(h, h.unit < 3)"), `
rule only, require:1:18: h has no field "unit"
    history.all(h, h.unit < 3)
                     ^
  Did you mean units?
`},
		"attribute without user": {ruleOf("level > 1"), `
rule only, require:1:1: "level" is not known
    level > 1
    ^
  Write user.level.
`},
		"unknown name": {ruleOf("usr.level > 1"), `
rule only, require:1:1: "usr" is not known
    usr.level > 1
    ^
  Did you mean user?
`},
		"enum of protobuf": {ruleOf("google.protobuf.NullValue.NULL_VALUE == 0"), `
rule only, require:1:26: "google.protobuf.NullValue.NULL_VALUE" is not known
    google.protobuf.NullValue.NULL_VALUE == 0
                             ^
  The names are user, claim, sale, now, variables, history.
`},
		"unknown function": {ruleOf("user.city.startWith('W')"), `
rule only, require:1:20: there is no function startWith()
    user.city.startWith('W')
                       ^
  Did you mean startsWith?
`},
		"text and number": {ruleOf("user.level >= '3'"), `
rule only, require:1:12: >= does not work with (int, string)
    user.level >= '3'
               ^
  Values of different types are never equal and never add up; convert with int(), double() or string().
`},
		"int and double": {ruleOf("user.score == 1"), `
rule only, require:1:12: == does not work with (double, int)
    user.score == 1
               ^
  Values of different types are never equal and never add up; convert with int(), double() or string().
`},
		"not a bool": {ruleOf("user.level"), `
rule only, require:1:1: this is an int and not a bool
    user.level
    ^
  Write a condition, such as user.level >= 3.
`},
		"no expression": {ruleOf(" "), `
rule only, require: there is no expression
  Write an expression in CEL, such as user.known.
`},
		"history that is not declared": {declaration{Rules: []spec.Rule{{Name: "only", Require: "history.size() == 0"}}}, `
rule only, require:1:1: history is not declared
    history.size() == 0
    ^
  Declare the source of earlier purchases, or do not use history.
`},
		"too costly": {ruleOf("history.all(a, history.all(b, a.sale == b.sale))"), `
rule only, require: its worst-case cost is 330502, at most 100000 is allowed
  Compare fewer or shorter values, or loop less: a list counts with 100 elements and a text with 256 bytes.
`},
		"too costly by a variable": {declaration{Attributes: shopper, History: true,
			Variables: []spec.Variable{{Name: "many", Expression: "history.all(a, history.all(b, a.units == b.units))"}, {Name: "more", Expression: "history.all(a, history.all(b, a.units != b.units))"}},
			Rules:     []spec.Rule{{Name: "only", Require: "variables.many || variables.more"}}}, `
rule only, require: its worst-case cost is 161008, at most 100000 is allowed
  Compare fewer or shorter values, or loop less: a list counts with 100 elements and a text with 256 bytes.
`},
		"variable that is too costly": {declaration{Attributes: shopper, History: true,
			Variables: []spec.Variable{{Name: "many", Expression: "history.all(a, history.all(b, a.sale == b.sale))"}},
			Rules:     []spec.Rule{{Name: "only", Require: "variables.many"}}}, `
variable many: its worst-case cost is 330502, at most 100000 is allowed
  Compare fewer or shorter values, or loop less: a list counts with 100 elements and a text with 256 bytes.
`},
		"list of different types": {ruleOf("[1, 'a'].size() == 2"), `
rule only, require:1:5: expected type 'int' but found 'string'
    [1, 'a'].size() == 2
        ^
`},
		"large pattern": {ruleOf("user.city.matches('x{1000}y{1000}')"), `
rule only, require:1:19: regex program size 2002 exceeds limit of 1000
    user.city.matches('x{1000}y{1000}')
                      ^
  Write a shorter pattern, with smaller numbers of repetitions.
`},
		"message that is no text": {declaration{Attributes: shopper, Rules: []spec.Rule{{Name: "only", Require: "user.vip", MessageExpression: "user.level"}}}, `
rule only, messageExpression:1:1: this is an int and not a string
    user.level
    ^
  Write a text, such as "you have " + string(user.level) + " points".
`},
		"message that does not add up": {declaration{Attributes: shopper, Rules: []spec.Rule{{Name: "only", Require: "user.vip", MessageExpression: "'level ' + user.level"}}}, `
rule only, messageExpression:1:10: + does not work with (string, int)
    'level ' + user.level
             ^
  Values of different types are never equal and never add up; convert with int(), double() or string().
`},
		"message of two lines": {declaration{Rules: []spec.Rule{{Name: "only", Require: "user.known", Message: "a\nb"}}}, `
rule only, message: the message is more than one line of text
  Write it in one line, without control characters.
`},
		"map": {ruleOf("{'a': 1, 'b': 2}.map(k, k)[0] == 'a'"), `
rule only, require:1:21: this iterates over a map, which has no fixed order
    {'a': 1, 'b': 2}.map(k, k)[0] == 'a'
                        ^
  Iterate over a list.
`},
		"time zone": {ruleOf("now.getHours('Europe/Berlin') < 20"), `
rule only, require:1:13: a time zone by its name depends on the tables of each host
    now.getHours('Europe/Berlin') < 20
                ^
  Write an offset, such as "+08:00" or "UTC".
`},
		"pattern from a value": {ruleOf("user.city.matches(user.id)"), `
rule only, require:1:18: the pattern of matches is not written out, so its cost is not known
    user.city.matches(user.id)
                     ^
  Write the pattern as a text in quotes.
`},
		"dyn": {ruleOf("dyn(user).levl == 1"), `
rule only, require:1:4: dyn is not supported
    dyn(user).levl == 1
       ^
  Convert with int(), double() or string().
`},
		"user as a whole": {ruleOf("[user].size() == 1"), `
rule only, require:1:2: user is used as a whole
    [user].size() == 1
     ^
  Name one of its fields, such as user.id.
`},
		"an object of one's own": {ruleOf("user{id: 'ada'}.id == 'ada'"), `
rule only, require:1:5: an expression cannot make an object
    user{id: 'ada'}.id == 'ada'
        ^
  Compare the fields of those that there are.
`},
		"variable before its declaration": {declaration{Variables: []spec.Variable{{Name: "a", Expression: "variables.b"}, {Name: "b", Expression: "true"}},
			Rules: []spec.Rule{{Name: "only", Require: "variables.b"}}}, `
variable a:1:11: the variable "b" is not known here
    variables.b
              ^
  Use a variable only after its declaration; if the variable has a problem itself, correct that first.
`},
		"variable that is a map": {declaration{Variables: []spec.Variable{{Name: "a", Expression: "{'x': 1}"}}}, `
variable a: a variable cannot be of type map(string, int)
  A variable is a bool, number, text, time or duration, or a list of such or of purchases.
`},
		"priority that is no number": {declaration{Priority: "user.id"}, `
priority:1:1: this is a string and not an int
    user.id
    ^
  Write an expression that is an int or a double.
`},
		"all at once": {declaration{Attributes: shopper, Variables: []spec.Variable{{Name: "x", Expression: "user.levl"}}, Priority: "user.cty",
			Rules: []spec.Rule{{Name: "a", Require: "user.vipp && user.scor > 1.0"}, {Name: "b", Require: "user.vip", MessageExpression: "1"}}}, `
variable x:1:6: user has no attribute "levl"
    user.levl
         ^
  Did you mean level?
rule a, require:1:6: user has no attribute "vipp"
    user.vipp && user.scor > 1.0
         ^
  Did you mean vip?
rule a, require:1:19: user has no attribute "scor"
    user.vipp && user.scor > 1.0
                      ^
  Did you mean score?
rule b, messageExpression:1:1: this is an int and not a string
    1
    ^
  Write a text, such as "you have " + string(user.level) + " points".
priority:1:6: user has no attribute "cty"
    user.cty
         ^
  Did you mean city?
`},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := compile(c.declaration)
			if set != nil || err == nil {
				t.Fatalf("Compile returned a set: %v, %v", set, err)
			}
			var got strings.Builder
			for _, p := range spec.Problems(err) {
				got.WriteString(strings.TrimPrefix(p.Text(), "sale tickets, "))
			}
			if want := strings.TrimPrefix(c.want, "\n"); got.String() != want {
				t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
			}
		})
	}
}

// The bounds of a declaration are bounds.
func TestCompileIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		d    declaration
		want string
	}{
		"length":  {ruleOf("user.vip && '" + strings.Repeat("x", MaxExpression) + "' != ''"), "at most 4096"},
		"depth":   {ruleOf(strings.Repeat("(", 200) + "user.vip" + strings.Repeat(")", 200)), "recursion"},
		"message": {declaration{Rules: []spec.Rule{{Name: "a", Require: "true", Message: strings.Repeat("x", MaxMessage+1)}}}, "257 bytes"},
	} {
		if _, err := compile(c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The worst-case cost counts each variable that a rule uses once, also those that
// other variables use.
func TestCosts(t *testing.T) {
	s := mustCompile(t, declaration{
		Variables: []spec.Variable{{Name: "a", Expression: "user.level > 3"}, {Name: "b", Expression: "variables.a && user.vip"}, {Name: "unused", Expression: "user.tags.exists(t, t == 'x')"}},
		Rules: []spec.Rule{
			{Name: "plain", Require: "user.level > 3"},
			{Name: "chain", Require: "variables.b"},
			{Name: "shared", Require: "variables.b && variables.a", MessageExpression: "user.city"},
		},
		Priority: "user.level",
	})
	want := map[string]uint64{"rule plain": 3, "rule chain": 2 + 3 + 4, "rule shared": 4 + 3 + 4, "priority": 2}
	if got := s.Costs(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Only what has no loop and is far from the limit is evaluated without counting, and its
// cost is known all the same to whoever requests an explanation.
func TestUncounted(t *testing.T) {
	for require, uncounted := range map[string]bool{
		"user.level > 3 && user.city == 'x' && now > user.since":    true,
		"user.tags.size() > 1 && 'x' in user.tags":                  true,
		"history.units() > 1":                                       true,
		"variables.far":                                             true, // the variable itself is counted
		"has(user.city) && user.city.matches('^[a-z]+$')":           true,
		"[1, 2].exists(x, x == user.level)":                         false,
		"user.tags.all(x, true)":                                    false,
		"user.city" + strings.Repeat(" + user.city", 7) + " == 'x'": true,
		"user.city" + strings.Repeat(" + user.city", 9) + " == 'x'": false, // 1,407
	} {
		s := mustCompile(t, declaration{History: true, Variables: []spec.Variable{{Name: "far", Expression: "user.tags.all(x, x != 'no')"}}, Rules: []spec.Rule{{Name: "only", Require: require}}})
		if x := s.rules[0].require; (x.quick != nil) != uncounted {
			t.Errorf("%s, worst %d: evaluated without counting %v, want %v", require, x.worst, x.quick != nil, uncounted)
		}
		if s.variables[0].quick != nil {
			t.Error("a variable that loops is not counted")
		}
		in := input(t)
		e := s.evaluation(in)
		if e.apply(0); uncounted && require != "variables.far" && e.spent != 0 || !uncounted && e.spent == 0 {
			t.Errorf("%s: %d was counted", require, e.spent)
		}
		s.release(e)
		if r := s.Explain(in).Rules[0]; r.Cost == 0 || r.Cost > r.WorstCost {
			t.Errorf("%s: %+v", require, r)
		}
	}
}

// The hash is of what is declared and of nothing else.
func TestHash(t *testing.T) {
	base := func() declaration {
		return declaration{Attributes: NewSchema(spec.Attribute{Name: "a", Type: spec.TypeInt}, spec.Attribute{Name: "b", Type: spec.TypeInt}), Variables: []spec.Variable{{Name: "x", Expression: "user.a"}},
			Rules: []spec.Rule{{Name: "r", Require: "user.a > 1", Message: "no"}}, Priority: "user.a"}
	}
	first := mustCompile(t, base()).Hash()
	if want := "c926d231"; !strings.HasPrefix(first.String(), want) {
		t.Errorf("the hash has changed from %s… to %s: decisions that were recorded would have other rules", want, first)
	}
	for name, same := range map[string]func(*declaration){
		"nothing":          func(*declaration) {},
		"deny written out": func(d *declaration) { d.Rules[0].Enforce = spec.EnforceDeny },
		"order of attributes": func(d *declaration) {
			d.Attributes = NewSchema(spec.Attribute{Name: "b", Type: spec.TypeInt}, spec.Attribute{Name: "a", Type: spec.TypeInt})
		},
	} {
		d := base()
		same(&d)
		if got := mustCompile(t, d).Hash(); got != first {
			t.Errorf("%s: another hash", name)
		}
	}
	seen := map[Digest]string{first: "base"}
	for name, other := range map[string]func(*declaration){
		"require":    func(d *declaration) { d.Rules[0].Require = "user.a > 2" },
		"message":    func(d *declaration) { d.Rules[0].Message = "" },
		"expression": func(d *declaration) { d.Rules[0].Message, d.Rules[0].MessageExpression = "", "'no'" },
		"name":       func(d *declaration) { d.Rules[0].Name = "s" },
		"enforce":    func(d *declaration) { d.Rules[0].Enforce = spec.EnforceAudit },
		"variable":   func(d *declaration) { d.Variables[0].Expression = "user.b" },
		"priority":   func(d *declaration) { d.Priority = "" },
		"history":    func(d *declaration) { d.History = true },
		"attribute": func(d *declaration) {
			d.Attributes = NewSchema(spec.Attribute{Name: "a", Type: spec.TypeInt}, spec.Attribute{Name: "b", Type: spec.TypeString})
		},
		"twice": func(d *declaration) { d.Rules = append(d.Rules, spec.Rule{Name: "t", Require: "true"}) },
	} {
		d := base()
		other(&d)
		got := mustCompile(t, d).Hash()
		if seen[got] != "" {
			t.Errorf("%s has the hash of %s", name, seen[got])
		}
		seen[got] = name
	}
}

// Whatever is declared, Compile returns; what it accepts can be decided by.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		"user.level > 1", "history.exists(h, h.sale == 'x')", "user.", "((", "'", "has(user.city)", "variables.v == 1", "[1,'a']", "{1:2}[1] == 2",
		"user.tags.map(t, t + t).size() > 1", "user.city.matches('(')", "now.getHours('+08:00') > 1", "user[0]", "\xff", "user{}", "1/0 == 1", "`a`", "history.units() > 1",
	} {
		f.Add(seed, seed)
	}
	in := input(f)
	f.Fuzz(func(t *testing.T, require, message string) {
		set, err := compile(declaration{Attributes: shopper, History: true, Variables: []spec.Variable{{Name: "v", Expression: message}},
			Rules: []spec.Rule{{Name: "r", Require: require, MessageExpression: message}}, Priority: require})
		if err != nil {
			for _, p := range spec.Problems(err) {
				_ = p.Text()
			}
			set, err = compile(ruleOf(require))
		}
		if err != nil {
			return
		}
		a, b := set.Decide(in), set.Decide(in)
		if a.Refusal.Reason != b.Refusal.Reason || a.Refusal.Message != b.Refusal.Message || len(a.Refusal.Message) > MaxMessage {
			t.Errorf("%q: %+v, then %+v", require, a, b)
		}
		if f := set.Explain(in).Rules[0].Finding; f.Reason != a.Refusal.Reason || f.Detail != a.Refusal.Detail || !a.Allowed() && f.Message != a.Refusal.Message {
			t.Errorf("%q: %+v where the cost is counted, %+v where it need not be", require, f, a.Refusal)
		}
	})
}
