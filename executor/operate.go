package executor

import (
	"cmp"
	"context"
	"errors"
	"time"

	"salectl/api"
)

// This file has the operations that operators call on a serving process.

// ErrNotServing is the error of an operation on a process that does not serve the sale.
var ErrNotServing = errors.New("this process does not serve the sale now")

// StandBy has this process pass its shards to its peers and own none from here on, as
// Retire does; with undo it takes its share again. It returns before that is done.
func (e *Executor) StandBy(ctx context.Context, undo bool) (api.Share, error) {
	return e.share(ctx, func(r *runner) {
		if undo == !r.Ownership.StandsBy() {
			return
		}
		r.e.cfg.Logger.Info("an operator has changed the standby state of this process", "sale", r.e.cfg.Sale, "standby", !undo)
		r.Ownership.StandBy(r.clock(), undo)
	})
}

// Share is how much of the sale this process has.
func (e *Executor) Share(ctx context.Context) (api.Share, error) {
	return e.share(ctx, func(*runner) {})
}

// share calls do between two events, if the sale is served, and returns the share after that.
func (e *Executor) share(ctx context.Context, do func(*runner)) (s api.Share, err error) {
	done := make(chan error, 1)
	called := e.inLoop(ctx, func(r *runner) {
		if !r.Ownership.Operable() {
			done <- ErrNotServing
			return
		}
		do(r)
		s = r.Ownership.Share(r.clock())
		done <- nil
	})
	if !called {
		return s, cmp.Or(context.Cause(ctx), ErrNotServing)
	}
	err = <-done
	return s, err
}

// inLoop has the loop of Run call a function between two events. It returns false if ctx ends before, or the
// loop has ended.
func (e *Executor) inLoop(ctx context.Context, do func(*runner)) bool {
	select {
	case e.inbox <- do:
		return true
	case <-ctx.Done():
	case <-e.ended:
	}
	return false
}

// retireEvery is how often Retire counts the shards that are left.
const retireEvery = 10 * time.Millisecond

// Retire has this process pass its shards to its peers, and own none from here on. It
// returns how many it has left: none, unless ctx has ended or no peer can take them. It calls report
// with how many there are, at first and then once a second.
func (e *Executor) Retire(ctx context.Context, report func(left int)) (left int) {
	got, reportedAt := make(chan api.Share, 1), time.Time{}
	for first := true; ; first = false {
		called := e.inLoop(ctx, func(r *runner) {
			if first {
				r.Ownership.Retire(r.clock())
			}
			got <- r.Ownership.Share(r.clock())
		})
		switch {
		case ctx.Err() != nil && !called:
			return left
		case !called:
			return 0
		}
		s := <-got
		if left = s.Shards; left == 0 || !s.HasTakers {
			return left
		}
		if time.Since(reportedAt) >= time.Second {
			reportedAt = time.Now()
			report(left)
		}
		if api.Sleep(ctx, retireEvery) != nil {
			return left
		}
	}
}
