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
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 2); err != nil {
				return err
			}
			text, commands, within := overview(c.App), c.App.Commands, c.App.Name
			for _, topic := range c.Args().Slice() {
				at := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.Name == topic })
				if at < 0 {
					return unknownCommand(c, commands, topic)
				}
				text, commands, within = manual(commands[at], within), commands[at].Subcommands, within+" "+topic
			}
			fmt.Fprint(p.out, text)
			return nil
		},
	}
}
