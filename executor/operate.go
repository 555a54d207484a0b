package executor

import (
	"context"
	"errors"
	"fmt"

	"salectl/executor/ownership"
)

// This file has the operations that operators call on a serving process.

// Errors of operations.
var (
	ErrNoShard    = errors.New("the sale has no such shard")
	ErrStandby    = ownership.ErrStandby
	ErrNotServing = errors.New("the sale is not served by this process now")
)

// Move has a shard moved to this process; with anyone, to whichever should own it without
// the word of an operator. It returns before that is done: see ShardOwner.
func (e *Executor) Move(ctx context.Context, shard int, anyone bool) (ShardOwner, error) {
	return e.shardOwner(ctx, shard, func(r *runner) error {
		if err := r.owner.Move(r.clock(), shard, anyone); err != nil {
			return err
		}
		r.e.cfg.Logger.Info("an operator moves a shard", "sale", r.cfg.Sale, "shard", shard, "here", !anyone)
		return nil
	})
}

// ShardOwner returns the owner of a shard.
func (e *Executor) ShardOwner(ctx context.Context, shard int) (ShardOwner, error) {
	return e.shardOwner(ctx, shard, func(*runner) error { return nil })
}

func (e *Executor) shardOwner(ctx context.Context, shard int, do func(*runner) error) (w ShardOwner, err error) {
	err = e.operate(ctx, func(r *runner) error {
		if shard < 0 || shard >= len(r.session.shards) {
			return fmt.Errorf("%w: it has shards 0 to %d", ErrNoShard, len(r.session.shards)-1)
		}
		if err := do(r); err != nil {
			return err
		}
		w = r.owner.ShardOwner(r.clock(), shard)
		s := r.session.local(shard)
		w.Here = w.Here && s != nil && s.Serves()
		return nil
	})
	return w, err
}

// StandBy has this process give its shards to its peers and own none from here on, as
// Retire does; with undo it takes its share again. It returns before that is done.
func (e *Executor) StandBy(ctx context.Context, undo bool) (Share, error) {
	return e.share(ctx, func(r *runner) {
		if undo == !r.owner.StandsBy() {
			return
		}
		r.e.cfg.Logger.Info("an operator says what this process is to own", "sale", r.cfg.Sale, "standby", !undo)
		r.owner.StandBy(r.clock(), undo)
	})
}

// Share is how much of the sale this process has.
func (e *Executor) Share(ctx context.Context) (Share, error) {
	return e.share(ctx, func(*runner) {})
}

func (e *Executor) share(ctx context.Context, do func(*runner)) (s Share, err error) {
	err = e.operate(ctx, func(r *runner) error {
		do(r)
		s = r.owner.Share(r.clock())
		return nil
	})
	return s, err
}

// operate does something between two events, if the sale is served.
func (e *Executor) operate(ctx context.Context, do func(*runner) error) error {
	done := make(chan error, 1)
	select {
	case e.inbox <- func(r *runner) {
		if !r.owner.Operable() {
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
