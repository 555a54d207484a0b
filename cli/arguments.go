package cli

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// arrange puts a command line into the one order that urfave reads: the command, its flags,
// --, its arguments. People write flags in any place before --. It also makes of all ways to
// ask for a command's help one: 'salectl help COMMAND'.
//
// Of a command that runs another one, nothing is touched from the second argument on: what
// stands there are flags of the other.
func arrange(app *urfave.App, args []string) []string {
	command, path, typed := commandOf(app, args)
	if command == nil {
		return args
	}
	help := append([]string{args[0], "help"}, path...)
	if len(command.Subcommands) > 0 {
		switch {
		case len(typed) == 0:
		case asksHelp(typed[0]):
			return help
		case typed[0] == "help":
			return append(help, typed[1:]...)
		}
		return args
	}
	others := runsOthers(command)
	var flags, arguments, literal []string
	for i := 0; i < len(typed); i++ {
		word := typed[i]
		switch {
		case word == "--":
			literal = typed[i+1:]
			if others && len(arguments) > 0 {
				literal = typed[i:] // its -- is one of its arguments
			}
			i = len(typed)
		case !strings.HasPrefix(word, "-") || word == "-":
			arguments = append(arguments, word)
			if others && len(arguments) == 2 {
				literal = typed[i+1:]
				i = len(typed)
			}
		case asksHelp(word):
			return help
		default:
			flags = append(flags, word)
			if !takesNext(command, word) {
				continue
			}
			if i++; i == len(typed) {
				return slices.Concat(args[:1], path, flags) // or else the -- would be its value
			}
			flags = append(flags, typed[i])
		}
	}
	if len(arguments) == 1 && arguments[0] == "help" && len(literal) == 0 {
		return help
	}
	if len(arguments)+len(literal) > 0 {
		arguments = append([]string{"--"}, arguments...)
	}
	return slices.Concat(args[:1], path, flags, arguments, literal)
}

// commandOf returns the command of a command line, the words that name it, and what is typed
// behind them. nil: it begins with no command.
func commandOf(app *urfave.App, args []string) (command *urfave.Command, path, typed []string) {
	commands := app.Commands
	for at := 1; at < len(args); at++ {
		i := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.Name == args[at] })
		if i < 0 {
			break
		}
		command, commands = commands[i], commands[i].Subcommands
		path, typed = args[1:at+1], args[at+1:]
	}
	return command, path, typed
}

func asksHelp(word string) bool { return slices.Contains([]string{"--help", "-help", "-h"}, word) }

// runsOthers reports whether the arguments of a command end with a command line.
func runsOthers(c *urfave.Command) bool { return strings.Contains(c.ArgsUsage, "-- COMMAND") }

// takesNext reports whether the word behind a flag is its value.
func takesNext(c *urfave.Command, flag string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-")
	for _, f := range c.Flags {
		if doc, ok := f.(urfave.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return doc.TakesValue()
		}
	}
	return false
}
