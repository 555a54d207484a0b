package cli

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// completing is the last argument of a program that is to print the words that may follow the
// others.
const completing = "--generate-bash-completion"

// shellScripts complete command lines in the shells. What follows -- belongs to another command.
var (
	//go:embed completion/salectl.bash
	bashScript string
	//go:embed completion/salectl.zsh
	zshScript string
	//go:embed completion/salectl.fish
	fishScript   string
	shellScripts = map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
)

func (p *program) completionCommand() *urfave.Command {
	shells := func() []string { return slices.Sorted(maps.Keys(shellScripts)) }
	return &urfave.Command{
		Name: "completion", Category: groupProgram, Usage: "print a shell's completion script", ArgsUsage: "bash|zsh|fish",
		Description: "  bash:  source <(salectl completion bash)\n" +
			"  zsh:   source <(salectl completion zsh)\n" +
			"  fish:  salectl completion fish | source",
		BashComplete: completeWords(shells),
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 1); err != nil {
				return err
			}
			shell := c.Args().First()
			switch script, known := shellScripts[shell]; {
			case known:
				fmt.Fprint(p.out, script)
				return nil
			case shell == "":
				return misused(c, "name a shell: %s", strings.Join(shells(), ", "))
			}
			return misused(c, "there is no script for %q, only for %s", shell, strings.Join(shells(), ", "))
		},
	}
}

// valueWords are the flags whose value is one of a few words.
var valueWords = map[string][]string{
	"--wait-for": waitable, "--log-format": logFormats, "--log-level": logLevels,
}

// completeFlags completes the flags of a command and those of their values that are known.
func completeFlags(command *urfave.Command) urfave.BashCompleteFunc {
	return func(c *urfave.Context) {
		if words := valueWords[os.Args[len(os.Args)-2]]; words != nil {
			completeWords(func() []string { return words })(c)
			return
		}
		urfave.DefaultCompleteWithFlags(command)(c)
	}
}

// completeWords completes an argument that is one of a few words.
func completeWords(words func() []string) urfave.BashCompleteFunc {
	return func(c *urfave.Context) { fmt.Fprintln(c.App.Writer, strings.Join(words(), "\n")) }
}
