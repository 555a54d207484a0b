package hbase

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"
)

func TestFlightsShareWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g singleflight.Group
		s := &servers{calls: new(sync.RWMutex)}
		var all sync.WaitGroup
		done := 0
		for range 10 {
			all.Go(func() {
				v, err := share(t.Context(), s, &g, "key", "waiting", func() (int, error) {
					time.Sleep(time.Second)
					done++
					return done, errors.ErrUnsupported
				})
				if v != 1 || !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		all.Wait()
		if v, _ := share(t.Context(), s, &g, "key", "waiting", func() (int, error) { return 7, nil }); v != 7 {
			t.Errorf("work that is done was not done again: %d", v)
		}
		if v, _ := share(t.Context(), s, &g, "other", "waiting", func() (int, error) { return 8, nil }); v != 8 {
			t.Errorf("another key got %d", v)
		}
	})
}

// Whoever gives up does not take the work away from the others.
func TestFlightsOutliveTheirCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g singleflight.Group
		s := &servers{calls: new(sync.RWMutex)}
		work := func() (int, error) { time.Sleep(time.Minute); return 1, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := share(ctx, s, &g, "key", "waiting", work); !errors.Is(err, ctx.Err()) || err.Error() != "waiting: "+ctx.Err().Error() || time.Since(begin) != time.Second {
			t.Errorf("an impatient caller got %v after %v", err, time.Since(begin))
		}
		if v, err := share(t.Context(), s, &g, "key", "waiting", work); v != 1 || err != nil || time.Since(begin) != time.Minute {
			t.Errorf("a patient one got %d, %v after %v", v, err, time.Since(begin))
		}
	})
}

// Work that has not begun when the handle is closed does not begin any more.
func TestFlightsEndWithTheHandle(t *testing.T) {
	var g singleflight.Group
	s := &servers{calls: new(sync.RWMutex)}
	s.calls.Lock()
	_, err := share(t.Context(), s, &g, "key", "waiting", func() (int, error) { t.Error("it began"); return 0, nil })
	if !errors.Is(err, errClosed) {
		t.Error(err)
	}
}
