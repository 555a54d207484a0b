package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"salectl/testdata/peers/internal/httpload"
	"salectl/testdata/peers/internal/servers"
)

// bench makes the measurements.
type bench struct {
	servers.Site
	each        time.Duration // one measurement
	connections int           // to PostgreSQL
}

// contender is one of those that are compared.
type contender struct {
	name string
	servers.Side
}

func (b *bench) contenders() []contender {
	return []contender{{"echo", b.Echo}, {"salectl", b.Salectl}, {"postgres", b.Shop(b.connections)}}
}

// round measures everything once. Every second round goes the other way round.
func (b *bench) round(ctx context.Context, f *figures, backwards bool) error {
	for _, callers := range crowds {
		all := b.contenders()
		if backwards {
			slices.Reverse(all)
		}
		got := make(map[string]servers.Result)
		for _, c := range all {
			r, err := servers.Measure(ctx, c.Side, callers, b.each)
			if err != nil {
				return fmt.Errorf("%s, %d connections: %w", c.name, callers, err)
			}
			got[c.name] = r
		}
		f.add(callers, got["salectl"], got["postgres"], got["echo"])
	}
	return nil
}

// soldOut has 2,000 users send two claims each for 1,000 units, by a key of its own each time.
func (b *bench) soldOut(ctx context.Context, f *figures) error {
	const stock, claims = 1000, 4000
	run := func(side servers.Side) (float64, error) {
		var sold int64
		err := side(ctx, stock, func(s servers.Server) (int64, error) {
			l, err := httpload.DialTwice(s.Address, s.Path, 200)
			if err != nil {
				return 0, err
			}
			r, err := l.Run(ctx, time.Minute, claims)
			sold = r.Sold
			return sold, errors.Join(err, l.Close())
		})
		return float64(sold), err
	}
	ours, err := run(b.Salectl)
	if err != nil {
		return fmt.Errorf("salectl, sold out: %w", err)
	}
	theirs, err := run(b.Shop(b.connections))
	if err != nil {
		return fmt.Errorf("postgres, sold out: %w", err)
	}
	f.soldOut.Add(ours, theirs)
	return nil
}
