// Package table collects figures, each beside another that was measured in the
// same round, and prints them.
package table

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Figure is one line of a table: a value in each round, and of what it is
// compared with in the same round.
type Figure struct {
	Name   string
	Form   string // of both values, for fmt
	Beside string // what it is compared with; "": nothing
	Wanted string // "": nothing
	Holds  func(value, ratio float64) bool

	values, others []float64
}

// Add adds what one round has measured.
func (f *Figure) Add(value, other float64) {
	f.values, f.others = append(f.values, value), append(f.others, other)
}

// AtLeast is a Holds for a ratio that may not be smaller.
func AtLeast(least float64) func(value, ratio float64) bool {
	return func(_, ratio float64) bool { return ratio >= least }
}

// AtMost is a Holds for a ratio that may not be greater.
func AtMost(most float64) func(value, ratio float64) bool {
	return func(_, ratio float64) bool { return ratio <= most }
}

// Table is figures in order.
type Table struct{ lines []*Figure }

// Line adds a figure below the others and returns it.
func (t *Table) Line(f Figure) *Figure {
	t.lines = append(t.lines, &f)
	return &f
}

// Print writes the table: medians, and of the ratio the range too.
func (t *Table) Print(w io.Writer) {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "FIGURE\tVALUE\tBESIDE IT\tWHICH IS\tRATIO\tWANTED\tMET")
	for _, l := range t.lines {
		fmt.Fprintln(columns, l)
	}
	columns.Flush()
}

// String returns the figure's line, with a tab between two cells.
func (f *Figure) String() string {
	value := fmt.Sprintf(f.Form, Median(f.values))
	if f.Beside == "" {
		return fmt.Sprintf("%s\t%s%s\t\t\t\t\t", f.Name, value, spread(f.Form, f.values))
	}
	ratios := make([]float64, len(f.values))
	for i := range ratios {
		ratios[i] = f.values[i] / f.others[i]
	}
	verdict := ""
	switch {
	case f.Wanted == "":
	case f.Holds(Median(f.values), Median(ratios)):
		verdict = "yes"
	default:
		verdict = "NO"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.2f%s\t%s\t%s", f.Name, value, fmt.Sprintf(f.Form, Median(f.others)), f.Beside,
		Median(ratios), spread("%.2f", ratios), f.Wanted, verdict)
}

// spread is the least and the greatest of several values.
func spread(form string, values []float64) string {
	if len(values) < 2 {
		return ""
	}
	return fmt.Sprintf(" ("+form+"–"+form+")", slices.Min(values), slices.Max(values))
}

// Median returns the middle value, of an even number the greater of the two; 0 of
// none.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Quantile returns the least value that more than the given part of the others
// does not exceed; 0 of none.
func Quantile[T cmp.Ordered](values []T, part float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(float64(len(sorted))*part), len(sorted)-1)]
}
