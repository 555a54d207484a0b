package main

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestStallCountsForAll has nothing answered for the first half of the time. The
// calls are more than may be under way at once, and yet each counts from when it
// was meant to begin.
func TestStallCountsForAll(t *testing.T) {
	const rate, n = 100_000, 4 * atOnce
	half := n * time.Second / rate / 2
	synctest.Test(t, func(t *testing.T) {
		over := time.After(half)
		open := make(chan struct{})
		go func() { <-over; close(open) }()
		waits, err := offer(t.Context(), rate, n, func(context.Context, int64) error { <-open; return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got := waits.TotalCount(); got != n {
			t.Errorf("%d of %d calls count", got, n)
		}
		// Half of the calls waited, evenly from all of the stall to none.
		for quantile, want := range map[float64]time.Duration{49: 0, 75: half / 2, 99: half * 98 / 100, 100: half} {
			got := time.Duration(waits.ValueAtQuantile(quantile)) * time.Microsecond
			if math.Abs(got.Seconds()-want.Seconds()) > half.Seconds()/100 {
				t.Errorf("of %v %% the longest wait is %v, not %v", quantile, got, want)
			}
		}
	})
}

// TestOfferKeepsTheRate has every call take as long as a hundred may begin in.
func TestOfferKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := offer(t.Context(), 1000, 501, func(_ context.Context, i int64) error {
			if at := time.Since(began); at != time.Duration(i)*time.Millisecond {
				t.Errorf("call %d began after %v", i, at)
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestOfferEndsEarly(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		_, err := offer(t.Context(), 1000, 100, func(_ context.Context, i int64) error {
			calls.Add(1)
			if i == 9 {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) || calls.Load() > 11 {
			t.Errorf("after %d calls: %v", calls.Load(), err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err = offer(ctx, 1000, 100, func(_ context.Context, i int64) error {
			if i == 9 {
				cancel(broken)
			}
			return nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("interrupted: %v", err)
		}
	})
}
