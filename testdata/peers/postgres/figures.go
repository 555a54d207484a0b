package main

import (
	"fmt"

	"salectl/testdata/peers/internal/servers"
	"salectl/testdata/peers/internal/table"
)

// crowds are the numbers of connections.
var crowds = []int{200, 2000}

// figures are all lines.
type figures struct {
	rate, p50, p99, used, echo, peerEcho map[int]*table.Figure // by connections
	soldOut                              *table.Figure

	table.Table
}

func newFigures() *figures {
	f := &figures{
		rate: map[int]*table.Figure{}, p50: map[int]*table.Figure{}, p99: map[int]*table.Figure{},
		used: map[int]*table.Figure{}, echo: map[int]*table.Figure{}, peerEcho: map[int]*table.Figure{},
	}
	for _, n := range crowds {
		f.rate[n] = f.Line(table.Figure{Name: fmt.Sprintf("claims/s over HTTP, %d connections", n), Form: "%.0f",
			Beside: "PostgreSQL", Wanted: "ratio ≥ 1", Holds: table.AtLeast(1)})
		f.p50[n] = f.Line(table.Figure{Name: "ms a claim, p50", Form: "%.2f", Beside: "PostgreSQL"})
		f.p99[n] = f.Line(table.Figure{Name: "ms a claim, p99", Form: "%.2f", Beside: "PostgreSQL",
			Wanted: "ratio ≤ 1", Holds: table.AtMost(1)})
		f.used[n] = f.Line(table.Figure{Name: "µs of the processors a claim", Form: "%.1f", Beside: "PostgreSQL"})
		f.echo[n] = f.Line(table.Figure{Name: "claims/s", Form: "%.0f", Beside: "a net/http JSON echo"})
		f.peerEcho[n] = f.Line(table.Figure{Name: "claims/s by PostgreSQL", Form: "%.0f", Beside: "the echo"})
	}
	f.soldOut = f.Line(table.Figure{Name: "units sold of 1,000", Form: "%.0f", Beside: "PostgreSQL",
		Wanted: "1,000", Holds: func(ours, _ float64) bool { return ours == 1000 }})
	return f
}

func (f *figures) add(connections int, ours, postgres, echo servers.Result) {
	f.rate[connections].Add(ours.Rate, postgres.Rate)
	f.p50[connections].Add(ours.P(50), postgres.P(50))
	f.p99[connections].Add(ours.P(99), postgres.P(99))
	f.used[connections].Add(float64(ours.Used.Nanoseconds())/1e3, float64(postgres.Used.Nanoseconds())/1e3)
	f.echo[connections].Add(ours.Rate, echo.Rate)
	f.peerEcho[connections].Add(postgres.Rate, echo.Rate)
}
