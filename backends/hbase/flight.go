package hbase

import (
	"context"

	"golang.org/x/sync/singleflight"
)

// share returns the result of work for a key, which an earlier caller may have started. The work
// does not depend on a caller: it continues when the first caller stops waiting. start runs it on
// a goroutine that Close waits for.
func share[V any](ctx context.Context, flights *singleflight.Group, key string, start func(func()), work func() (V, error)) (value V, err error) {
	results := make(chan singleflight.Result, 1)
	start(func() {
		value, err, _ := flights.Do(key, func() (any, error) { return work() })
		results <- singleflight.Result{Val: value, Err: err}
	})
	select {
	case r := <-results:
		return r.Val.(V), r.Err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}
