package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// arrange reorders a command line for urfave: the command, its flags, --, its arguments. Users
// may write flags anywhere before --. All ways to request a command's help become 'salectl
// help COMMAND'. It returns a usage error for flags that urfave would refuse.
//
// For a command that runs another one, the second argument and all words after it are
// unchanged: flags there belong to the other command.
func arrange(root *urfave.Command, args []string) (arranged []string, err error) {
	command, path, typed := commandOf(root, args)
	help := append([]string{args[0], "help"}, path...)
	if len(command.Subcommands) > 0 {
		switch {
		case len(typed) == 0:
		case asksHelp(typed[0]):
			return help, nil
		case typed[0] == "help":
			return append(help, typed[1:]...), nil
		case strings.HasPrefix(typed[0], "-"):
			_, _, err = checkFlag(command, typed[0])
		}
		return args, err
	}
	others := runsOthers(command)
	var flags, arguments, literal []string
	var faulty error // the first; help is printed all the same
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
			return help, nil
		default:
			flag, takesNext, err := checkFlag(command, word)
			if i++; takesNext && i < len(typed) {
				flag += "=" + typed[i]
			} else if takesNext {
				err = misuse(command, "%s needs a value", flag)
			} else {
				i--
			}
			if flags = append(flags, flag); faulty == nil {
				faulty = err
			}
		}
	}
	switch {
	case len(arguments) == 1 && arguments[0] == "help" && len(literal) == 0:
		return help, nil
	case len(arguments)+len(literal) > 0:
		arguments = append([]string{"--"}, arguments...)
	}
	return slices.Concat(args[:1], path, flags, arguments, literal), faulty
}

// commandOf returns the command of a command line, its names, and the words after them.
func commandOf(root *urfave.Command, args []string) (command *urfave.Command, path, typed []string) {
	command, typed = root, args[1:]
	for at := 1; at < len(args); at++ {
		i := slices.IndexFunc(command.Subcommands, func(c *urfave.Command) bool { return c.Name == args[at] })
		if i < 0 {
			break
		}
		command, path, typed = command.Subcommands[i], args[1:at+1], args[at+1:]
	}
	return command, path, typed
}

func asksHelp(word string) bool { return slices.Contains([]string{"--help", "-help", "-h"}, word) }

// runsOthers reports whether the arguments of a command end with a command line.
func runsOthers(c *urfave.Command) bool { return strings.Contains(c.ArgsUsage, "-- COMMAND") }

// checkFlag returns a flag as typed, with its first name, and whether the next word is its
// value.
func checkFlag(command *urfave.Command, word string) (flag string, takesNext bool, err error) {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
	f := flagOf(command, name)
	if f == nil {
		return word, false, unknownFlag(command, name)
	}
	if flag = dashed(f.Names()[0]); f.TakesValue() && !hasValue {
		return flag, true, nil
	}
	if _, bad := strconv.ParseBool(value); !f.TakesValue() && hasValue && bad != nil {
		return flag, false, misuse(command, "%s takes no value, not %q", dashed(name), value)
	}
	if hasValue {
		flag += "=" + value
	}
	return flag, false, nil
}

// flagOf returns the flag of a command with a name; nil if there is none.
func flagOf(command *urfave.Command, name string) urfave.DocGenerationFlag {
	for _, f := range command.Flags {
		if doc, ok := f.(urfave.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return doc
		}
	}
	return nil
}

func hasFlag(command *urfave.Command, name string) bool {
	return name != "help" && name != "h" && flagOf(command, name) != nil
}

// unknownFlag returns the error of an unknown flag.
func unknownFlag(command *urfave.Command, name string) error {
	flag := dashed(name)
	for _, sub := range command.Subcommands {
		if hasFlag(sub, name) {
			return misuse(command, "%s comes after the command, as in '%s %s'", flag, sub.HelpName, flag)
		}
	}
	what := fmt.Sprintf("unknown flag %s", flag)
	var names []string
	for _, f := range command.Flags {
		names = append(names, f.Names()...)
	}
	if near := nearest(name, names); near != "" {
		what += "; did you mean " + dashed(near) + "?"
	}
	return misuse(command, "%s", what)
}
