package ledger

import (
	"context"
	"time"

	"salectl/backends/clock"
)

// Paced is a Logs with its own clock, such as the virtual time of a simulation. Its readers
// use no goroutines, so that all calls are sequential.
type Paced interface {
	Logs

	// Now returns the time that schedules repeated reads.
	Now() clock.Now
	// Wait blocks for d. If ctx ends earlier, Wait returns the error of ctx.
	Wait(ctx context.Context, d time.Duration) error
}

// Wait blocks for d before logs are read again. If ctx ends earlier, it returns the error of ctx.
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

// clockOf returns the clock that schedules repeated reads of logs.
func clockOf(logs Logs) clock.Clock {
	if paced, ok := logs.(Paced); ok {
		return paced.Now
	}
	return clock.System()
}
