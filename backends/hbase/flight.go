package hbase

import (
	"context"
	"sync"
)

// singleflight merges concurrent work for the same key: later callers wait for the result of the
// first. The work does not depend on a caller. It continues when the first caller stops
// waiting, and there is at most one run per key. singleflight.Group would need a goroutine for
// each caller, since Close has to wait for the work: many while a server is frozen.
type singleflight[K comparable, V any] struct {
	mu    sync.Mutex
	under map[K]*flight[V]
}

type flight[V any] struct {
	done  chan struct{} // closed when value and err are set
	value V
	err   error
}

// do returns the result of work for the key, which an earlier caller may have started. start
// runs work on a goroutine that Close waits for.
func (f *singleflight[K, V]) do(ctx context.Context, key K, start func(func()), work func() (V, error)) (V, error) {
	f.mu.Lock()
	fl := f.under[key]
	if fl == nil {
		fl = &flight[V]{done: make(chan struct{})}
		if f.under == nil {
			f.under = make(map[K]*flight[V])
		}
		f.under[key] = fl
		start(func() {
			fl.value, fl.err = work()
			f.mu.Lock()
			delete(f.under, key)
			f.mu.Unlock()
			close(fl.done)
		})
	}
	f.mu.Unlock()
	select {
	case <-fl.done:
		return fl.value, fl.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}
