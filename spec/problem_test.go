package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-multierror"
)

func TestErrorPrintsWell(t *testing.T) {
	text := strings.Replace(aSale("Ticket"), "10", "1e3", 1)
	_, _, err := Load([]string{"-"}, strings.NewReader(text))
	const want = `<stdin>:3:18: metadata.name is no DNS label
    metadata: {name: Ticket}
                     ^
  Use lower-case letters, digits and, between them, hyphens; at most 63 in all.

<stdin>:4:15: spec.stock has an exponent
    spec: {stock: 1e3, lockCount: 2, embedded: {}}
                  ^
  Write the number out, such as 1000 for 1e3.

2 problems`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if _, _, err = Load([]string{"/nowhere"}, nil); !strings.HasSuffix(err.Error(), "\n\n1 problem") {
		t.Errorf("got:\n%v", err)
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("a", 150) + "X" + strings.Repeat("b", 150)
	for name, c := range map[string]struct {
		source        string
		line, column  int
		excerpt, mark string
	}{
		"plain":             {"stock: x", 1, 8, "stock: x", "       ^"},
		"tab":               {"\tstock: x", 1, 9, "\tstock: x", "\t       ^"},
		"wide characters":   {"秒杀: 1，x", 1, 7, "秒杀: 1，x", "\u3000\u3000   \u3000^"},
		"behind the end":    {"stock:", 1, 7, "stock:", "      ^"},
		"far behind":        {"a", 1, 50, "a", " ^"},
		"long":              {long, 1, 151, strings.Repeat("a", 50) + "X" + strings.Repeat("b", 49), strings.Repeat(" ", 50) + "^"},
		"end of a long one": {long, 1, 302, strings.Repeat("b", 100), strings.Repeat(" ", 100) + "^"},
		"control character": {"a\x1b[31m", 1, 1, "a\ufffd[31m", "^"},
		"no place":          {"", 0, 0, "", ""},
		"empty line":        {"  ", 3, 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Problem{Source: c.source, Line: c.line, Column: c.column}
			if source, caret := p.Excerpt(); source != c.excerpt || caret != c.mark {
				t.Errorf("got  %q\n     %q\nwant %q\n     %q", source, caret, c.excerpt, c.mark)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	a, b := &Problem{File: "a"}, &Problem{File: "b"}
	both := multierror.Append(nil, a, fmt.Errorf("beside: %w", b), errors.New("another"))
	for name, c := range map[string]struct {
		err  error
		want []*Problem
	}{
		"nil": {nil, nil}, "another": {errors.New("another"), nil}, "one": {a, []*Problem{a}},
		"several": {both, []*Problem{a, b}}, "wrapped": {fmt.Errorf("load: %w", both), []*Problem{a, b}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Problems(c.err); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if got, want := ErrorFormat(both.Errors), "a: \n\nb: \n\nanother\n\n3 problems"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A secret in a file must not come into logs by way of a problem, whichever
// problem shows its line.
func TestSecretsAreHidden(t *testing.T) {
	const secret = "Tr0ub4dor&3"
	for name, line := range map[string]string{
		"misplaced key":          "password: " + secret,
		"quoted":                 `passwordEnv: "` + secret + `"`,
		"beside another problem": "nodes: [], passwordEnv: " + secret + ", tls: yes",
		"a second time":          "passwordEnv: GOOD, passwordEnv: " + secret,
		"tagged":                 "passwordEnv: !!str " + secret,
		"behind an anchor":       "passwordEnv: &p " + secret + ", usernameEnv: *p",
		"in a node":              `nodes: ["default:` + secret + `@redis:6379"]`,
		"in a user name":         "usernameEnv: " + secret,
		"in broken YAML":         `passwordEnv: "` + secret,
		"number":                 "passwordEnv: 31415926, tls: 1",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(aSale("secret"), "embedded: {}", "redis: {"+line+"}", 1)
			_, _, err := Load([]string{"-"}, strings.NewReader(text))
			if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "31415926") {
				t.Errorf("got:\n%v", err)
			}
			if !strings.Contains(err.Error(), "*****") {
				t.Errorf("nothing is starred out:\n%v", err)
			}
		})
	}
}
