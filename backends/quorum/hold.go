package quorum

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
)

// RandomToken returns a new token that nobody can guess or meet by chance.
func RandomToken() string { return crand.Text() }

// Lease is some keys that are held, renewed by a goroutine of its own until
// they are lost or given back. All methods are safe for concurrent use.
type Lease struct {
	clock    clock.Clock
	validity atomic.Pointer[Validity]
	ctx      context.Context
	done     chan struct{}

	releasing sync.Once
	release   chan struct{}

	// unfreed is written before done is closed, and read after.
	unfreed error
}

// Hold acquires all keys and returns when they are held. The zero values of
// some fields of cfg have defaults: TTL is DefaultTTL, tokens and jitter are
// random. Nodes are those of the first argument.
//
// The lease lasts until it is lost or released, or until ctx ends, before
// Hold returns or after; then the keys are given back. An error wraps
// ErrRefused, or is the cause of the end of ctx; no goroutine is left then and
// the nodes within reach have been told.
func Hold(ctx context.Context, nodes []Node, cfg Config, keys ...string) (*Lease, error) {
	cfg.Nodes = Names(nodes)
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.Token == nil {
		cfg.Token = RandomToken
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	m, err := NewMachine(cfg)
	if err != nil {
		return nil, err
	}
	switch {
	case len(keys) == 0:
		return nil, errors.New("a lease needs at least one key")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	l := &Lease{clock: clock.System(), done: make(chan struct{}), release: make(chan struct{})}
	var end context.CancelCauseFunc
	l.ctx, end = context.WithCancelCause(ctx)
	k := &keeper{lease: l, m: m, keys: keys, end: end, won: make(chan struct{}), replies: make(chan Reply, len(nodes))}
	k.callers = NewCallers(nodes, func(r Reply) { k.replies <- r })
	go k.run()
	select {
	case <-k.won:
		return l, nil
	case <-l.done:
		return nil, context.Cause(l.ctx)
	}
}

// Context ends when the lease does: its cause wraps ErrLost or ErrReleased, or
// is that of the context given to Hold. When a lease is lost this comes a tenth
// of the ttl before others can have the keys, for work in flight to end in.
func (l *Lease) Context() context.Context { return l.ctx }

// Valid says whether the keys still are ours at this moment. It is surer than
// Context, whose end may be seen late by a process that was suspended.
func (l *Lease) Valid() bool { return l.ctx.Err() == nil && l.validity.Load().At(l.clock()) }

// Done is closed when the lease has ended, the nodes within reach have been
// told and no goroutine of it is left.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Release gives the keys back and waits until Done, or until ctx ends: the
// release then goes on without its caller. The error names nodes that did not
// confirm; they forget the keys within a ttl. Releasing twice, or what is lost,
// is no error.
func (l *Lease) Release(ctx context.Context) error {
	l.releasing.Do(func() { close(l.release) })
	select {
	case <-l.done:
		return l.unfreed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// keeper runs the machine of one lease: it is the shell's event loop, and all
// its fields belong to that.
type keeper struct {
	lease   *Lease
	m       *Machine
	keys    []string
	callers *Callers
	replies chan Reply // has a place for each node: delivering never blocks
	end     context.CancelCauseFunc
	won     chan struct{}
}

// run keeps the lease until it ends, and then for as long as the nodes take to
// confirm the release: at most the calls under way, the release and a second
// try of it, since callers are waiting.
func (k *keeper) run() {
	l := k.lease
	defer close(l.done)
	defer k.callers.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var over <-chan time.Time // set when the lease has ended
	ended, release := l.ctx.Done(), l.release
	k.handle(k.m.Acquire(l.clock(), k.keys...), timer)
	for over == nil || !k.m.Settled() {
		var e Effects
		select {
		case r := <-k.replies:
			e = k.m.Reply(l.clock(), r)
		case <-timer.C:
			e = k.m.Tick(l.clock())
		case <-release:
			release = nil
			k.end(ErrReleased)
		case <-ended:
			// However it ended. What is lost already is not released twice.
			ended, over = nil, time.After(3*CallTimeout(k.m.cfg.TTL))
			e = k.m.Release(l.clock())
		case <-over:
			l.unfreed = k.unfreed()
			return
		}
		k.handle(e, timer)
	}
}

// handle does what a step asks for.
func (k *keeper) handle(e Effects, timer *time.Timer) {
	v := k.m.Validity()
	k.lease.validity.Store(&v)
	k.callers.Do(e.Calls)
	for _, ev := range e.Events {
		switch {
		case ev.Kind == Won:
			close(k.won)
		case ev.Kind == Losing, ev.Kind == Refused && !ev.Again:
			k.end(ev.Cause)
		}
	}
	if e.Wake > 0 {
		timer.Reset(e.Wake - k.lease.clock().Mono)
	}
}

// unfreed names the nodes that have not confirmed the release.
func (k *keeper) unfreed() error {
	var errs []error
	for _, n := range k.m.Nodes() {
		if n.Owes == 0 {
			continue
		}
		if n.Err == nil {
			n.Err = context.DeadlineExceeded
		}
		errs = append(errs, fmt.Errorf("lock node %s has not confirmed the release and forgets the keys by itself within %v: %w",
			n.Name, k.m.cfg.TTL, n.Err))
	}
	return errors.Join(errs...)
}
