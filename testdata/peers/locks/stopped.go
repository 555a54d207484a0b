package main

import (
	"context"
	"time"

	"salectl/testdata/peers/internal/table"
)

// stops is how often a server is stopped and continued within a round: what else
// goes on in the machine then affects both sides.
const stops = 5

// oneStopped measures what it costs that one of five servers hangs. It is one of
// those that salectl queries first, as long as it does not know.
func (b *bench) oneStopped(ctx context.Context, f *figures) error {
	own, err := b.ours(servers)
	if err != nil {
		return err
	}
	defer own.close()
	ours, theirs := b.freshly(own.lock, "ours"), b.freshly(redsyncs(b.clients), "theirs")
	for range warmUp {
		if _, err := ours.turn(ctx); err != nil {
			return err
		}
	}
	var all, less struct{ ours, theirs []time.Duration }
	for range stops {
		// Redsync first: what the server makes up for after a stop is not in the
		// figure that salectl is compared with.
		if err := b.slice(ctx, theirs, &all.theirs); err != nil {
			return err
		}
		if err := b.slice(ctx, ours, &all.ours); err != nil {
			return err
		}
		err := b.stopped(ctx, 0, func() error {
			if err := b.slice(ctx, ours, &less.ours); err != nil {
				return err
			}
			return b.slice(ctx, theirs, &less.theirs)
		})
		if err != nil {
			return err
		}
	}
	p99 := func(took []time.Duration) float64 { return milliseconds(table.Quantile(took, 0.99)) }
	f.stopped.Add(p99(less.ours), p99(all.ours))
	f.stoppedRedsync.Add(p99(less.theirs), p99(all.theirs))
	// The server that was stopped may act on an old ballot when it goes on.
	own.freed()
	return b.gone(ctx, ours.name, forgotten)
}

// slice takes turns for a part of the time of a measurement.
func (b *bench) slice(ctx context.Context, l *freeLock, took *[]time.Duration) error {
	for begin := time.Now(); time.Since(begin) < b.each/stops; {
		d, err := l.turn(ctx)
		if err != nil {
			return err
		}
		*took = append(*took, d)
	}
	return nil
}
