package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// row is a mutant and what came of it.
type row struct {
	mutant
	finding
	err error
}

// outcome returns in a few words whether the bug was found.
func (r row) outcome() string {
	switch {
	case r.err != nil:
		first, _, _ := strings.Cut(r.err.Error(), "\n")
		return "NO: " + first
	case !r.found:
		return "NO"
	case r.finding.test != "":
		return "-"
	}
	return fmt.Sprint(r.seed)
}

// line reports one mutant as soon as it is done: with what fails first, for
// which the table has no room.
func (r row) line() string {
	return fmt.Sprintf("%-32s %-10s %7v  %s", r.name, r.outcome(), r.took.Round(100*time.Millisecond), short(r.problem))
}

// short cuts a line that would run off the screen.
func short(text string) string {
	const most = 120
	if line := []rune(text); len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return text
}

// writeTable writes the findings as Markdown that can also be read as it is.
func writeTable(out io.Writer, rows []row) {
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	defer table.Flush()
	fmt.Fprint(table, "\n| planted bug\t| seed\t| found by\t| time\t|\n|---\t|---:\t|---\t|---:\t|\n")
	for _, r := range rows {
		by := ""
		if r.found {
			by = r.by()
		}
		fmt.Fprintf(table, "| %s\t| %s\t| %s\t| %v\t|\n", r.name, cell(r.outcome()), by, r.took.Round(100*time.Millisecond))
	}
}

// cell keeps a text within its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
