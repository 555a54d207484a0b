package cli

import (
	"fmt"

	urfave "github.com/urfave/cli/v2"
)

// helpCommand replaces urfave's own, which ends with 3 for an unknown topic.
func (p *program) helpCommand() *urfave.Command {
	return &urfave.Command{
		Name: "help", Category: groupProgram, Usage: "print a command's flags", ArgsUsage: "[COMMAND]",
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			if err := f.done(1); err != nil {
				return err
			}
			topic := c.Args().First()
			if topic == "" {
				fmt.Fprint(p.out, overview(c.App))
				return nil
			}
			for _, command := range c.App.Commands {
				if command.Name == topic {
					fmt.Fprint(p.out, manual(command, c.App.Name))
					return nil
				}
			}
			return unknownCommand(c, topic)
		},
	}
}
