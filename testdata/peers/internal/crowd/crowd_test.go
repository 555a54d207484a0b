package crowd

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Four callers whose claims take 10 ms, every second of which is refused.
		r, err := Call(t.Context(), Options{Callers: 4, For: time.Second - time.Millisecond, Most: math.MaxInt64, Timed: 2},
			func(_ context.Context, i int64) (bool, error) {
				time.Sleep(10 * time.Millisecond)
				return i%2 == 0, nil
			})
		if err != nil || r.Sold != 200 || math.Abs(r.Rate-198) > 1 || r.Cut != 0 {
			t.Errorf("got %+v, %v", r, err)
		}
		if n, p99 := r.Took.TotalCount(), r.Took.ValueAtQuantile(99); n != 200 || p99 < 9990 || p99 > 10010 {
			t.Errorf("%d were timed, p99 %d µs", n, p99)
		}
		r, err = Call(t.Context(), Options{Callers: 4, For: time.Hour, Most: 10}, func(context.Context, int64) (bool, error) { return true, nil })
		if err != nil || r.Sold != 10 || r.Took.TotalCount() != 0 {
			t.Errorf("ten claims: got %+v, %v", r, err)
		}
	})
}

// TestCut has one claim at a time that is answered, and all others wait for long.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		r, err := Call(t.Context(), Options{Callers: 5, For: time.Second, Most: math.MaxInt64, Timed: 1}, func(ctx context.Context, i int64) (bool, error) {
			if i == 1 {
				return true, nil
			}
			<-ctx.Done()
			return false, ctx.Err()
		})
		if err != nil || r.Sold != 1 || r.Cut != 5 || time.Since(began) != time.Second+patience {
			t.Errorf("after %v: %+v, %v", time.Since(began), r, err)
		}
		if p99 := time.Duration(r.Took.ValueAtQuantile(99)) * time.Microsecond; p99 < 2990*time.Millisecond {
			t.Errorf("what was cut short counts for %v", p99)
		}
	})
}

func TestCallEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		var claims atomic.Int64
		_, err := Call(t.Context(), Options{Callers: 1, For: time.Hour, Most: math.MaxInt64}, func(context.Context, int64) (bool, error) {
			if claims.Add(1) == 3 {
				return false, broken
			}
			return true, nil
		})
		if !errors.Is(err, broken) || claims.Load() != 3 {
			t.Errorf("after %d claims: %v", claims.Load(), err)
		}
	})
}
