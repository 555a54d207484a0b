package report

import (
	"fmt"
	"html/template"
	"strings"

	"salectl/spec"
)

// section is a part of the page under one heading.
type section struct {
	ID, Title  string
	Paragraphs []string
	Table      *table
	Figures    []figure
	Notes      []string // paragraphs at the end
}

// figure is a chart with its numbers.
type figure struct {
	Caption string
	Legend  []series
	SVG     template.HTML
	Table   *table
}

// table is a table. The names of columns of numbers begin with >.
type table struct {
	Name string
	Head []cell
	Rows [][]cell
}

type cell struct {
	Text  string
	Right bool
}

func newTable(name string, head ...string) *table {
	t := &table{Name: name}
	for _, h := range head {
		bare, right := strings.CutPrefix(h, ">")
		t.Head = append(t.Head, cell{bare, right})
	}
	return t
}

// row adds a row. Whole numbers are grouped.
func (t *table) row(cells ...any) {
	var row []cell
	for i, c := range cells {
		text := fmt.Sprint(c)
		switch c.(type) {
		case int, int64:
			text = spec.Grouped(whole(c))
		}
		row = append(row, cell{text, t.Head[i].Right})
	}
	t.Rows = append(t.Rows, row)
}

// numbers returns the table of a chart: a row for each bin that is not empty, with the values of
// the series and, if requested, their shares.
func numbers(name, rows string, names []string, all []series, shares bool) *table {
	head := []string{rows}
	for _, s := range all {
		if head = append(head, ">"+s.Name); shares {
			head = append(head, ">share")
		}
	}
	t := newTable(name, head...)
	for i, name := range names {
		whole, cells := sum(all, i), []any{name}
		for _, s := range all {
			if cells = append(cells, int64(s.values[i])); shares {
				cells = append(cells, percent(s.values[i]/whole))
			}
		}
		if whole > 0 {
			t.row(cells...)
		}
	}
	return t
}
