package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// row is a mutant and what came of it.
type row struct {
	mutant
	finding
	err error
}

// outcome says in a few words whether the bug was found.
func (r row) outcome() string {
	switch {
	case r.err != nil:
		first, _, _ := strings.Cut(r.err.Error(), "\n")
		return "NO: " + first
	case !r.found:
		return "NO"
	}
	return fmt.Sprintf("seed %d", r.seed)
}

// line tells of one mutant as soon as it is done.
func (r row) line() string {
	return fmt.Sprintf("%-28s %-12s %6d seeds %7s  %s", r.name, r.outcome(), r.worlds, r.took.Round(100*time.Millisecond), short(r.problem))
}

// short cuts a line that would run off the table.
func short(text string) string {
	const most = 120
	if line := []rune(text); len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return text
}

// writeTable writes the findings as Markdown.
func writeTable(out io.Writer, rows []row) {
	fmt.Fprintln(out, "\n| planted bug | found by | after seeds | time | checker | what fails first |\n|---|---|---:|---:|---|---|")
	for _, r := range rows {
		checker, problem := "", ""
		if r.found {
			checker, problem = r.checker(), r.problem
		}
		fmt.Fprintf(out, "| `%s`: %s | %s | %d | %s | %s | %s |\n", r.name, cell(strings.TrimSuffix(r.title, ".")),
			cell(r.outcome()), r.worlds, r.took.Round(100*time.Millisecond), checker, cell(short(problem)))
	}
}

// cell keeps a text within its cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
