package cli

import (
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// columns is the maximum width of the help.
const columns = 80

// helpText is the template of a command's help.
const helpText = `{{.HelpName}} - {{.Usage}}

Usage:
  {{wrap (usage .) 4}}
{{with .Description}}
{{wrap . 0}}
{{end}}{{$category := "none"}}{{range .Subcommands}}{{if ne .Category $category}}{{$category = .Category}}
{{or $category "Commands"}}:
{{end}}  {{.Name}}{{"\t"}}{{.Usage}}
{{end}}
Flags:
{{$column := column .Flags}}{{range .Flags}}  {{$flag := split .}}{{$flag.Name}}{{indent (subtract $column (offset $flag.Name 2)) ""}}{{wrap $flag.Text $column}}
{{end}}`

// helpOf returns the help of a command.
func helpOf(c *urfave.Command) string {
	var b strings.Builder
	urfave.HelpPrinterCustom(&b, helpText, c, map[string]any{
		"wrapAt": func() int { return columns },
		"usage":  usageOf,
		"split":  splitFlag,
		"column": func(flags []urfave.Flag) (column int) {
			for _, f := range flags {
				column = max(column, len(splitFlag(f).Name)+4)
			}
			return column
		},
	})
	return b.String()
}

// flagHelp is a flag as typed, and its description.
type flagHelp struct{ Name, Text string }

// splitFlag splits the description of urfave. It drops the repetition of a flag that may be
// repeated, and that of the value's name.
func splitFlag(f urfave.Flag) flagHelp {
	name, text, _ := strings.Cut(f.String(), "\t")
	name, _, _ = strings.Cut(name, " [ ")
	if at := strings.LastIndex(name, " "); at > 0 {
		name = strings.ReplaceAll(name[:at], name[at:]+",", ",") + name[at:]
	}
	if isRequired(f) {
		text += " (required)"
	}
	return flagHelp{name, text}
}

// usageOf returns the form of a command line, with the required flags.
func usageOf(c *urfave.Command) string {
	usage := c.HelpName
	if len(c.Subcommands) > 0 {
		usage += " COMMAND"
	}
	for _, f := range c.Flags {
		if isRequired(f) {
			usage += " " + splitFlag(f).Name
		}
	}
	return strings.TrimSpace(usage + " [flags] " + c.ArgsUsage)
}

// helpCommand replaces urfave's own, which ends with 3 for an unknown topic and has no
// topic of two words.
func (p *program) helpCommand(root *urfave.Command) *urfave.Command {
	return &urfave.Command{
		Name: "help", Category: groupProgram, Usage: "print the help of a command", ArgsUsage: "[COMMAND...]",
		Description: "'salectl help COMMAND', 'salectl COMMAND help' and 'salectl COMMAND --help' print the same. " +
			"Flags may stand anywhere after the command; after -- everything is an argument, even if it begins with -, or is a lock named help.\n" +
			"\n" +
			"Text is coloured on a terminal. In the environment, NO_COLOR turns colours off, else FORCE_COLOR or CLICOLOR_FORCE turns them on everywhere " +
			"(and FORCE_COLOR=0 off), else CLICOLOR=0 or TERM=dumb turns them off. JSON has none.",
		BashComplete: completeWords(func() []string { return commandNames(root.Subcommands) }),
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 2); err != nil {
				return err
			}
			about := root
			for _, topic := range c.Args().Slice() {
				at := slices.IndexFunc(about.Subcommands, func(c *urfave.Command) bool { return c.Name == topic })
				if at < 0 {
					return unknownCommand(root, about, topic)
				}
				about = about.Subcommands[at]
			}
			fmt.Fprint(p.out, helpOf(about))
			return nil
		},
	}
}
