package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// Groups of commands, in the order of the help.
const (
	groupSale    = "Run a sale"
	groupInspect = "Inspect a sale"
	groupProgram = "The program"
)

// newApp combines the commands and overrides defaults of urfave: it would exit the process and
// split -f at commas. (It would also not parse flags after arguments, and report only the
// first fault of a command line: arguments.go.)
func (p *program) newApp() *urfave.App {
	root := &urfave.Command{
		Name: "salectl", HelpName: "salectl", Usage: "run flash sales that YAML files declare",
		Description: "'salectl COMMAND --help' prints the flags of a command, 'salectl help help' the rules for flags and colours.",
		Subcommands: []*urfave.Command{
			p.initCommand(), p.validateCommand(), p.planCommand(), p.applyCommand(), p.serveCommand(), p.claimCommand(), p.claimsCommand(),
			p.drainCommand(), p.drawCommand(), p.pauseCommand(), p.resumeCommand(), p.closeCommand(), p.destroyCommand(),
			p.statusCommand(), p.processesCommand(), p.listCommand(), p.showCommand(), p.historyCommand(), p.explainCommand(), p.auditCommand(),
			p.exportCommand(), p.rehearseCommand(), p.lockCommand(),
			p.schemaCommand(), p.completionCommand(), p.versionCommand(),
		},
		Flags: []urfave.Flag{onFlag("version", "print the version")},
	}
	root.Subcommands = append(root.Subcommands, p.helpCommand(root))
	app := &urfave.App{
		Name:                      root.Name,
		Flags:                     root.Flags,
		Commands:                  root.Subcommands,
		Reader:                    p.in,
		Writer:                    p.out,
		ErrWriter:                 p.err,
		HideHelp:                  true,
		HideVersion:               true,
		EnableBashCompletion:      true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*urfave.Context, error) {},
		Action: func(c *urfave.Context) error {
			switch {
			case c.Args().Present():
				return unknownCommand(root, root, c.Args().First())
			case c.Bool("version"):
				p.version(false)
				return nil
			}
			p.logf("%s", helpOf(root))
			return &usageError{command: root.Name, what: "no command was given"}
		},
	}
	app.Setup() // it would add the program's name to those that tame sets
	tame(root)
	return app
}

// rootOf returns the program as a command.
func rootOf(app *urfave.App) *urfave.Command {
	return &urfave.Command{Name: app.Name, HelpName: app.Name, Subcommands: app.Commands, Flags: app.Flags}
}

// tame sets the help and the completion of a command and its subcommands.
func tame(c *urfave.Command) {
	c.Flags = append(c.Flags, onFlag("help", "print this help", "h"))
	c.HideHelp = true
	if c.BashComplete == nil {
		c.BashComplete = completeFlags(c)
	}
	for _, sub := range c.Subcommands {
		sub.HelpName = c.HelpName + " " + sub.Name
		tame(sub)
	}
}

// group returns a command that has subcommands and does nothing itself.
func group(name, category, usage, description string, commands ...*urfave.Command) *urfave.Command {
	return &urfave.Command{
		Name: name, Category: category, Usage: usage, Description: description, Subcommands: commands,
		Action: func(c *urfave.Context) error {
			if c.Args().Present() {
				return unknownCommand(rootOf(c.App), c.Command, c.Args().First())
			}
			return misused(c, "name a command of %s: %s", name, strings.Join(commandNames(commands), ", "))
		},
	}
}

func commandNames(commands []*urfave.Command) (names []string) {
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

// command runs one command line. Errors of urfave itself that reach this point are usage
// errors.
func (p *program) command(ctx context.Context, args []string) error {
	app := p.newApp()
	if slices.Contains(args, completing) {
		if slices.Contains(args, "--") { // urfave would run the command
			return nil
		}
		return app.RunContext(ctx, args)
	}
	args, err := arrange(rootOf(app), args)
	if err != nil {
		return err
	}
	err = app.RunContext(ctx, args)
	var theirs urfave.ExitCoder
	if errors.As(err, &theirs) {
		return &usageError{command: app.Name, what: err.Error()}
	}
	return err
}
