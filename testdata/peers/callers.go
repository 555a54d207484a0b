package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// claimer makes the i-th claim, from 1 on, and says whether it was sold.
type claimer func(ctx context.Context, i int64) (sold bool, err error)

// crowd is what became of callers that each wait for an answer before they ask
// again.
type crowd struct {
	rate float64 // claims sold a second, while all were asking
	sold int64   // in all, with those that were under way at the end
}

// call has callers make claims for a time, or until n were made. The first error
// ends it.
func call(ctx context.Context, callers int, d time.Duration, n int64, claim claimer) (crowd, error) {
	runtime.GC() // what others left behind is not its burden
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, sold atomic.Int64
	var over atomic.Bool
	var all sync.WaitGroup
	begin := time.Now()
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= n && !over.Load(); i = next.Add(1) {
				ok, err := claim(ctx, i)
				if err != nil {
					cancel(err)
					return
				}
				if ok {
					sold.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(d):
	case <-ctx.Done():
	}
	rate := float64(sold.Load()) / time.Since(begin).Seconds()
	over.Store(true)
	<-done
	return crowd{rate: rate, sold: sold.Load()}, context.Cause(ctx)
}

// user and key have 16 bytes, about as many as the names of accounts and random
// ids have, and cost next to nothing, since salectl's callers share the processor
// with what they measure.
func user(i int64) string { return "user-" + strconv.FormatInt(10_000_000_000+i, 10) }
func key(i int64) string  { return "key-" + strconv.FormatInt(100_000_000_000+i, 10) }
