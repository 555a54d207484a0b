package cli

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// arrange reorders a command line for urfave: the command, its flags, --, its arguments. Users
// may write flags anywhere before --. All ways to request a command's help become 'salectl
// help COMMAND'.
//
// For a command that runs another one, the second argument and all words after it are
// unchanged: flags there belong to the other command.
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
				literal = typed[i:] // the -- is one of its arguments
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
				return slices.Concat(args[:1], path, flags) // otherwise the -- would be its value
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

// commandOf returns the command of a command line, its names, and the words after them. nil:
// the line begins with no command.
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

// takesNext reports whether the word after a flag is its value.
func takesNext(c *urfave.Command, flag string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(flag, "-"), "-")
	for _, f := range c.Flags {
		if doc, ok := f.(urfave.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return doc.TakesValue()
		}
	}
	return false
}
