package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

func (p *program) completionCommand() *urfave.Command {
	return &urfave.Command{
		Name: "completion", Category: groupProgram, Usage: "print a shell's completion script", ArgsUsage: "bash|zsh|fish",
		Description: "  bash:  source <(salectl completion bash)\n" +
			"  zsh:   source <(salectl completion zsh)\n" +
			"  fish:  salectl completion fish | source",
		Action: func(c *urfave.Context) error {
			if err := atMost(c, 1); err != nil {
				return err
			}
			switch shell := c.Args().First(); shell {
			case "bash":
				bashCompletion(p.out, c.App)
			case "zsh":
				zshCompletion(p.out, c.App)
			case "fish":
				fishCompletion(p.out, c.App)
			case "":
				return misused(c, "name a shell: bash, zsh or fish")
			default:
				return misused(c, "there is no script for %q, only for bash, zsh and fish", shell)
			}
			return nil
		},
	}
}

// The scripts contain all words, so completion runs no program.

// fileValues are the flags whose value is a path.
var fileValues = map[string]bool{"f": true, "out": true, "plan": true, "export": true, "token-file": true}

// wordValues are the flags whose value is one of a few words.
var wordValues = map[string]string{
	"wait-for": strings.Join(waitable, " "), "log-format": "text json", "log-level": "debug info warn error",
}

// argumentWords returns the possible arguments of a command.
func argumentWords(app *urfave.App, command *urfave.Command) string {
	switch command.Name {
	case "completion":
		return "bash zsh fish"
	case "help":
		return commandWords(app.Commands)
	}
	return ""
}

func commandNames(commands []*urfave.Command) (names []string) {
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return names
}

func commandWords(commands []*urfave.Command) string {
	return strings.Join(commandNames(commands), " ")
}

func flagNames(c *urfave.Command) string {
	var names []string
	for _, f := range c.Flags {
		for _, n := range f.Names() {
			names = append(names, dashed(n))
		}
	}
	return strings.Join(names, " ")
}

func bashCompletion(w io.Writer, app *urfave.App) {
	fmt.Fprintf(w, `# bash completion for %[1]s
_%[1]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=
	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		COMPREPLY=($(compgen -W %[2]q -- "$cur"))
		return
	fi
	# Behind -- stands another command line.
	if [[ " ${COMP_WORDS[*]:0:COMP_CWORD} " == *" -- "* ]]; then
		COMPREPLY=($(compgen -c -f -- "$cur"))
		return
	fi
	case $prev in
`, app.Name, commandWords(app.Commands))
	for _, name := range slices.Sorted(maps.Keys(wordValues)) {
		fmt.Fprintf(w, "\t--%s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", name, wordValues[name])
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(fileValues)) {
		paths = append(paths, dashed(name))
	}
	fmt.Fprintf(w, "\t%s) compopt -o default; return ;;\n\tesac\n\tcase ${COMP_WORDS[1]} in\n", strings.Join(paths, "|"))
	for _, c := range app.Commands {
		if len(c.Subcommands) == 0 {
			fmt.Fprintf(w, "\t%s) words=%q ;;\n", c.Name, strings.TrimSpace(argumentWords(app, c)+" "+flagNames(c)))
			continue
		}
		fmt.Fprintf(w, "\t%s)\n\t\twords=%q\n\t\tif [[ $COMP_CWORD -gt 2 ]]; then\n\t\t\tcase ${COMP_WORDS[2]} in\n",
			c.Name, commandWords(c.Subcommands)+" "+flagNames(c))
		for _, sub := range c.Subcommands {
			fmt.Fprintf(w, "\t\t\t%s) words=%q ;;\n", sub.Name, flagNames(sub))
		}
		fmt.Fprint(w, "\t\t\tesac\n\t\tfi ;;\n")
	}
	fmt.Fprintf(w, "\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}\ncomplete -F _%[1]s %[1]s\n", app.Name)
}

func zshCompletion(w io.Writer, app *urfave.App) {
	fmt.Fprintf(w, `#compdef %[1]s
_%[1]s() {
	local -a commands
	local command
`, app.Name)
	zshCommands(w, "\t", app, app.Commands)
	fmt.Fprintf(w, "}\ncompdef _%[1]s %[1]s\n", app.Name)
}

