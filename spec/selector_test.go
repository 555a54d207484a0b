package spec

import (
	"strings"
	"testing"
)

// A selector chooses what one of Kubernetes would.
func TestSelector(t *testing.T) {
	for name, test := range map[string]struct {
		labels  map[string]string
		chosen  []string
		skipped []string
	}{
		"a label": {
			map[string]string{"team": "a", "example.com/stage": "live"},
			[]string{
				"team=a", "team==a", " team = a ", "team!=b", "team in (a)", "team in (b, a)", "team notin (b,c)", "team", "!stage",
				"example.com/stage=live", "stage!=live", "stage notin (live)", "team=a,example.com/stage in (live,soon)", "team=a,team!=b,!x",
				"team in(a)", "team in\t(\na\n)", "team in (,a)",
			},
			[]string{
				"team=b", "team!=a", "team in (b,c)", "team notin (a,b)", "!team", "stage", "stage=live", "stage=", "team=", "team in (,b)",
				"team=a,team=b", "team=b,example.com/stage=live", "team=a,!example.com/stage", "Team=a", "team=A",
			},
		},
		"an empty value": {
			map[string]string{"team": ""},
			[]string{"team", "team=", "team in (,a)", "team in (a,)", "team in ()", "team=,stage!=", "team!=a"},
			[]string{"team!=", "team=a", "!team", "team notin (,a)", "stage="},
		},
		"no labels": {nil, []string{"!team", "team!=a", "team notin (a)", "team!="}, []string{"team", "team=", "team in (a)"}},
		"words of the grammar": {
			map[string]string{"team": "in", "notin": "x"},
			[]string{"team=in", "team in (in,notin)", "notin", "notin notin (y)"}, []string{"team=notin", "notin in (in)"},
		},
	} {
		for matches, texts := range map[bool][]string{true: test.chosen, false: test.skipped} {
			for _, text := range texts {
				s, err := ParseSelector(text)
				if err != nil || s.Matches(test.labels) != matches || s.String() != text {
					t.Errorf("%s: %q is read as %+v, %v, and should choose it: %t", name, text, s, err, matches)
				}
			}
		}
	}
	if !(Selector{}).Matches(nil) {
		t.Error("no selector chooses nothing")
	}
}

func TestBadSelector(t *testing.T) {
	for text, want := range map[string]string{
		"":               `"" does not begin with a requirement: key=value`,
		" ":              `" " does not begin`,
		"a,":             `"" does not begin`,
		"!":              `"!" does not begin`,
		",a":             `",a" does not begin`,
		"a,,b":           `",b" does not begin`,
		"!!a":            `"!!a" does not begin`,
		"=a":             `"=a" does not begin`,
		"(a)":            `"(a)" does not begin`,
		"x,a b":          `"a b" does not begin`,
		"a=b c":          `"a=b c" does not begin`,
		"a=b=c":          `"a=b=c" does not begin`,
		"a===b":          `"a===b" does not begin`,
		"!a=b":           `"!a=b" does not begin`,
		"!a in (b)":      `"!a in (b)" does not begin`,
		"a in (b) c":     `"a in (b) c" does not begin`,
		"a=(b)":          `"a=(b)" does not begin`,
		"a in b":         `"a in b" does not begin`,
		"ain (b)":        `"ain (b)" does not begin`,
		"a notin":        `"a notin" does not begin`,
		"a in (b":        `"a in (b" does not begin`,
		"a in (b=c)":     `"a in (b=c)" does not begin`,
		"a>1":            `"a>1" does not begin`,
		"a in (b c)":     `a: "b c" is no value of a label`,
		"a=-b":           `a: "-b" is no value of a label`,
		"a in (b,c/d)":   `a: "c/d" is no value of a label`,
		"a/b/c":          `"a/b/c" is no key of a label or annotation`,
		"Example.com/a":  `"Example.com/a" is no key of a label or annotation`,
		"team=a;stage=b": `"team=a;stage=b" does not begin`,
	} {
		if s, err := ParseSelector(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q is read as %+v, %v, want %s", text, s, err, want)
		}
	}
}
