package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"salectl/testdata/peers/internal/page"
)

// made is where the table of docs/benchmarks.md stands.
var made = page.By("go run ./callers -docs ../../docs")

// markdown is the table, with a column for each number of callers.
func markdown(lines []line, o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Claims a second, and the 99th percentile of the wait for an answer, on %d processors that servers and callers share; medians of %d rounds of %v:\n\n",
		runtime.NumCPU(), o.rounds, o.each)
	b.WriteString("| callers |")
	for _, callers := range crowds {
		fmt.Fprintf(&b, " %s |", page.Grouped(float64(callers)))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(crowds)) + "\n")
	fewer := 0
	for _, l := range lines {
		fmt.Fprintf(&b, "| %s |", l.name)
		for _, p := range l.points {
			mark := ""
			if !slices.Contains(crowds, p.callers) {
				mark, fewer = "\\*", p.callers
			}
			fmt.Fprintf(&b, " %s/s%s, %s |", page.Grouped(page.Rounded(p.rate, 3)), mark, wait(p))
		}
		b.WriteString("\n")
	}
	if fewer > 0 {
		fmt.Fprintf(&b, "\n\\* by %s connections: the process that has both ends of them may have no more files open.\n", page.Grouped(float64(fewer)))
	}
	return b.String()
}

// wait is a p99 with its unit.
func wait(p point) string {
	more, unit, v := "", "ms", page.Rounded(p.p99, 2)
	if p.atLeast {
		more = "more than "
	}
	if v >= 1000 {
		unit, v = "s", v/1000
	}
	return more + strconv.FormatFloat(v, 'f', -1, 64) + " " + unit
}

// renew puts a table and a plot into the folder docs/.
func renew(docs, text string, plot []byte) error {
	return errors.Join(made.Renew(filepath.Join(docs, "benchmarks.md"), text), os.WriteFile(filepath.Join(docs, "benchmarks.svg"), plot, 0o644))
}
