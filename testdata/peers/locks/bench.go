package main

import (
	"context"
	"time"
)

// bench makes the measurements.
type bench struct {
	*site
	each    time.Duration // one measurement
	contest time.Duration // one contest
}

// round measures everything once. What is compared with each other is measured in
// turns, or one after the other.
func (b *bench) round(ctx context.Context, f *figures) error {
	for _, n := range []int{3, 5} {
		if err := b.free(ctx, n, f); err != nil {
			return err
		}
	}
	if err := b.oneStopped(ctx, f); err != nil {
		return err
	}
	if err := b.contended(ctx, f); err != nil {
		return err
	}
	if err := b.renewed(ctx, f); err != nil {
		return err
	}
	return b.herds(ctx, f)
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
func microseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }
