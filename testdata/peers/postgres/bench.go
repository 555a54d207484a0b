package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"salectl/testdata/peers/internal/httpload"
	"salectl/testdata/peers/internal/servers"
)

// plenty is a stock that no measurement sells out.
const plenty = 1 << 40

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
		got := make(map[string]result)
		for _, c := range all {
			r, err := b.measure(ctx, c.Side, callers)
			if err != nil {
				return fmt.Errorf("%s, %d connections: %w", c.name, callers, err)
			}
			got[c.name] = r
		}
		f.add(callers, got["salectl"], got["postgres"], got["echo"])
	}
	return nil
}

// result is what a server did.
type result struct {
	httpload.Result
	used time.Duration // of the processors, a claim: by it, its store and its callers
}

// measure has callers make claims, each of another user, after some that are not measured.
func (b *bench) measure(ctx context.Context, side servers.Side, callers int) (r result, err error) {
	err = side(ctx, plenty, func(s servers.Server) (int64, error) {
		l, err := httpload.Dial(s.Address, s.Path, callers)
		if err != nil {
			return 0, err
		}
		warm, err := l.Run(ctx, b.each/5, math.MaxInt64)
		if err == nil {
			r, err = b.counted(ctx, s, l)
		}
		if refused := warm.Refused + r.Refused; err == nil && refused > 0 {
			err = fmt.Errorf("%d claims were refused", refused)
		}
		return warm.Sold + r.Sold, errors.Join(err, l.Close())
	})
	return r, err
}

// counted runs a load and counts what that takes.
func (b *bench) counted(ctx context.Context, s servers.Server, l *httpload.Load) (r result, err error) {
	before, err := s.Used()
	if err != nil {
		return r, err
	}
	if r.Result, err = l.Run(ctx, b.each, math.MaxInt64); err != nil {
		return r, err
	}
	after, err := s.Used()
	r.used = (after - before) / time.Duration(r.Sold)
	return r, err
}

// soldOut has 2,000 users ask twice each for 1,000 units, by a key of its own each time.
func (b *bench) soldOut(ctx context.Context, f *figures) error {
	const stock, asks = 1000, 4000
	ask := func(side servers.Side) (float64, error) {
		var sold int64
		err := side(ctx, stock, func(s servers.Server) (int64, error) {
			l, err := httpload.DialTwice(s.Address, s.Path, 200)
			if err != nil {
				return 0, err
			}
			r, err := l.Run(ctx, time.Minute, asks)
			sold = r.Sold
			return sold, errors.Join(err, l.Close())
		})
		return float64(sold), err
	}
	ours, err := ask(b.Salectl)
	if err != nil {
		return fmt.Errorf("salectl, sold out: %w", err)
	}
	theirs, err := ask(b.Shop(b.connections))
	if err != nil {
		return fmt.Errorf("postgres, sold out: %w", err)
	}
	f.soldOut.Add(ours, theirs)
	return nil
}
