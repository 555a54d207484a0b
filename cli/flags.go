package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/draw"
	"salectl/spec"
)

// Values are parsed here: package flag would read 010 as eight, and reports only one fault at
// a time in its own words.

// flags parses the flags of one command line and collects problems.
type flags struct {
	c    *urfave.Context
	errs *multierror.Error
}

// action returns the action of a command without arguments: it parses the flags, and runs if
// all are valid.
func action[O any](read func(*flags) O, run func(context.Context, O) error) urfave.ActionFunc {
	return actionUpTo(0, read, run)
}

// actionUpTo is action for a command with at most n arguments.
func actionUpTo[O any](n int, read func(*flags) O, run func(context.Context, O) error) urfave.ActionFunc {
	return func(c *urfave.Context) error {
		f := &flags{c: c}
		f.refuseMissing()
		o := read(f)
		if err := atMost(c, n); err != nil {
			f.errs = multierror.Append(f.errs, err)
		}
		if f.errs != nil {
			return f.errs
		}
		return run(c.Context, o)
	}
}

func (f *flags) refuse(format string, args ...any) {
	f.errs = multierror.Append(f.errs, misused(f.c, format, args...))
}

func (f *flags) on(name string) bool { return f.c.Bool(name) }

// text returns a flag's value; an empty value is refused.
func (f *flags) text(name string) string {
	value := f.c.String(name)
	if value == "" && f.c.IsSet(name) {
		f.refuse("%s is empty", dashed(name))
	}
	return value
}

// refuseMissing refuses the absence of required flags.
func (f *flags) refuseMissing() {
	for _, flag := range f.c.Command.Flags {
		switch name := flag.Names()[0]; {
		case !isRequired(flag) || !f.absent(name):
		case len(flag.(*urfave.StringFlag).EnvVars) > 0:
			f.refuse("%s is missing; specify it, or set the environment variable %s", dashed(name), environment(name))
		default:
			f.refuse("%s is missing", dashed(name))
		}
	}
}

// absent reports whether a flag is not set. An empty environment variable does not set it.
func (f *flags) absent(name string) bool {
	_, inherited := os.LookupEnv(environment(name))
	return f.c.String(name) == "" && (inherited || !f.c.IsSet(name))
}

// parsed returns the value of a flag; ifAbsent is the default. must describes valid values.
func parsed[T any](f *flags, name string, ifAbsent T, must string, parse func(string) (T, error)) T {
	if !f.c.IsSet(name) {
		return ifAbsent
	}
	value, err := parse(f.c.String(name))
	if err != nil {
		f.refuse("%s must be %s, not %q", dashed(name), must, f.c.String(name))
		return ifAbsent
	}
	return value
}

// argument returns the single argument of a command, which needs one.
func (f *flags) argument(ifNone string) string {
	if f.c.Args().First() == "" {
		f.refuse("%s", ifNone)
	}
	return f.c.Args().First()
}

// number parses a whole number in plain digits; ifAbsent is the default.
func (f *flags) number(name string, least, most, ifAbsent int64) int64 {
	must := fmt.Sprintf("a whole number from %d to %d", least, most)
	return parsed(f, name, ifAbsent, must, func(text string) (int64, error) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err == nil && (n < least || n > most || text != strconv.FormatInt(n, 10)) {
			err = strconv.ErrRange
		}
		return n, err
	})
}

// duration parses a positive duration; ifAbsent is the default.
func (f *flags) duration(name string, ifAbsent time.Duration) time.Duration {
	return parsed(f, name, ifAbsent, "a duration above zero like 10s or 2m", func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d <= 0 {
			err = strconv.ErrRange
		}
		return d, err
	})
}

// time parses a time; the zero time is the default.
func (f *flags) time(name string) time.Time {
	return parsed(f, name, time.Time{}, "a time with seconds and zone like 2026-11-11T20:00:00+08:00", spec.ParseTime)
}

// oneOf returns one of a few words; the first is the default.
func (f *flags) oneOf(name string, words ...string) string {
	return parsed(f, name, words[0], "one of "+strings.Join(words, ", "), func(word string) (string, error) {
		if !slices.Contains(words, word) {
			return "", strconv.ErrSyntax
		}
		return word, nil
	})
}

