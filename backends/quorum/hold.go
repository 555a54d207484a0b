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
// back. All methods are safe for concurrent use. It makes a context and channels
// only for whoever asks for them: most leases of a busy lock end before.
type Lease struct {
	keeper   *keeper
	ticket   *ticket
	patience time.Duration // above 0: how long it waits

	parent  context.Context // that it was acquired under
	decided chan struct{}   // closed when the keys are held, or will not be
	refused error           // written before decided is closed, and read after
	stop    func() bool     // takes back what was to follow from the end of parent; nil: that has none

	mu      sync.Mutex
	cause   error // why it has ended; nil: it has not
	unfreed error // what is to be said when it is over
	ctx     context.Context
	cancel  context.CancelCauseFunc // of ctx
	freed   happening               // a majority has forgotten the keys
	done    happening
}

// happening is something for which may be waited. The mutex of its lease guards it.
type happening struct {
	over bool
	told chan struct{} // closed when it is over; nil: nobody waits
}

func (h *happening) happens() {
	if !h.over && h.told != nil {
		close(h.told)
	}
	h.over = true
}

func (h *happening) channel() <-chan struct{} {
	if h.told == nil {
		h.told = make(chan struct{})
		if h.over {
			close(h.told)
		}
	}
	return h.told
}

func newLease(ctx context.Context, t *ticket, patience time.Duration) *Lease {
	return &Lease{ticket: t, patience: patience, parent: ctx, decided: make(chan struct{})}
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
		<-l.Done()
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
	case <-l.parent.Done():
		l.leave()
		return context.Cause(l.parent)
	}
	if l.refused != nil {
		return l.refused
	}
	if l.parent.Done() != nil {
		l.stop = context.AfterFunc(l.parent, l.leave)
	}
	return nil
}

func (l *Lease) leave() { l.keeper.leave(l.ticket) }

// end notes that the lease has ended, and why. The end of the context that it was
// acquired under comes first.
func (l *Lease) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return
	}
	if l.cause = context.Cause(l.parent); l.cause == nil {
		l.cause = cause
	}
	if l.cancel != nil {
		l.cancel(l.cause)
	}
}

// Context ends when the lease does: its cause wraps ErrLost or ErrReleased, or
// is that of the context under which it was acquired. When a lease is lost this
// comes a tenth of the ttl before others can have the keys, for work in flight
// to end in.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ctx != nil:
	case l.cause != nil: // which is not what parent may have come to since
		l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(l.parent))
		l.cancel(l.cause)
	default:
		l.ctx, l.cancel = context.WithCancelCause(l.parent)
	}
	return l.ctx
}

// Valid reports whether the keys still are ours at this moment. It is surer than
// Context, whose end may be seen late by a process that was suspended.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	lasts := l.cause == nil && l.parent.Err() == nil
	l.mu.Unlock()
	return lasts && l.keeper.validity.Load().At(l.keeper.clock())
}

// Done is closed when the lease has ended and each node has confirmed that, or
// had its time to.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done.channel()
}

// Release gives the keys back and waits until others can have them, which takes
// a majority of the nodes, or until ctx ends: the release then goes on without
// its caller. An error names nodes that did not confirm; they forget the keys
// within a ttl. Releasing twice, or what is lost, is no error. Before the nodes
// are closed wait for Freed as well, or those that are slower than most keep the
// keys for a ttl.
func (l *Lease) Release(ctx context.Context) error {
	if l.stop != nil {
		l.stop()
	}
	l.end(ErrReleased)
	l.leave()
	l.mu.Lock()
	if l.freed.over || l.done.over {
		defer l.mu.Unlock()
		return l.leftover()
	}
	freed, done := l.freed.channel(), l.done.channel()
	l.mu.Unlock()
	select {
	case <-freed:
	case <-done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leftover()
}

// leftover is what Release says of nodes that have not confirmed. mu is held.
func (l *Lease) leftover() error {
	if l.freed.over {
		return nil
	}
	return l.unfreed
}

// Freed waits until Done, or until ctx ends. The error names the nodes that have
// not confirmed that the lease has ended.
func (l *Lease) Freed(ctx context.Context) error {
	select {
	case <-l.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.unfreed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// free says that a majority has forgotten the keys.
func (l *Lease) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freed.happens()
}

// finish says that nothing more is waited for.
func (l *Lease) finish(unfreed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done.over {
		l.unfreed = unfreed
		l.done.happens()
	}
}
