package cli

import (
	"fmt"
	"regexp"
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
	return fmt.Sprintf("Run '%s --help' to see how it is used.", e.command)
}

func misused(c *urfave.Context, format string, args ...any) error {
	return &usageError{command: c.Command.HelpName, what: fmt.Sprintf(format, args...)}
}

// Errors of package flag, which urfave passes on.
var (
	unknownFlag  = regexp.MustCompile(`^flag provided but not defined: -(.*)$`)
	missingValue = regexp.MustCompile(`^flag needs an argument: -(.*)$`)
	badBool      = regexp.MustCompile(`^invalid boolean value (".*") for -(.*): .*$`)
	twoForms     = regexp.MustCompile(`^Cannot use two forms of the same flag: (\S+) (\S+)$`)
)

// flagFault translates an error about the flags of a command.
func flagFault(c *urfave.Context, err error, _ bool) error {
	said := err.Error()
	if m := unknownFlag.FindStringSubmatch(said); m != nil {
		return unknown(c, m[1])
	}
	if m := missingValue.FindStringSubmatch(said); m != nil {
		return misused(c, "%s needs a value", dashed(m[1]))
	}
	if m := badBool.FindStringSubmatch(said); m != nil {
		return misused(c, "%s takes no value, not %s", dashed(m[2]), m[1])
	}
	if m := twoForms.FindStringSubmatch(said); m != nil {
		return misused(c, "%s and %s are the same flag: use one of them", dashed(m[1]), dashed(m[2]))
	}
	return misused(c, "%s", said)
}

// unknown returns the error of an unknown flag.
func unknown(c *urfave.Context, name string) error {
	flag := dashed(name)
	for _, command := range c.Command.Subcommands { // the outermost command is the whole program
		if hasFlag(command, name) {
			return misused(c, "%s comes after the command, as in '%s %s %s'", flag, c.Command.HelpName, command.Name, flag)
		}
	}
	what := "unknown flag " + flag
	var names []string
	for _, f := range c.Command.Flags {
		names = append(names, f.Names()...)
	}
	near := spec.Nearest(name, names)
	if near == "" && hasFlag(c.Command, calledElsewhere[name]) {
		near = calledElsewhere[name]
	}
	if near != "" {
		what += "; did you mean " + dashed(near) + "?"
	}
	return misused(c, "%s", what)
}

// calledElsewhere maps flags and commands of other tools to those of this one.
var calledElsewhere = map[string]string{
	"auto-approve": "yes", "force": "yes", "file": "f", "filename": "f",
	"delete": "destroy", "start": "serve",
}

func hasFlag(command *urfave.Command, name string) bool {
	return name != "help" && name != "h" && slices.ContainsFunc(command.Flags, func(f urfave.Flag) bool { return slices.Contains(f.Names(), name) })
}

// unknownCommand returns the error of an unknown command. within is the command line before
// it.
func unknownCommand(c *urfave.Context, within string, commands []*urfave.Command, word string) error {
	what := fmt.Sprintf("unknown command %q", word)
	if near := nearestCommand(c.App, within, commands, word); near != "" {
		what += fmt.Sprintf("; did you mean '%s'?", near)
	}
	return &usageError{command: within, what: what}
}

// nearestCommand returns the command line that was probably intended, or "".
func nearestCommand(app *urfave.App, within string, commands []*urfave.Command, word string) string {
	names := commandNames(commands)
	if near := spec.Nearest(word, names); near != "" {
		return within + " " + near
	}
	for _, group := range app.Commands {
		if slices.Contains(commandNames(group.Subcommands), word) {
			return app.Name + " " + group.Name + " " + word
		}
	}
	if name := calledElsewhere[word]; slices.Contains(names, name) {
		return within + " " + name
	}
	return ""
}

// atMost refuses more than n arguments.
func atMost(c *urfave.Context, n int) error {
	if c.NArg() <= n {
		return nil
	}
	if extra := c.Args().Get(n); hasFlag(c.Command, "f") {
		return misused(c, "unexpected argument %q; sale files are named with -f: %s -f %s", extra, c.Command.HelpName, quoted(extra))
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
