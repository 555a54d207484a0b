package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// figure is one line of the table: a value of salectl's in each round, and of
// what it is compared with in the same round.
type figure struct {
	name   string
	form   string // of both values, for fmt
	beside string // what it is compared with; "": nothing
	wanted string // "": nothing
	met    func(ours, ratio float64) bool

	ours, other []float64
}

func (f *figure) add(ours, other float64) {
	f.ours, f.other = append(f.ours, ours), append(f.other, other)
}

// figures are all lines.
type figures struct {
	peer, raw, batch, naive map[int]*figure // by callers
	alone, commands         *figure
	load, soldOut           *figure

	lines []*figure // in the table's order
}

func newFigures() *figures {
	f := &figures{peer: map[int]*figure{}, raw: map[int]*figure{}, batch: map[int]*figure{}, naive: map[int]*figure{}}
	line := func(l figure) *figure { f.lines = append(f.lines, &l); return &l }
	atLeast := func(least float64) func(_, ratio float64) bool {
		return func(_, ratio float64) bool { return ratio >= least }
	}
	for _, n := range []int{200, 2000} {
		f.peer[n] = line(figure{name: fmt.Sprintf("claims/s, %d callers", n), form: "%.0f",
			beside: "best of the naive protocol", wanted: "ratio ≥ 50", met: atLeast(50)})
		f.raw[n] = line(figure{name: fmt.Sprintf("claims/s, %d callers", n), form: "%.0f",
			beside: "raw appends/s × claims in a commit", wanted: "ratio ≥ 0.8", met: atLeast(0.8)})
	}
	f.alone = line(figure{name: "ms a claim, 1 caller, p50", form: "%.3f", beside: "bare CheckAndPut",
		wanted: "ratio ≤ 1.5", met: func(_, ratio float64) bool { return ratio <= 1.5 }})
	f.commands = line(figure{name: "Redis commands a claim", form: "%.2f", beside: "the naive protocol at its best",
		wanted: "none", met: func(ours, _ float64) bool { return ours < 0.1 }}) // a renewal more or less in the time
	f.load = line(figure{name: "s to load 1,000,000 claims", form: "%.2f", beside: "reading the same logs",
		wanted: "≤ 5 s", met: func(ours, _ float64) bool { return ours <= 5 }})
	f.soldOut = line(figure{name: "units sold of 1,000", form: "%.0f", beside: "the naive protocol",
		wanted: "1,000", met: func(ours, _ float64) bool { return ours == 1000 }})
	for _, n := range []int{200, 2000} {
		f.batch[n] = line(figure{name: fmt.Sprintf("claims in a commit, %d callers", n), form: "%.0f"})
	}
	for _, n := range naiveCallers {
		f.naive[n] = line(figure{name: fmt.Sprintf("naive claims/s, %d callers", n), form: "%.0f"})
	}
	return f
}

// print writes the table: medians, and of the ratio the range too.
func (f *figures) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tSALECTL\tBESIDE IT\tWHICH IS\tRATIO\tWANTED\tMET")
	for _, l := range f.lines {
		fmt.Fprintln(t, l)
	}
	t.Flush()
}

func (f *figure) String() string {
	ours := fmt.Sprintf(f.form, median(f.ours))
	if f.beside == "" {
		return fmt.Sprintf("%s\t%s%s\t\t\t\t\t", f.name, ours, spread(f.form, f.ours))
	}
	ratios := make([]float64, len(f.ours))
	for i := range ratios {
		ratios[i] = f.ours[i] / f.other[i]
	}
	verdict := "yes"
	if !f.met(median(f.ours), median(ratios)) {
		verdict = "NO"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%.2f%s\t%s\t%s", f.name, ours, fmt.Sprintf(f.form, median(f.other)), f.beside,
		median(ratios), spread("%.2f", ratios), f.wanted, verdict)
}

// spread is the least and the greatest of several values.
func spread(form string, values []float64) string {
	if len(values) < 2 {
		return ""
	}
	return fmt.Sprintf(" ("+form+"–"+form+")", slices.Min(values), slices.Max(values))
}

// median returns the middle value, of an even number the greater of the two; 0 of
// none.
func median[T cmp.Ordered](values []T) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
