package main

import (
	"fmt"

	"salectl/testdata/peers/internal/table"
)

// figures are all lines.
type figures struct {
	peer, raw, batch, naive map[int]*table.Figure // by callers
	alone, commands         *table.Figure
	load, soldOut           *table.Figure

	table.Table
}

func newFigures() *figures {
	f := &figures{peer: map[int]*table.Figure{}, raw: map[int]*table.Figure{}, batch: map[int]*table.Figure{}, naive: map[int]*table.Figure{}}
	for _, n := range []int{200, 2000} {
		f.peer[n] = f.Line(table.Figure{Name: fmt.Sprintf("claims/s, %d callers", n), Form: "%.0f",
			Beside: "best of the naive protocol", Wanted: "ratio ≥ 50", Holds: table.AtLeast(50)})
		f.raw[n] = f.Line(table.Figure{Name: fmt.Sprintf("claims/s, %d callers", n), Form: "%.0f",
			Beside: "raw appends/s × claims in a commit", Wanted: "ratio ≥ 0.8", Holds: table.AtLeast(0.8)})
	}
	f.alone = f.Line(table.Figure{Name: "ms a claim, 1 caller, p50", Form: "%.3f", Beside: "bare CheckAndPut",
		Wanted: "ratio ≤ 1.5", Holds: table.AtMost(1.5)})
	f.commands = f.Line(table.Figure{Name: "Redis commands a claim", Form: "%.2f", Beside: "the naive protocol at its best",
		Wanted: "none", Holds: func(ours, _ float64) bool { return ours < 0.1 }}) // a renewal more or less in the time
	f.load = f.Line(table.Figure{Name: "s to load 1,000,000 claims", Form: "%.2f", Beside: "reading the same logs",
		Wanted: "≤ 5 s", Holds: func(ours, _ float64) bool { return ours <= 5 }})
	f.soldOut = f.Line(table.Figure{Name: "units sold of 1,000", Form: "%.0f", Beside: "the naive protocol",
		Wanted: "1,000", Holds: func(ours, _ float64) bool { return ours == 1000 }})
	for _, n := range []int{200, 2000} {
		f.batch[n] = f.Line(table.Figure{Name: fmt.Sprintf("claims in a commit, %d callers", n), Form: "%.0f"})
	}
	for _, n := range naiveCallers {
		f.naive[n] = f.Line(table.Figure{Name: fmt.Sprintf("naive claims/s, %d callers", n), Form: "%.0f"})
	}
	return f
}
