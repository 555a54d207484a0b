package cli

import (
	"context"
	"errors"
	"strconv"

	urfave "github.com/urfave/cli/v2"
)

// Groups of commands, in the order of the help.
const (
	groupSale    = "Run a sale"
	groupLook    = "Look at it"
	groupProgram = "The program"
)

// newApp combines the commands and overrides defaults of urfave: it would exit the process,
// print usage errors to standard output, and split -f at commas. (It would also not parse
// flags after arguments: arguments.go.)
func (p *program) newApp() *urfave.App {
	app := &urfave.App{
		Name:  "salectl",
		Usage: "runs flash sales from YAML files",
		Description: "Run 'salectl COMMAND --help' for a command's flags, and 'salectl help help' for the\n" +
			"order of flags and for colours.",
		Flags: []urfave.Flag{helpFlag(), onFlag("version", "print the version")},
		Commands: []*urfave.Command{
			p.validateCommand(), p.planCommand(), p.applyCommand(), p.serveCommand(), p.claimCommand(),
			p.drainCommand(), p.confirmCommand(), p.extendCommand(), p.cancelCommand(), p.refundCommand(),
			p.drawCommand(), p.pauseCommand(), p.resumeCommand(), p.closeCommand(), p.destroyCommand(),
			p.statusCommand(), p.listCommand(), p.showCommand(), p.historyCommand(), p.claimsCommand(), p.explainCommand(), p.auditCommand(), p.exportCommand(), p.rehearseCommand(), p.lockCommand(),
			p.schemaCommand(), p.completionCommand(), p.versionCommand(), p.helpCommand(),
		},
		Reader:                    p.in,
		Writer:                    p.out,
		ErrWriter:                 p.err,
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*urfave.Context, error) {},
		OnUsageError:              flagFault,
	}
	app.Action = func(c *urfave.Context) error {
		switch {
		case c.Args().Present():
			return unknownCommand(c, app.Name, app.Commands, c.Args().First())
		case c.Bool("version"):
			p.version(false)
			return nil
		}
		p.say("%s", overview(app))
		return &usageError{command: app.Name, what: "no command was given"}
	}
	app.CustomAppHelpTemplate = verbatim(overview(app))
	tame(app.Commands, app.Name)
	return app
}

// tame sets help and usage errors of commands and their subcommands. within is the command
// line before them.
func tame(commands []*urfave.Command, within string) {
	for _, c := range commands {
		c.Flags = append(c.Flags, helpFlag())
		c.HideHelp = true
		c.OnUsageError = flagFault
		c.CustomHelpTemplate = verbatim(manual(c, within))
		tame(c.Subcommands, within+" "+c.Name)
	}
}

func helpFlag() urfave.Flag {
	return &urfave.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "print this help"}
}

// verbatim returns a template that prints text unchanged.
func verbatim(text string) string { return "{{ " + strconv.Quote(text) + " }}" }

// command runs one command line. Errors of urfave itself that reach this point are about help
// topics, and so usage errors.
func (p *program) command(ctx context.Context, args []string) error {
	app := p.newApp()
	err := app.RunContext(ctx, arrange(app, args))
	var theirs urfave.ExitCoder
	if errors.As(err, &theirs) {
		return &usageError{command: "salectl", what: err.Error()}
	}
	return err
}
