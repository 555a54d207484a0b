package servers

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"salectl/testdata/peers/internal/httpload"
	"salectl/testdata/peers/internal/sales"
)

// Result is what a server did.
type Result struct {
	httpload.Result
	Used time.Duration // of the processors, a claim: by it, its store and its callers
}

// Measure has callers make claims for a time, each of another user, after some that are not
// measured.
func Measure(ctx context.Context, side Side, callers int, d time.Duration) (r Result, err error) {
	err = side(ctx, sales.Plenty, func(s Server) (int64, error) {
		l, err := httpload.Dial(s.Address, s.Path, callers)
		if err != nil {
			return 0, err
		}
		warm, err := l.Run(ctx, d/5, math.MaxInt64)
		if err == nil {
			r, err = counted(ctx, s, l, d)
		}
		if refused := warm.Refused + r.Refused; err == nil && refused > 0 {
			err = fmt.Errorf("%d claims were refused", refused)
		}
		return warm.Sold + r.Sold, errors.Join(err, l.Close())
	})
	return r, err
}

// counted runs a load and counts what that takes.
func counted(ctx context.Context, s Server, l *httpload.Load, d time.Duration) (r Result, err error) {
	before, err := s.Used()
	if err != nil {
		return r, err
	}
	if r.Result, err = l.Run(ctx, d, math.MaxInt64); err != nil {
		return r, err
	}
	after, err := s.Used()
	r.Used = (after - before) / time.Duration(max(r.Sold, 1))
	return r, err
}
