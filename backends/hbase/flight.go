package hbase

import (
	"context"
	"sync"
)

// flights lets many callers who want the same wait for one who gets it. The
// work is not any caller's: it goes on when the one who began it has given up,
// and there is never more of it under way than there are keys.
type flights[K comparable, V any] struct {
	mu    sync.Mutex
	under map[K]*flight[V]
}

type flight[V any] struct {
	landed chan struct{} // closed when value and err are there
	value  V
	err    error
}

// do returns what work brings for the key, which may have been begun by an
// earlier caller. start runs work on a goroutine that somebody waits for.
func (f *flights[K, V]) do(ctx context.Context, key K, start func(func()), work func() (V, error)) (V, error) {
	f.mu.Lock()
	fl := f.under[key]
	if fl == nil {
		fl = &flight[V]{landed: make(chan struct{})}
		if f.under == nil {
			f.under = make(map[K]*flight[V])
		}
		f.under[key] = fl
		start(func() {
			fl.value, fl.err = work()
			f.mu.Lock()
			delete(f.under, key)
			f.mu.Unlock()
			close(fl.landed)
		})
	}
	f.mu.Unlock()
	select {
	case <-fl.landed:
		return fl.value, fl.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}
