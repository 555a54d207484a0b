package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"salectl/spec"
)

// count writes "1 problem", "2 problems", "12,345 problems".
func count[N int | int64 | uint64](n N, noun string) string { return spec.Count(n, noun) }

// grouped writes a number with a comma every three digits.
func grouped[N int | int64 | uint64](n N) string { return spec.Grouped(n) }

// table is rows of cells under a head. Numbers stand to the right.
type table struct {
	head  []string
	right []bool // of each column
	rows  [][]string
}

// newTable makes a table; a name that begins with > is of a column of numbers.
func newTable(head ...string) *table {
	t := &table{}
	for _, name := range head {
		bare, right := strings.CutPrefix(name, ">")
		t.head, t.right = append(t.head, bare), append(t.right, right)
	}
	return t
}

func (t *table) row(cells ...any) {
	row := make([]string, len(t.head))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// write writes the table, each line indented, with its head in the given dress.
func (t *table) write(w io.Writer, indent string, dress func(string) string) {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	line := func(row []string) string {
		var b strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if t.right[i] {
				b.WriteString(gap + cell)
			} else {
				b.WriteString(cell + gap)
			}
			b.WriteString("  ")
		}
		return strings.TrimRight(b.String(), " ")
	}
	fmt.Fprintf(w, "%s%s\n", indent, dress(line(t.head)))
	for _, row := range t.rows {
		fmt.Fprintf(w, "%s%s\n", indent, line(row))
	}
}
