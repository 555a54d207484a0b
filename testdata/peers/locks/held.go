package main

import (
	"context"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// held steps a quorum.Group over real nodes, as a process of a sale does for its shards.
type held struct {
	group   *quorum.Group
	callers *quorum.Callers
	clock   clock.Clock
	keys    []string
	replies chan quorum.Reply
	timer   *time.Timer
	won     int // number of keys that are held
}

// hold acquires keys. Their renewals are due half an interval after the call of hold, and each
// interval from then on.
func hold(ctx context.Context, nodes []quorum.Node, keys []string) (*held, error) {
	cfg := config
	cfg.Nodes, cfg.TTL, cfg.Token = quorum.Names(nodes), quorum.DefaultTTL, quorum.RandomToken
	cfg.Jitter = func() float64 { return 0.5 }
	g, err := quorum.NewGroup(cfg)
	if err != nil {
		return nil, err
	}
	h := &held{
		group: g, callers: quorum.NewCallers(nodes), clock: clock.System(), keys: keys,
		replies: make(chan quorum.Reply, len(nodes)), timer: time.NewTimer(time.Hour),
	}
	h.step(g.Acquire(h.clock(), keys...))
	return h, h.run(ctx, func() bool { return h.won == len(keys) })
}

// step carries out the effects of an input.
func (h *held) step(e quorum.Effects) {
	h.callers.Do(e.Calls, func(r quorum.Reply) { h.replies <- r })
	if e.Wake > 0 {
		h.timer.Reset(e.Wake - h.clock().Mono)
	}
	for _, ev := range e.Events {
		switch ev.Kind {
		case quorum.Won:
			h.won += len(ev.Keys)
		case quorum.Losing:
			h.won -= len(ev.Keys)
		}
	}
}

// run steps the group until over, or until ctx ends.
func (h *held) run(ctx context.Context, over func() bool) error {
	for !over() {
		select {
		case r := <-h.replies:
			h.step(h.group.Reply(h.clock(), r))
		case <-h.timer.C:
			h.step(h.group.Tick(h.clock()))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// keep renews the keys for a while.
func (h *held) keep(ctx context.Context, d time.Duration) error {
	while, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	_ = h.run(while, func() bool { return false })
	return context.Cause(ctx)
}

// release releases the keys, and returns when all nodes have confirmed that.
func (h *held) release(ctx context.Context) error {
	defer h.callers.Close()
	h.step(h.group.Release(h.clock(), "", h.keys...))
	return h.run(ctx, h.group.Idle)
}
