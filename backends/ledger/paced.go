package ledger

import (
	"context"
	"time"

	"salectl/backends/clock"
)

// Paced is a Logs that is read on a time of its own, such as the virtual time of a simulation.
// Whoever reads it uses no goroutine, so that all calls come one after another.
type Paced interface {
	Logs

	// Now is the time by which reads are repeated.
	Now() clock.Now
	// Wait returns after d, or earlier with the error of ctx when that ends.
	Wait(ctx context.Context, d time.Duration) error
}

// Wait waits for d before logs are read again, or returns the error of ctx when that ends.
func Wait(ctx context.Context, logs Logs, d time.Duration) error {
	if paced, ok := logs.(Paced); ok {
		return paced.Wait(ctx, d)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// clockOf is the clock by which reads of logs are repeated.
func clockOf(logs Logs) clock.Clock {
	if paced, ok := logs.(Paced); ok {
		return paced.Now
	}
	return clock.System()
}
