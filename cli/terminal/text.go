package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a table with a head. Numbers are aligned right.
type Table struct {
	head  []string
	right []bool // by column
	rows  [][]string
}

// NewTable returns a table; a name that begins with > is that of a column of numbers.
func NewTable(head ...string) *Table {
	t := &Table{}
	for _, name := range head {
		bare, right := strings.CutPrefix(name, ">")
		t.head, t.right = append(t.head, bare), append(t.right, right)
	}
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(t.head))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// Write prints the table, each line indented. dress formats the head.
func (t *Table) Write(w io.Writer, indent string, dress func(string) string) {
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
