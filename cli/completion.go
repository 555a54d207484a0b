package cli

import (
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
var shellScripts = map[string]string{
	"bash": `# bash completion for salectl
_salectl() {
	local words=("${COMP_WORDS[@]:0:COMP_CWORD}") cur=${COMP_WORDS[COMP_CWORD]}
	if [[ " ${words[*]} " == *" -- "* ]]; then
		COMPREPLY=($(compgen -c -f -- "$cur"))
		return
	fi
	[[ $cur == -* ]] && words+=("$cur")
	COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _salectl salectl
`,
	"zsh": `#compdef salectl
_salectl() {
	local -a answer line
	line=("${(@)words[1,CURRENT-1]}")
	if (( ${line[(Ie)--]} )); then
		_normal
		return
	fi
	[[ $words[CURRENT] == -* ]] && line+=("$words[CURRENT]")
	answer=("${(@f)$(env 0=zsh "${line[@]}" --generate-bash-completion 2>/dev/null)}")
	if [[ -n $answer[1] ]]; then
		_describe word answer
	else
		_files
	fi
}
compdef _salectl salectl
`,
	"fish": `# fish completion for salectl
function __salectl_words
	set -l line (commandline -opc)
	string match -q -- '-*' (commandline -ct); and set -a line (commandline -ct)
	contains -- -- $line; or $line --generate-bash-completion 2>/dev/null
end
complete -c salectl -a '(__salectl_words)'
`,
}

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
