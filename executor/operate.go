package executor

import (
	"context"
	"errors"

	"salectl/api"
)

// This file has the operations that operators call on a serving process.

// ErrNotServing is the error of an operation on a process that does not serve the sale.
var ErrNotServing = errors.New("the sale is not served by this process now")

// StandBy has this process give its shards to its peers and own none from here on, as
// Retire does; with undo it takes its share again. It returns before that is done.
func (e *Executor) StandBy(ctx context.Context, undo bool) (api.Share, error) {
	return e.share(ctx, func(r *runner) {
		if undo == !r.Ownership.StandsBy() {
			return
		}
		r.e.cfg.Logger.Info("an operator says what this process is to own", "sale", r.e.cfg.Sale, "standby", !undo)
		r.Ownership.StandBy(r.clock(), undo)
	})
}

// Share is how much of the sale this process has.
func (e *Executor) Share(ctx context.Context) (api.Share, error) {
	return e.share(ctx, func(*runner) {})
}

func (e *Executor) share(ctx context.Context, do func(*runner)) (s api.Share, err error) {
	err = e.operate(ctx, func(r *runner) error {
		do(r)
		s = r.Ownership.Share(r.clock())
		return nil
	})
	return s, err
}

// operate does something between two events, if the sale is served.
func (e *Executor) operate(ctx context.Context, do func(*runner) error) error {
	done := make(chan error, 1)
	select {
	case e.inbox <- func(r *runner) {
		if !r.Ownership.Operable() {
			done <- ErrNotServing
			return
		}
		done <- do(r)
	}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.ended:
		return ErrNotServing
	}
	return <-done
}
