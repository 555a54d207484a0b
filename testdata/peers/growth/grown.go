package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"salectl/spec"
	"salectl/testdata/peers/internal/table"
)

// sizes are how many claims the sales have before they are measured. The others are held
// beside the first.
var sizes = []int64{10_000, 1_000_000, 10_000_000}

// wanted is the least ratio of rates.
var wanted = map[int64]float64{1_000_000: 0.9, 10_000_000: 0.8}

// figures are all lines.
type figures struct {
	rate, p99, used map[int64]*table.Figure // by the claims that a sale had

	table.Table
}

func newFigures(sizes []int64) *figures {
	f := &figures{rate: map[int64]*table.Figure{}, p99: map[int64]*table.Figure{}, used: map[int64]*table.Figure{}}
	beside := fmt.Sprintf("with %d", sizes[0])
	for _, n := range sizes[1:] {
		f.rate[n] = f.Line(table.Figure{Name: fmt.Sprintf("claims/s, %d before", n), Form: "%.0f", Beside: beside,
			Wanted: fmt.Sprintf("ratio ≥ %.1f", wanted[n]), Holds: table.AtLeast(wanted[n])})
		f.p99[n] = f.Line(table.Figure{Name: "ms a claim, p99", Form: "%.1f", Beside: beside})
		f.used[n] = f.Line(table.Figure{Name: "µs of the processors a claim", Form: "%.2f", Beside: beside})
	}
	return f
}

// grown measures sales of all sizes, each in a process of its own.
func grown(ctx context.Context, o options, declared spec.Sale) (f *figures, err error) {
	sale := 0
	begin := func(claims int64) (*seller, error) {
		sale++
		declared.Name = fmt.Sprintf("growth-%d", sale) // an HBase has the sales of all in one table
		s, err := start(ctx, task{Declared: declared, HBase: o.hbase, Claims: claims})
		if err != nil {
			err = fmt.Errorf("a sale of %d claims: %w", claims, err)
		}
		return s, err
	}
	var large []*seller
	defer func() {
		for _, s := range large {
			err = errors.Join(err, s.end())
		}
	}()
	measured := slices.DeleteFunc(slices.Clone(sizes), func(n int64) bool { return n > o.most })
	for _, n := range measured[1:] {
		progress("making a sale of %d claims", n)
		s, err := begin(n)
		if err != nil {
			return nil, err
		}
		large = append(large, s)
	}
	f = newFigures(measured)
	for round := range o.rounds {
		progress("round %d of %d", round+1, o.rounds)
		small, err := begin(measured[0])
		if err != nil {
			return nil, err
		}
		order := append(slices.Clone(large), small)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		got := map[int64]rate{}
		for _, s := range order {
			if got[s.claims], err = s.measure(o.each); err != nil {
				return nil, errors.Join(fmt.Errorf("a sale of %d claims: %w", s.claims, err), small.end())
			}
		}
		if err := small.end(); err != nil {
			return nil, err
		}
		few := got[measured[0]]
		for _, n := range measured[1:] {
			f.rate[n].Add(got[n].Sold, few.Sold)
			f.p99[n].Add(got[n].P99, few.P99)
			f.used[n].Add(got[n].Used, few.Used)
		}
	}
	return f, nil
}
