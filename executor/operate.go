package executor

import (
	"context"
	"errors"
	"fmt"

	"salectl/backends/clock"
)

// This file has the operations that operators call on a serving process.

// Errors of operations.
var (
	ErrNoShard    = errors.New("the sale has no such shard")
	ErrStandby    = errors.New("this process is to own no shard")
	ErrNotServing = errors.New("the sale is not served by this process now")
)

// Share is the part of a sale that a process owns.
type Share struct {
	State    string // "": it owns shards; standby, draining, unable
	Owns     int    // shards
	Assigned int    // shards that are assigned to it
	Takers   bool   // a reachable peer may own shards
}

// ShardOwner is the owner of a shard, and the process that the shard is assigned to, as one process
// knows them.
type ShardOwner struct {
	Shard    int
	Owner    string // an address; "": unknown
	Assigned string // an address; "": to no process
	Here     bool   // this process owns it, and serves it
	Pinned   bool   // an operator has moved it here
	Moved    string // an operator has moved it to the process at this address; "": to none
}

// Move has a shard moved to this process; with anyone, to whichever should own it without
// the word of an operator. It returns before that is done: see ShardOwner.
func (e *Executor) Move(ctx context.Context, shard int, anyone bool) (ShardOwner, error) {
	return e.shardOwner(ctx, shard, func(r *runner) error {
		if err := r.owner.move(r.clock(), shard, anyone); err != nil {
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
		if shard < 0 || shard >= len(r.owner.shares.all) {
			return fmt.Errorf("%w: it has shards 0 to %d", ErrNoShard, len(r.owner.shares.all)-1)
		}
		if err := do(r); err != nil {
			return err
		}
		w = r.owner.shardOwner(r.clock(), shard)
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
		if undo == !r.owner.standby {
			return
		}
		r.e.cfg.Logger.Info("an operator says what this process is to own", "sale", r.cfg.Sale, "standby", !undo)
		r.owner.standBy(r.clock(), undo)
	})
}

// Share is how much of the sale this process has.
func (e *Executor) Share(ctx context.Context) (Share, error) {
	return e.share(ctx, func(*runner) {})
}

func (e *Executor) share(ctx context.Context, do func(*runner)) (s Share, err error) {
	err = e.operate(ctx, func(r *runner) error {
		do(r)
		s = r.owner.shareNow(r.clock())
		return nil
	})
	return s, err
}

// operate does something between two events, if the sale is served.
func (e *Executor) operate(ctx context.Context, do func(*runner) error) error {
	done := make(chan error, 1)
	select {
	case e.inbox <- func(r *runner) {
		if !r.owner.operable() {
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

// operable reports whether operators can have this process do something: it shares the sale.
func (o *owner) operable() bool {
	return o.stage == serving && o.totals != nil && o.assigned && !o.draining
}

// move has a shard moved here, or with anyone wherever it would be without the word of an
// operator.
func (o *owner) move(now clock.Now, shard int, anyone bool) error {
	if !anyone && o.retiring() {
		return fmt.Errorf("%w: it is on standby", ErrStandby)
	}
	o.pin(now, shard, anyone)
	return nil
}

// shareNow is how much of the sale this process has.
func (o *owner) shareNow(now clock.Now) Share {
	left, takers := o.retired(now)
	s := Share{State: o.myself().State, Owns: left, Takers: takers}
	for _, id := range o.shares.desired {
		if id == o.me {
			s.Assigned++
		}
	}
	return s
}

// shardOwner returns the owner of a shard by what this process knows.
func (o *owner) shardOwner(now clock.Now, i int) ShardOwner {
	w := ShardOwner{Shard: i, Owner: o.addressOf(o.ownerOf(now, i)), Assigned: o.addressOf(o.shares.desired[i])}
	if o.shares.all[i].stage == owned {
		w.Owner, w.Here = o.cfg.Address, true
	}
	to := pinned(o.members, len(o.shares.all))[i]
	w.Pinned, w.Moved = to == o.me, o.addressOf(to)
	return w
}
