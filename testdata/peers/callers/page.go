package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// The table stands between these lines of docs/benchmarks.md.
const (
	tableBegins = "<!-- Made by testdata/peers: go run ./callers -docs ../../docs -->\n"
	tableEnds   = "<!-- The end of what is made -->\n"
)

// markdown is the table, with a column for each number of callers.
func markdown(lines []line, o options) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Claims a second, and the 99th percentile of the wait for an answer, on %d processors that servers and callers share; medians of %d rounds of %v:\n\n",
		runtime.NumCPU(), o.rounds, o.each)
	b.WriteString("| callers |")
	for _, callers := range crowds {
		fmt.Fprintf(&b, " %s |", grouped(float64(callers)))
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
			fmt.Fprintf(&b, " %s/s%s, %s |", grouped(rounded(p.rate, 3)), mark, wait(p))
		}
		b.WriteString("\n")
	}
	if fewer > 0 {
		fmt.Fprintf(&b, "\n\\* by %s connections: the process that has both ends of them may have no more files open.\n", grouped(float64(fewer)))
	}
	return b.String()
}

// wait is a p99 with its unit.
func wait(p point) string {
	more, unit, v := "", "ms", rounded(p.p99, 2)
	if p.atLeast {
		more = "more than "
	}
	if v >= 1000 {
		unit, v = "s", v/1000
	}
	return more + strconv.FormatFloat(v, 'f', -1, 64) + " " + unit
}

// rounded keeps so many digits.
func rounded(v float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return math.NaN()
	}
	return r
}

// grouped is a number, from 1,000 on with commas between thousands.
func grouped(v float64) string {
	if v < 1000 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	s := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// renew puts a table and a plot into the folder docs/.
func renew(docs, text string, plot []byte) error {
	page := filepath.Join(docs, "benchmarks.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	renewed, err := replace(old, text)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return errors.Join(os.WriteFile(page, renewed, 0o644), os.WriteFile(filepath.Join(docs, "benchmarks.svg"), plot, 0o644))
}

// replace puts text between the two marks of a page.
func replace(page []byte, text string) ([]byte, error) {
	before, rest, ok := bytes.Cut(page, []byte(tableBegins))
	_, after, ended := bytes.Cut(rest, []byte(tableEnds))
	if !ok || !ended {
		return nil, fmt.Errorf("it has no line %q, with %q below", strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	return slices.Concat(before, []byte(tableBegins+text+tableEnds), after), nil
}
