package main

import (
	"context"
	"time"

	"salectl/spec"
	"salectl/testdata/peers/internal/commandstats"
	"salectl/testdata/peers/internal/crowd"
	"salectl/testdata/peers/internal/sales"
	"salectl/testdata/peers/internal/table"
)

// alone is how one caller fares.
type alone struct {
	claim, put time.Duration // the medians
	commands   float64       // that a claim cost the Redis nodes, beyond what they got in as much time without claims
}

// alone has one caller claim, and after each claim put a commit of the same size
// by a bare CheckAndPut. Both sides have as many rows, with as many slots, so
// that they grow alike.
func (b *bench) alone(ctx context.Context) (a alone, err error) {
	_, err = b.Selling(ctx, sales.Plenty, shards, func(e *sales.Serving) error {
		claim := e.Claimer(crowd.User)
		slots, bytes := e.Written()
		for i := range int64(200) { // to see how large a commit of one claim is
			if _, err := claim(ctx, i); err != nil {
				return err
			}
		}
		slotsNow, bytesNow := e.Written()
		rows := b.newBare(int((bytesNow - bytes) / (slotsNow - slots)))
		a, err = b.beside(ctx, claim, rows)
		return err
	})
	return a, err
}

// beside takes turns between claims and bare writes.
func (b *bench) beside(ctx context.Context, claim crowd.Claimer, rows *bare) (alone, error) {
	before, err := b.commands(ctx)
	if err != nil {
		return alone{}, err
	}
	var claims, puts []time.Duration
	begin := time.Now()
	for i := int64(1000); time.Since(begin) < b.each; i++ {
		began := time.Now()
		if _, err := claim(ctx, i); err != nil {
			return alone{}, err
		}
		claimed := time.Now()
		if err := rows.put(ctx, spec.HomeShard(crowd.User(i), shards)); err != nil {
			return alone{}, err
		}
		claims, puts = append(claims, claimed.Sub(began)), append(puts, time.Since(claimed))
	}
	busy, err := b.commands(ctx)
	if err != nil {
		return alone{}, err
	}
	time.Sleep(time.Since(begin))
	idle, err := b.commands(ctx)
	if err != nil {
		return alone{}, err
	}
	beyond := (busy - before) - (idle - busy)
	return alone{table.Median(claims), table.Median(puts), float64(max(beyond, 0)) / float64(len(claims))}, nil
}

// commands counts all commands to the Redis nodes, scripts' own commands
// included, but not the questions of who counts.
func (b *bench) commands(ctx context.Context) (int64, error) {
	counts, err := commandstats.Of(ctx, b.Redis)
	return counts.All(), err
}