// hex parses a flag in hex; nil: the flag is absent.
func (f *flags) hex(name string) []byte {
	return parsed(f, name, nil, "a value in hex, pairs of the digits 0 to 9 and a to f", func(text string) ([]byte, error) {
		value, err := hex.DecodeString(text)
		if len(value) == 0 && err == nil {
			err = strconv.ErrSyntax
		}
		return value, err
	})
}

// digest parses a flag with a digest in hex; nil: the flag is absent.
func (f *flags) digest(name string) *draw.Digest {
	const must = "64 hex digits, as 'salectl status' shows them"
	return parsed(f, name, nil, must, func(text string) (*draw.Digest, error) {
		d := new(draw.Digest)
		return d, d.UnmarshalText([]byte(text))
	})
}

// files returns the values of -f; the default is the working directory.
func (f *flags) files() []string {
	files := f.c.StringSlice("f")
	if len(files) == 0 {
		return []string{"."}
	}
	if slices.Contains(files, "") {
		f.refuse("-f is empty")
	}
	return files
}

// buyer parses the flags of a claim's user and key.
func (f *flags) buyer() (user, key string) {
	if user = f.text("user"); !utf8.ValidString(user) {
		f.refuse("--user is not UTF-8") // JSON would convert it to the name of another user
	}
	if key = f.text("key"); key != "" && api.CheckKey(key) != nil {
		f.refuse("--key must be at most %d visible ASCII characters", api.MaxKey)
	}
	return user, key
}

// names returns the values of --sale; none by default.
func (f *flags) names() []string {
	names := f.texts("sale")
	if slices.Contains(names, "") {
		f.refuse("--sale is empty")
	}
	return names
}

// selector parses the selector of sales by labels; all by default.
func (f *flags) selector() spec.Selector {
	text := f.text("selector")
	if text == "" {
		return spec.Selector{}
	}
	s, err := spec.ParseSelector(text)
	if err != nil {
		f.refuse("--selector %q: %v", text, err)
	}
	return s
}

// texts returns all values of a flag that may be repeated.
func (f *flags) texts(name string) []string { return f.c.StringSlice(name) }

// Flags shared by several commands.

// salesFlags returns the flags of a command on the sales of some files, and more.
func salesFlags(more ...urfave.Flag) []urfave.Flag {
	return append([]urfave.Flag{fileFlag(), saleFlag(), &urfave.StringFlag{
		Name: "selector", Aliases: []string{"l"},
		Usage: "only sales whose labels match `SELECTOR`, such as team=a,stage!=test or 'stage in (soon,live)' (default: all)",
	}}, more...)
}

func saleFlag() urfave.Flag {
	return &urfave.StringSliceFlag{Name: "sale", KeepSpace: true, Usage: "only sale `NAME`; may be repeated (default: all)"}
}

func fileFlag() urfave.Flag {
	return &urfave.StringSliceFlag{
		Name: "f", KeepSpace: true,
		Usage: "read sale files from `PATH`: a file, a folder, or - for standard input; may be repeated (default: the working directory)",
	}
}

func jsonFlag() urfave.Flag {
	return onFlag("json", "print JSON: one object per sale, each on a line")
}

func yesFlag() urfave.Flag { return onFlag("yes", "do not ask for confirmation", "y") }

func allFlag() urfave.Flag {
	return onFlag("all", "shorten no list: print every shard, problem and change, as --json does")
}

func timeoutFlag() urfave.Flag {
	return valueFlag("timeout", "time out after `DURATION` (default: only each step has a limit)")
}

func valueFlag(name, usage string) *urfave.StringFlag {
	return &urfave.StringFlag{Name: name, Usage: usage}
}

// required returns a flag that a command needs, marked so for the help and for refuseMissing.
func required(flag *urfave.StringFlag) *urfave.StringFlag {
	flag.Category = "required"
	return flag
}

func isRequired(flag urfave.Flag) bool {
	value, is := flag.(*urfave.StringFlag)
	return is && value.Category != ""
}

func onFlag(name, usage string, aliases ...string) urfave.Flag {
	return &urfave.BoolFlag{Name: name, Aliases: aliases, Usage: usage, DisableDefaultText: true}
}
