package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"
)

// lineBreak matches two lines of a paragraph; those of examples are indented.
var lineBreak = regexp.MustCompile(`(?m)^\S.*\n\S.*`)

// Every way to ask for the help of a command gives the same, which fits into 80 columns.
func TestHelpIsTheSameHoweverItIsAskedFor(t *testing.T) {
	ask := func(args ...string) string {
		c := newCapture()
		if code := c.run(append([]string{"salectl"}, args...), nil); code != 0 || c.err.Len() > 0 {
			t.Errorf("salectl %s: exit code %d\n%s", strings.Join(args, " "), code, &c.err)
		}
		return c.out.String()
	}
	check := func(path []string, group bool) {
		want := ask(append([]string{"help"}, path...)...)
		for line := range strings.Lines(want) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
				t.Errorf("the help of %v has a line of more than %d columns: %s", path, columns, line)
			}
		}
		ways := [][]string{{"--help"}, {"-h"}, {"help"}}
		if !group && len(path) > 0 {
			ways = append(ways, []string{"-f", "x", "argument", "--help"})
		}
		for _, way := range ways {
			if got := ask(slices.Concat(path, way)...); got != want {
				t.Errorf("salectl %s %s prints\n%s, not\n%s", strings.Join(path, " "), strings.Join(way, " "), got, want)
			}
		}
	}
	paragraphs := func(c *urfave.Command) {
		if within := lineBreak.FindString(c.Description); within != "" {
			t.Errorf("the description of %s breaks a line within a paragraph: %q", c.Name, within)
		}
	}
	app := newCapture().newApp()
	check(nil, false)
	for _, c := range app.Commands {
		if c.Name == "help" {
			continue // 'salectl help help' is help for help, and 'salectl help' is not
		}
		check([]string{c.Name}, len(c.Subcommands) > 0)
		paragraphs(c)
		for _, sub := range c.Subcommands {
			paragraphs(sub)
			check([]string{c.Name, sub.Name}, false)
			if ask("help", c.Name, sub.Name) != ask(c.Name, "help", sub.Name) {
				t.Errorf("'salectl %[1]s help %[2]s' is not 'salectl help %[1]s %[2]s'", c.Name, sub.Name)
			}
		}
	}
}

// Whatever asks for -y in one place asks for it everywhere.
func TestYesIsY(t *testing.T) {
	var check func(commands []*urfave.Command)
	check = func(commands []*urfave.Command) {
		for _, c := range commands {
			if hasFlag(c, "yes") != hasFlag(c, "y") {
				t.Errorf("%s has one of --yes and -y only", c.Name)
			}
			check(c.Subcommands)
		}
	}
	check(newCapture().newApp().Commands)
}