// zshCommands completes the name of a command, or the words after it.
func zshCommands(w io.Writer, indent string, app *urfave.App, commands []*urfave.Command) {
	fmt.Fprintf(w, "%[1]sif (( CURRENT == 2 )); then\n%[1]s\tcommands=(\n", indent)
	for _, c := range commands {
		fmt.Fprintf(w, "%s\t\t%s\n", indent, single(c.Name+":"+c.Usage))
	}
	fmt.Fprintf(w, "%[1]s\t)\n%[1]s\t_describe command commands\n%[1]s\treturn\n%[1]sfi\n"+
		"%[1]scommand=$words[2]\n%[1]s(( CURRENT-- ))\n%[1]sshift words\n%[1]scase $command in\n", indent)
	for _, c := range commands {
		if len(c.Subcommands) > 0 {
			fmt.Fprintf(w, "%s%s)\n", indent, c.Name)
			zshCommands(w, indent+"\t", app, c.Subcommands)
			fmt.Fprintf(w, "%s\t;;\n", indent)
			continue
		}
		fmt.Fprintf(w, "%s%s) _arguments", indent, c.Name)
		for _, f := range c.Flags {
			for _, arg := range zshArguments(f) {
				fmt.Fprintf(w, " \\\n%s\t%s", indent, single(arg))
			}
		}
		if words := argumentWords(app, c); words != "" {
			fmt.Fprintf(w, " \\\n%s\t%s", indent, single("1:word:("+words+")"))
		}
		fmt.Fprint(w, " ;;\n")
	}
	fmt.Fprintf(w, "%sesac\n", indent)
}

// zshArguments describes a flag in the syntax of _arguments.
func zshArguments(f urfave.Flag) []string {
	doc := f.(urfave.DocGenerationFlag)
	_, text := flagLine(doc)
	text = strings.NewReplacer("[", "(", "]", ")", ":", "").Replace(text)
	var all []string
	for _, n := range f.Names() {
		arg := dashed(n) + "[" + text + "]"
		switch words := wordValues[n]; {
		case words != "":
			arg += ":value:(" + words + ")"
		case fileValues[n]:
			arg += ":file:_files"
		case doc.TakesValue():
			arg += ":value: "
		}
		if n == "f" {
			arg = "*" + arg
		}
		all = append(all, arg)
	}
	return all
}

func fishCompletion(w io.Writer, app *urfave.App) {
	fmt.Fprintf(w, "# fish completion for %[1]s\ncomplete -c %[1]s -f\n", app.Name)
	for _, c := range app.Commands {
		fmt.Fprintf(w, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", app.Name, c.Name, fishWord(c.Usage))
	}
	for _, c := range app.Commands {
		seen := "__fish_seen_subcommand_from " + c.Name
		words := commandWords(c.Subcommands)
		for _, sub := range c.Subcommands {
			fmt.Fprintf(w, "complete -c %s -n '%s; and not __fish_seen_subcommand_from %s' -a %s -d %s\n",
				app.Name, seen, words, sub.Name, fishWord(sub.Usage))
			fishFlags(w, app, sub, seen+"; and __fish_seen_subcommand_from "+sub.Name)
		}
		if words == "" {
			fishFlags(w, app, c, seen)
		}
	}
}

// fishFlags completes the flags and arguments of a command.
func fishFlags(w io.Writer, app *urfave.App, c *urfave.Command, when string) {
	in := fmt.Sprintf("complete -c %s -n '%s'", app.Name, when)
	for _, f := range c.Flags {
		doc := f.(urfave.DocGenerationFlag)
		_, text := flagLine(doc)
		line := in
		for _, n := range f.Names() {
			if len(n) == 1 {
				line += " -s " + n
			} else {
				line += " -l " + n
			}
		}
		switch name := f.Names()[0]; {
		case wordValues[name] != "":
			line += " -x -a " + fishWord(wordValues[name])
		case fileValues[name]:
			line += " -r -F"
		case doc.TakesValue():
			line += " -x"
		}
		fmt.Fprintf(w, "%s -d %s\n", line, fishWord(text))
	}
	if words := argumentWords(app, c); words != "" {
		fmt.Fprintf(w, "%s -a %s\n", in, fishWord(words))
	}
}

// single quotes a word for bash and zsh.
func single(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// fishWord quotes a word for fish, where a backslash escapes inside quotes.
func fishWord(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'"
}
