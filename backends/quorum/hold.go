package quorum

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// RandomToken returns a new token that nobody can guess or meet by chance.
func RandomToken() string { return crand.Text() }

// Lease is some keys that are held, and renewed until they are lost or given
// back. All methods are safe for concurrent use.
type Lease struct {
	keeper   *keeper
	ticket   *ticket
	patience time.Duration // above 0: how long it waits

	ctx     context.Context
	end     context.CancelCauseFunc
	decided chan struct{} // closed when the keys are held, or will not be
	refused error         // written before decided is closed, and read after
	stop    func() bool   // takes back what was to follow from the end of ctx

	freeing, finishing sync.Once
	freed              chan struct{} // closed when a majority has forgotten the keys
	done               chan struct{}
	unfreed            error // written before done is closed, and read after
}

func newLease(ctx context.Context, t *ticket, patience time.Duration) *Lease {
	l := &Lease{
		ticket: t, patience: patience,
		decided: make(chan struct{}), freed: make(chan struct{}), done: make(chan struct{}),
	}
	l.ctx, l.end = context.WithCancelCause(ctx)
	return l
}

// Hold acquires all keys and returns when they are held. The zero values of
// some fields of cfg have defaults: TTL is DefaultTTL, Hedge is 2 ms, tokens, jitter
// and waiter are random. Nodes are those of the first argument.
//
// The lease lasts until it is lost or released, or until ctx ends, before
// Hold returns or after; then the keys are given back. An error wraps
// ErrRefused, or is the cause of the end of ctx; no goroutine is left then and
// the nodes within reach have been told.
//
// Where several goroutines of a process want the same keys, Locks is better.
func Hold(ctx context.Context, nodes []Node, cfg Config, keys ...string) (*Lease, error) {
	m, err := NewMachine(cfg.withDefaults(nodes))
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0:
		return nil, errors.New("a lease needs at least one key")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	callers := NewCallers(nodes)
	l := newLease(ctx, &ticket{once: cfg.Once}, 0)
	l.keeper = newKeeper(callers, m, Fifo, keys, callers.Close)
	l.keeper.join(l)
	if err := l.wait(); err != nil {
		<-l.done
		return nil, err
	}
	return l, nil
}

// hedge is how long a lock must be held to be known to all nodes.
const hedge = 2 * time.Millisecond

// withDefaults fills in what is random.
func (c Config) withDefaults(nodes []Node) Config {
	c.Nodes = Names(nodes)
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Token == nil {
		c.Token = RandomToken
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Hedge == 0 {
		c.Hedge = hedge
	}
	if c.Waiter == "" {
		c.Waiter = RandomToken()
	}
	return c
}

// wait waits until the keys are held, or will not be. From then on the lease
// ends with its context.
func (l *Lease) wait() error {
	select {
	case <-l.decided:
	case <-l.ctx.Done():
		l.leave()
		return context.Cause(l.ctx)
	}
	if l.refused != nil {
		return l.refused
	}
	l.stop = context.AfterFunc(l.ctx, l.leave)
	return nil
}

func (l *Lease) leave() { l.keeper.leave(l.ticket) }

// Context ends when the lease does: its cause wraps ErrLost or ErrReleased, or
// is that of the context under which it was acquired. When a lease is lost this
// comes a tenth of the ttl before others can have the keys, for work in flight
// to end in.
func (l *Lease) Context() context.Context { return l.ctx }

// Valid says whether the keys still are ours at this moment. It is surer than
// Context, whose end may be seen late by a process that was suspended.
func (l *Lease) Valid() bool {
	return l.ctx.Err() == nil && l.keeper.validity.Load().At(l.keeper.clock())
}

// Done is closed when the lease has ended and each node has confirmed that, or
// had its time to.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Release gives the keys back and waits until others can have them, which takes
// a majority of the nodes, or until ctx ends: the release then goes on without
// its caller. An error names nodes that did not confirm; they forget the keys
// within a ttl. Releasing twice, or what is lost, is no error. Before the nodes
// are closed wait for Freed as well, or those that are slower than most keep the
// keys for a ttl.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.end(ErrReleased)
	l.leave()
	select {
	case <-l.freed:
		return nil
	case <-l.done:
		return l.unfreed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Freed waits until Done, or until ctx ends. The error names the nodes that have
// not confirmed that the lease has ended.
func (l *Lease) Freed(ctx context.Context) error {
	select {
	case <-l.done:
		return l.unfreed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// free says that a majority has forgotten the keys.
func (l *Lease) free() { l.freeing.Do(func() { close(l.freed) }) }

// finish says that nothing more is waited for.
func (l *Lease) finish(unfreed error) {
	l.finishing.Do(func() {
		l.unfreed = unfreed
		close(l.done)
	})
}
