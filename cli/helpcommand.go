package cli

import (
	"fmt"
	"slices"

	urfave "github.com/urfave/cli/v2"
)

// helpCommand replaces urfave's own, which ends with 3 for an unknown topic.
func (p *program) helpCommand() *urfave.Command {
	return &urfave.Command{
		Name: "help", Category: groupProgram, Usage: "print a command's flags", ArgsUsage: "[COMMAND...]",
		Description: "'salectl help COMMAND', 'salectl COMMAND help' and 'salectl COMMAND --help' print the\n" +
			"same. Flags may stand anywhere behind the command; behind -- everything is an argument,\n" +
			"also what looks like a flag, and a lock that is called help.\n" +
			"\n" +
			"Text is coloured on a terminal. In the environment, NO_COLOR turns colours off, else\n" +
			"FORCE_COLOR or CLICOLOR_FORCE turns them on everywhere (and FORCE_COLOR=0 off), else\n" +
			"CLICOLOR=0 or TERM=dumb turns them off. JSON has none.",
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 2); err != nil {
				return err
			}
			text, commands, within := overview(c.App), c.App.Commands, c.App.Name
			for _, topic := range c.Args().Slice() {
				at := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.Name == topic })
				if at < 0 {
					return unknownCommand(c, within, commands, topic)
				}
				text, commands, within = manual(commands[at], within), commands[at].Subcommands, within+" "+topic
			}
			fmt.Fprint(p.out, text)
			return nil
		},
	}
}
