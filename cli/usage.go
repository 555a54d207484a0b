package cli

import (
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"salectl/spec"
)

// usageError is an invalid command line.
type usageError struct {
	command string // as typed, "salectl plan"
	what    string // one clause, without a full stop
}

func (e *usageError) Error() string { return e.what }
func (e *usageError) Unwrap() error { return errUsage }

// hint refers to the help.
func (e *usageError) hint() string {
	return fmt.Sprintf("Run '%s --help' for its usage.", e.command)
}

func misuse(command *urfave.Command, format string, args ...any) error {
	return &usageError{command: command.HelpName, what: fmt.Sprintf(format, args...)}
}

func misused(c *urfave.Context, format string, args ...any) error {
	return misuse(c.Command, format, args...)
}

// calledElsewhere maps flags and commands of other tools to those of this one.
var calledElsewhere = map[string]string{
	"auto-approve": "yes", "force": "yes", "file": "f", "filename": "f", "detailed-exitcode": "exit-code",
	"delete": "destroy", "start": "serve",
}

// nearest returns the name that was probably intended, or "".
func nearest(word string, names []string) string {
	if near := spec.Nearest(word, names); near != "" {
		return near
	}
	if name := calledElsewhere[word]; slices.Contains(names, name) {
		return name
	}
	return ""
}

// unknownCommand returns the error of a word that is no subcommand of a command.
func unknownCommand(root, command *urfave.Command, word string) error {
	what := fmt.Sprintf("unknown command %q", word)
	near := nearest(word, commandNames(command.Subcommands))
	if near != "" {
		near = command.HelpName + " " + near
	}
	for _, c := range root.Subcommands {
		for _, sub := range c.Subcommands {
			if near == "" && sub.Name == word {
				near = sub.HelpName
			}
		}
	}
	if near != "" {
		what += fmt.Sprintf("; did you mean '%s'?", near)
	}
	return misuse(command, "%s", what)
}

// atMost refuses more than n arguments.
func atMost(c *urfave.Context, n int) error {
	if c.NArg() <= n {
		return nil
	}
	if extra := c.Args().Get(n); hasFlag(c.Command, "f") {
		return misused(c, "unexpected argument %q; name sale files with -f: %s -f %s", extra, c.Command.HelpName, quoted(extra))
	}
	return misused(c, "unexpected argument %q", c.Args().Get(n))
}

// dashed returns a flag as typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("-_./:@%+=,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r < 0x80
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
