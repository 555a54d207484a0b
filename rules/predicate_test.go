package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

func mustJSON(t *testing.T, text string) any {
	t.Helper()
	v, err := ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// condition and reference compile an expression.
func condition(of *scope) func(text string) (*Predicate, error) {
	return compiling(of, of.condition, truths)
}

func reference(of *scope) func(text string) (*Predicate, error) {
	return compiling(of, of.reference, texts)
}

func compiling(of *scope, remedy string, want []*types.Type) func(string) (*Predicate, error) {
	return func(text string) (*Predicate, error) {
		c, err := of.compiler()
		if err != nil {
			return nil, err
		}
		p := c.predicate("expression", text, remedy, want...)
		return p, spec.Join(c.problems)
	}
}

// What is wrong with an expression is reported with its place and a remedy.
func TestPredicatesSayWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		compile func(string) (*Predicate, error)
		text    string
		want    string
	}{
		"bad syntax": {condition(checkScope), "response.status ==", `
expression:1:19: this is no CEL: mismatched input '<EOF>'
    response.status ==
                      ^
  Complete the expression or correct it here.
`},
		"unknown field": {condition(checkScope), "true &&\n  response.code == 200", `
expression:2:12: response has no field "code"
      response.code == 200
               ^
  The fields are status, body.
`},
		"unknown field of the claim": {condition(checkScope), "claim.identity == '1'", `
expression:1:7: claim has no field "identity"
    claim.identity == '1'
          ^
  The fields are id, user, quantity.
`},
		"the other scope": {condition(webhookScope), "response.status == 200", `
expression:1:1: "response" is not known
    response.status == 200
    ^
  The names are event, sale.
`},
		"a name misspelt": {condition(webhookScope), "evnt.type == 'paid'", `
expression:1:1: "evnt" is not known
    evnt.type == 'paid'
    ^
  Did you mean event?
`},
		"a name within another": {reference(webhookScope), "evnt.data.claim", `
expression:1:1: "evnt" is not known
    evnt.data.claim
    ^
  Did you mean event?
`},
		"unknown function": {condition(checkScope), "paid(response.body)", `
expression:1:5: there is no function paid()
    paid(response.body)
        ^
  The functions are has, all, exists, exists_one, filter, map, size, contains, startsWith, endsWith, matches, units, int, double, string, timestamp, duration, getFullYear, getMonth, getDayOfYear, getDate, getDayOfWeek, getHours, getMinutes, getSeconds, getMilliseconds.
`},
		"types": {condition(checkScope), "response.status == '200'", `
expression:1:17: == does not work with (int, string)
    response.status == '200'
                    ^
  Values of different types are never equal and never add up; convert with int(), double() or string().
`},
		"no condition": {condition(checkScope), "response.status", `
expression:1:1: this is an int and not a bool
    response.status
    ^
  Write a condition, such as response.body.state == "paid".
`},
		"no text": {reference(webhookScope), "event.paid == true", `
expression:1:1: this is a bool and not a string
    event.paid == true
    ^
  Write an expression that is text, such as event.data.id.
`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.compile(c.text)
			var p *spec.Problem
			if !errors.As(err, &p) {
				t.Fatalf("got %v", err)
			}
			if got := "\n" + p.Text(); got != c.want {
				t.Errorf("got:%s\nwant:%s", got, c.want)
			}
		})
	}
}

