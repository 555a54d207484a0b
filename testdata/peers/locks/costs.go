package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"

	"salectl/backends/quorum"
	"salectl/spec"
	"salectl/testdata/peers/internal/table"
)

// renewed counts what it takes to renew many leases once.
func (b *bench) renewed(ctx context.Context, f *figures) error {
	const leases = 1024
	name := b.fresh("lease")
	keys := make([]string, leases)
	for i := range keys {
		keys[i] = spec.NamedLock(fmt.Sprintf("%s-%d", name, i))
	}
	ours, err := b.renewals(ctx, name, keys)
	if err != nil {
		return err
	}
	theirs, err := b.extensions(ctx, keys)
	if err != nil {
		return err
	}
	f.renewal.Add(ours, theirs)
	return nil
}

// renewals is how many scripts an interval salectl has run for leases that it
// holds, on all servers together. It gives the leases back.
func (b *bench) renewals(ctx context.Context, name string, keys []string) (float64, error) {
	const (
		interval  = quorum.DefaultTTL / 3 // at which a lease is renewed
		intervals = 5
	)
	nodes, closeNodes, err := b.nodes(fewest)
	if err != nil {
		return 0, err
	}
	defer closeNodes()
	h, err := hold(ctx, nodes, keys)
	if err != nil {
		return 0, err
	}
	if err := h.keep(ctx, interval); err != nil { // no renewal is due when it is counted
		return 0, err
	}
	before, err := b.counts(ctx, fewest)
	if err != nil {
		return 0, err
	}
	if err := h.keep(ctx, intervals*interval); err != nil {
		return 0, err
	}
	after, err := b.counts(ctx, fewest)
	if err != nil {
		return 0, err
	}
	if h.won != len(keys) {
		return 0, fmt.Errorf("%w: %d leases of %d lasted", errWrong, h.won, len(keys))
	}
	for _, n := range nodes {
		held, err := n.List(ctx, keys[0][:len(keys[0])-1])
		if err != nil {
			return 0, err
		}
		if len(held) != len(keys) {
			return 0, fmt.Errorf("%w: %s has %d leases of %d", errWrong, n.Name(), len(held), len(keys))
		}
	}
	if err := h.release(ctx); err != nil {
		return 0, err
	}
	return float64(after.Scripts()-before.Scripts()) / intervals, b.gone(ctx, name, 0)
}

// extensions is how many scripts redsync has run to extend as many locks once.
func (b *bench) extensions(ctx context.Context, keys []string) (float64, error) {
	sync := redsyncOver(b.clients[:fewest])
	var held []*redsync.Mutex
	for _, key := range keys {
		// With a ttl that outlasts the taking of all of them.
		m := sync.NewMutex("redsync:"+key, redsync.WithExpiry(time.Minute))
		if err := m.LockContext(ctx); err != nil {
			return 0, err
		}
		held = append(held, m)
	}
	before, err := b.counts(ctx, fewest)
	if err != nil {
		return 0, err
	}
	for _, m := range held {
		if _, err := m.ExtendContext(ctx); err != nil {
			return 0, err
		}
	}
	after, err := b.counts(ctx, fewest)
	if err != nil {
		return 0, err
	}
	for _, m := range held {
		if _, err := m.UnlockContext(ctx); err != nil {
			return 0, err
		}
	}
	return float64(after.Scripts() - before.Scripts()), nil
}

// herds counts what a release costs the servers when many goroutines of a process
// wait for it, beside what it costs when nobody does. Where each holds for longer
// than a process may keep a lock from others, each has to query the servers.
func (b *bench) herds(ctx context.Context, f *figures) error {
	if err := b.herd(ctx, 0, f.herd); err != nil {
		return err
	}
	return b.herd(ctx, 250*time.Millisecond, f.herdAsking)
}

func (b *bench) herd(ctx context.Context, holds time.Duration, figure *table.Figure) error {
	alone, err := b.contendOurs(ctx, goroutines, 1, b.each, holds)
	if err != nil {
		return err
	}
	many, err := b.contendOurs(ctx, goroutines, 1000, b.each, holds)
	if err != nil {
		return err
	}
	figure.Add(many.commands/float64(many.had), alone.commands/float64(alone.had))
	return nil
}
