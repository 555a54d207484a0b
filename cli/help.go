package cli

import (
	"fmt"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// columns is the maximum width of the help.
const columns = 80

// overview returns the help of the whole program.
func overview(app *urfave.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s - %s\n\n", app.Name, app.Usage)
	fmt.Fprintf(&b, "Usage:\n  %s COMMAND [flags]\n", app.Name)
	category := ""
	for _, c := range app.Commands {
		if c.Category != category {
			category = c.Category
			fmt.Fprintf(&b, "\n%s:\n", category)
		}
		fmt.Fprintf(&b, "  %-11s %s\n", c.Name, c.Usage)
	}
	fmt.Fprintf(&b, "\n%s\n", paragraphs(app.Description))
	return b.String()
}

// manual returns the help of one command. within is the command line before its name.
func manual(c *urfave.Command, within string) string {
	var b strings.Builder
	usage := within + " " + c.Name
	if len(c.Subcommands) > 0 {
		usage += " COMMAND"
	}
	usage += " [flags]"
	if c.ArgsUsage != "" {
		usage += " " + c.ArgsUsage
	}
	fmt.Fprintf(&b, "%s %s - %s\n\nUsage:\n  %s\n", within, c.Name, c.Usage, usage)
	if c.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", paragraphs(c.Description))
	}
	if len(c.Subcommands) > 0 {
		fmt.Fprintf(&b, "\nCommands:\n")
		for _, sub := range c.Subcommands {
			fmt.Fprintf(&b, "  %-11s %s\n", sub.Name, sub.Usage)
		}
	}
	fmt.Fprintf(&b, "\nFlags:\n")
	var left, right []string
	widest := 0
	for _, f := range c.Flags {
		doc, ok := f.(urfave.DocGenerationFlag)
		if !ok {
			continue
		}
		name, text := flagLine(doc)
		left, right = append(left, name), append(right, text)
		widest = max(widest, len(name))
	}
	for i := range left {
		fmt.Fprintf(&b, "  %-*s  %s\n", widest, left[i], fold(right[i], columns-widest-4, widest+4))
	}
	return b.String()
}

// flagLine returns a flag as typed, and its description. The word in backquotes in its usage
// is the name of its value.
func flagLine(f urfave.DocGenerationFlag) (name, text string) {
	var names []string
	for _, n := range f.Names() {
		names = append(names, dashed(n))
	}
	name, text = strings.Join(names, ", "), f.GetUsage()
	if f.TakesValue() {
		before, rest, _ := strings.Cut(text, "`")
		value, after, _ := strings.Cut(rest, "`")
		name += " " + value
		text = before + value + after
	}
	return name, text
}

// paragraphs folds text at the width of the help. A blank line ends a paragraph; indented
// paragraphs are unchanged.
func paragraphs(text string) string {
	all := strings.Split(text, "\n\n")
	for i, paragraph := range all {
		if !strings.HasPrefix(paragraph, " ") {
			all[i] = fold(paragraph, columns, 0)
		}
	}
	return strings.Join(all, "\n\n")
}

// fold breaks text into lines of at most width, all but the first indented.
func fold(text string, width, indent int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	lines = append(lines, line)
	return strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}
