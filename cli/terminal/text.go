package terminal

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"salectl/spec"
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

// unprintable matches control characters, and the colours of palette, which printable keeps.
var unprintable = regexp.MustCompile(`\x1b\[(?:0|1|2|31|32|33)m|[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}]`)

// Printable escapes control characters as in \x1b: many texts come from a server, a user or a
// file.
func Printable(text string) string {
	return unprintable.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "\x1b[") {
			return found
		}
		return strings.Trim(strconv.QuoteRuneToASCII([]rune(found)[0]), "'")
	})
}

// FoldBeyond is the number of similar items in a list above which they are folded, unless
// --all is given.
const FoldBeyond = 20

// ListsAll prints how to list folded shards.
func ListsAll(w io.Writer, c Palette) { fmt.Fprintf(w, "  %s\n", c.Dim("--all lists every shard")) }

// WriteSome prints a line with a mark for each text, at most FoldBeyond lines unless all is
// set.
func WriteSome(w io.Writer, mark string, texts []string, noun string, all bool) {
	shown := texts
	if !all && len(texts) > FoldBeyond {
		shown = texts[:FoldBeyond]
	}
	for _, text := range shown {
		fmt.Fprintf(w, "  %s %s\n", mark, text)
	}
	if left := len(texts) - len(shown); left > 0 {
		fmt.Fprintf(w, "  %s and %s, which --all lists\n", mark, spec.Count(left, "more "+noun))
	}
}

// WriteWarnings prints warnings that are part of an answer.
func WriteWarnings(w io.Writer, c Palette, warnings []string, all bool) {
	WriteSome(w, c.Yellow("!"), warnings, "warning", all)
}
