package report

import (
	"fmt"
	"html/template"
	"strings"

	"salectl/spec"
)

// section is a part of the page under one heading.
type section struct {
	ID, Title string
	Says      []string // paragraphs
	Facts     []fact
	Table     *table
	Problems  []string
	Figures   []figure
	Notes     []string // paragraphs at the end
}

// figure is a chart with its numbers.
type figure struct {
	Says   string
	Legend []series
	SVG    template.HTML
	Table  *table
}

// table is a table. The names of columns of numbers begin with >.
type table struct {
	Name string
	Head []column
	Rows [][]cell
}

type column struct {
	Name  string
	Right bool
}

type cell struct{ Text, Class string }

func newTable(name string, head ...string) *table {
	t := &table{Name: name}
	for _, h := range head {
		bare, right := strings.CutPrefix(h, ">")
		t.Head = append(t.Head, column{bare, right})
	}
	return t
}

// row adds a row. Whole numbers are grouped.
func (t *table) row(cells ...any) {
	var row []cell
	for i, c := range cells {
		one := cell{Text: fmt.Sprint(c)}
		switch v := c.(type) {
		case int:
			one.Text = spec.Grouped(v)
		case int64:
			one.Text = spec.Grouped(v)
		case bool:
			one = cell{"ok", "good"}
			if !v {
				one = cell{"failed", "bad"}
			}
		}
		if t.Head[i].Right {
			one.Class = "n"
		}
		row = append(row, one)
	}
	t.Rows = append(t.Rows, row)
}
