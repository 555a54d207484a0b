package main

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"
)

// atOnce is how many calls are under way at most. Those beyond it wait where they
// are counted all the same.
const atOnce = 1 << 14

// longest is what a longer wait counts for.
const longest = time.Minute

// offer makes n calls, so many a second, whether earlier ones were answered or not,
// and returns how long each took, in µs. It counts from when the call was meant to
// begin and not from when it did: otherwise a pause that keeps the next calls from
// beginning would count for one call only. The first error ends it.
func offer(ctx context.Context, rate, n int, call func(ctx context.Context, i int64) error) (*hdrhistogram.Histogram, error) {
	runtime.GC() // what others left behind is not its burden
	var mu sync.Mutex
	waits := hdrhistogram.New(1, longest.Microseconds(), 3)
	all, calling := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	begin := time.Now()
	for i := 0; i < n && calling.Err() == nil; i++ {
		meant := begin.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(meant)) // overslept is waited
		all.Go(func() error {
			if err := call(calling, int64(i)); err != nil {
				return err
			}
			waited := min(time.Since(meant), longest)
			mu.Lock()
			defer mu.Unlock()
			return waits.RecordValue(waited.Microseconds())
		})
	}
	err := all.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return waits, err
}

// p99 is in ms.
func p99(waits *hdrhistogram.Histogram) float64 {
	return float64(waits.ValueAtQuantile(99)) / 1e3
}