func TestPredicatesRead(t *testing.T) {
	check := &PredicateInput{
		Status: 200, Claim: "0-2-1", User: "ada", Quantity: 2, Sale: "movie", Run: 3,
		Body: mustJSON(t, `{"state":"paid","amount":1990,"rate":1.0,"claim":"0-2-1","big":9007199254740993,"lines":[{"n":1},{"n":2}],"none":null}`),
	}
	event := &PredicateInput{Event: mustJSON(t, `{"type":"payment.paid","data":{"id":17,"claim":"0-2-1"}}`), Sale: "movie"}
	for _, c := range []struct {
		scope *scope
		input *PredicateInput
		text  string
		want  string // true, false, or a part of the error
	}{
		{checkScope, check, `response.status == 200 && response.body.state == "paid"`, "true"},
		{checkScope, check, `response.body.state == 'failed'`, "false"},
		{checkScope, check, `response.body.claim == claim.id && claim.user == "ada" && claim.quantity == 2 && sale.name == "movie" && sale.run == 3`, "true"},
		{checkScope, check, `response.body.amount == 1990 && response.body.amount >= 1990 && response.body.amount < 1990.5 && response.body.rate == 1`, "true"},
		{checkScope, check, `response.body.big == 9007199254740993`, "true"},
		{checkScope, check, `response.body.lines.exists(l, l.n == 2) && size(response.body.lines) == 2`, "true"},
		{checkScope, check, `has(response.body.state) && !has(response.body.error) && response.body.none == null`, "true"},
		{checkScope, check, `response.body.error == "x"`, "no such key: error"},
		{checkScope, check, `response.body.amount`, "type int and not a bool"},
		{checkScope, check, `response.body.state < 3`, "no such overload"},
		{checkScope, &PredicateInput{Status: 404}, `response.status == 200 && response.body.state == "paid"`, "false"},
		{checkScope, &PredicateInput{Status: 200}, `response.status == 200 && response.body.state == "paid"`, "no such"},
		{checkScope, &PredicateInput{Body: mustJSON(t, `[`+strings.Repeat(`"aaaaaaaaaaaaaaaa",`, 3000)+`"b"]`)},
			`response.body.all(a, response.body.exists(b, b == "b" && a != "b"))`, "it costs too much"},
		{webhookScope, event, `event.type == "payment.paid" && sale.name == "movie"`, "true"},
		{webhookScope, &PredicateInput{Event: "text"}, `event.type == "payment.paid"`, "no such key"},
	} {
		p, err := condition(c.scope)(c.text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := p.Holds(c.input)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.text, err, c.want)
			}
		} else if (c.want == "true") != got || c.want != "true" && c.want != "false" {
			t.Errorf("%s: %v, want %s", c.text, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"event.data.id": "17", "event.data.claim": "0-2-1", "string(event.data.id) + '/' + sale.name": "17/movie", "1 + 1": "2",
		"event.data": "neither text", "event.data.amount": "no such key",
	} {
		p, err := reference(webhookScope)(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Text(event); got != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v, want %s", text, got, err, want)
		}
	}
}

// A number is read exactly, however large: no two payments have one reference.
func TestLargeNumbers(t *testing.T) {
	for number, is := range map[string]string{
		"9007199254740993": "event.id == 9007199254740993 && event.id > 2", "9223372036854775807": "event.id == 9223372036854775807",
		"-9223372036854775808": "event.id < 0", "9223372036854775808": "event.id > 9223372036854775807 && event.id == 9223372036854775808u",
		"18446744073709551615": "event.id == 18446744073709551615u && event.id != 18446744073709551614u && event.id > 2.5",
		"18446744073709551616": "event.id == '18446744073709551616'", "-9223372036854775809": "event.id == '-9223372036854775809'",
		"100000000000000000000000000000000000001": "event.id.startsWith('1')", "1e999": "event.id == '1e999'",
	} {
		event, err := ParseJSON([]byte(`{"id":` + number + `}`))
		if err != nil {
			t.Fatal(err)
		}
		input := &PredicateInput{Event: event, Body: event}
		for text, scope := range map[string]*scope{"event.id": webhookScope, "string(event.id)": webhookScope, "response.body.id": checkScope} {
			p, err := reference(scope)(text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := p.Text(input); got != number || err != nil {
				t.Errorf("%s of %s: %q, %v", text, number, got, err)
			}
		}
		p, err := condition(webhookScope)(is)
		if err != nil {
			t.Fatal(err)
		}
		if holds, err := p.Holds(input); !holds || err != nil {
			t.Errorf("%s of %s: %v, %v", is, number, holds, err)
		}
	}
}

func TestParseJSON(t *testing.T) {
	for text, want := range map[string]string{
		"": "no JSON", "{": "no JSON", "{} {}": "something follows", "\xff": "no JSON", "[1,]": "no JSON",
		`{"a":1,"a":1}`: `"a" twice`, `[{"b":{"a":1, "\u0061":2}}]`: `"a" twice`, `{"a":{"b":1},"b":{"a":1},"A":1}`: "",
		"1e999": "", `{"a":[1e999]}`: "", "[]": "", "\"\xff\"": "",
		"{}": "", "\ufeff{}": "", `"a"`: "", "1": "", "12345678901234567890": "", " null ": "",
	} {
		if _, err := ParseJSON([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A string is read exactly, too, whatever is in it that is no character.
func TestStringsThatAreNoText(t *testing.T) {
	for text, want := range map[string]string{
		`"a\ud800"`: `a\ud800`, `"a\ud801"`: `a\ud801`, "\"a\xff\"": "a\xff", `"\ufffd"`: `\ufffd`, "\"\ufffd\"": "\ufffd",
		`"\ud83d\ude00\/"`: "😀/",
	} {
		for _, around := range []string{"%s", "[ 1 , %s ]", "{\"a\" :\n%s}"} {
			got := mustJSON(t, fmt.Sprintf(around, text))
			switch v := got.(type) {
			case []any:
				got = v[1]
			case map[string]any:
				got = v["a"]
			}
			if got != want {
				t.Errorf("%s in %s: %q, want %q", text, around, got, want)
			}
		}
	}
	if v := mustJSON(t, "{\"\\ud800\": 1, \"\\ud801\": 2, \"\xff\": 3}").(map[string]any); len(v) != 3 {
		t.Errorf("three names are read as %q", v)
	}
}
