package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"salectl/rules"
	"salectl/spec"
)

// known are users as a source has them.
type known struct {
	users map[string]rules.Attributes
	err   error
}

func (k known) Lookup(_ context.Context, ids []string) ([]rules.Attributes, error) {
	return []rules.Attributes{k.users[ids[0]]}, k.err
}

// explaining is a program whose sale, ring, has the given rules, and users.
func explaining(t *testing.T, part string, users func(*rules.Schema) known) (c *capture, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "sale.yaml")
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: ring}\nspec:\n  stock: 10\n  lockCount: 2\n  embedded: {}\n" + part
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c = newCapture()
	c.users = func(_ spec.Sale, s *rules.Schema) (rules.Users, func() error, error) {
		return users(s), func() error { return nil }, nil
	}
	return c, path
}

const ringRules = `
  rules:
    - name: once
      require: history.units() < 2
      messageExpression: '"you have " + string(history.units())'
    - {name: quiet, require: user.age > 17, messageExpression: '""', message: Adults only.}
  users: {attributes: {age: int}, hbase: {table: users, family: u, zookeeper: ["z:1"]}}
  history: {hbase: {table: bought, family: h, zookeeper: ["z:1"]}}
`

// What a user bought before is told, as is what is wrong with a message.
func TestExplainHistory(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c, path := explaining(t, ringRules, func(s *rules.Schema) known {
		ada := s.Known("ada", []rules.Value{types.Int(17)})
		return known{users: map[string]rules.Attributes{"ada": ada.WithHistory([]rules.Purchase{
			{Sale: "spring", Run: "1f", Units: 1, At: noon.AddDate(0, -6, 0)}, {Sale: "summer", Run: "2f", Units: 2, At: noon.AddDate(0, -3, 0)},
		})}}
	})
	if code := c.run([]string{"salectl", "explain", "-f", path, "--user", "ada", "--at", "2026-11-21T12:00:00Z"}, nil); code != 3 {
		t.Errorf("exit code %d\n%s", code, &c.err)
	}
	want := `ring: ada is refused by the rule once, with the message: you have 3 (` + path + `:1)

  HBase table users has ada
      user.age = 17
  history: 2 purchases
      2 units of summer, 2026-08-21T12:00:00Z
      1 unit of spring, 2026-05-21T12:00:00Z

  - rule once (deny): denied
      history.units() < 2
      history = [2 of summer at 2026-08-21T12:00:00Z, 1 of spring at 2026-05-21T12:00:00Z]
`
	got := c.out.String()
	if !strings.HasPrefix(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	if want := "  - rule quiet (deny): denied: messageExpression: the text is empty\n"; !strings.Contains(got, want) {
		t.Errorf("it says\n%s\nwant\n%s", got, want)
	}
	c.out.Reset()
	if code := c.run([]string{"salectl", "explain", "-f", path, "--user", "ada", "--json"}, nil); code != 3 {
		t.Errorf("exit code %d\n%s", code, &c.err)
	}
	if want := `"history":[{"sale":"summer","run":"2f","units":2,"at":"2026-08-21T12:00:00Z"},`; !strings.Contains(c.out.String(), want) {
		t.Errorf("it says\n%s\nwant\n%s", &c.out, want)
	}
}

// What a source has of a user and is not what is declared refuses, and is told.
func TestExplainUnreadableUser(t *testing.T) {
	c, path := explaining(t, ringRules, func(s *rules.Schema) known {
		return known{users: map[string]rules.Attributes{"ada": s.Unreadable("ada", errors.New(`column u:age: "x" is no int`))}}
	})
	if code := c.run([]string{"salectl", "explain", "-f", path, "--user", "ada"}, nil); code != 3 {
		t.Errorf("exit code %d\n%s", code, &c.err)
	}
	if want := "  HBase table users cannot be read for ada: column u:age: \"x\" is no int\n"; !strings.Contains(c.out.String(), want) {
		t.Errorf("it says\n%s\nwant\n%s", &c.out, want)
	}
}

// Users that cannot be looked up are an error, and no refusal.
func TestExplainWithoutServers(t *testing.T) {
	c, path := explaining(t, ringRules, func(*rules.Schema) known { return known{err: errors.New("nobody answers")} })
	if code := c.run([]string{"salectl", "explain", "-f", path, "--user", "ada"}, nil); code != 1 || c.out.Len() > 0 {
		t.Errorf("exit code %d\n%s", code, &c.out)
	}
	if got := c.err.String(); got != "Error: ring: nobody answers\n" {
		t.Errorf("it says %q", got)
	}
}

func TestLiveRules(t *testing.T) {
	const a, b = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
	for name, test := range map[string]struct {
		live *liveRules
		file string
		want string
	}{
		"not applied": {nil, a, ""},
		"the same":    {&liveRules{RuleSet: a, Same: true}, a, ""},
		"none at all": {&liveRules{Same: true}, "", ""},
		"another":     {&liveRules{RuleSet: b}, a, "the live sale has rule set bbbbbbbbbbbb, but the file has aaaaaaaaaaaa: 'salectl plan' shows the difference"},
		"no more":     {&liveRules{RuleSet: b}, "", "the live sale has rules (rule set bbbbbbbbbbbb): 'salectl plan' shows what the file would change"},
		"not yet":     {&liveRules{}, a, "the live sale has no rules: 'salectl plan' shows what the file would change"},
		"not known":   {&liveRules{Error: "no answer"}, a, "the rules of the live sale cannot be read: no answer"},
	} {
		if got := test.live.warning(test.file); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
