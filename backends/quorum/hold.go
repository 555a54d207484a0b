package quorum

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// RandomToken returns a new random token that cannot be guessed and does not collide.
func RandomToken() string { return crand.Text() }

// Lease is a set of held keys, renewed until they are lost or released. Its methods are safe
// for concurrent use. Its context and channels are created on first use: most leases of a busy
// lock end earlier.
type Lease struct {
	keeper  *keeper
	ticket  *ticket
	timeout time.Duration // above 0: maximum waiting time

	parent  context.Context // context of the acquisition
	decided chan struct{}   // closed when the keys are held or refused
	refused error           // written before decided is closed, read after
	stop    func() bool     // cancels the reaction to the end of parent; nil if parent never ends

	mu      sync.Mutex
	cause   error // reason for the end; nil: not ended
	unfreed error // result of Freed once done is over
	ctx     context.Context
	cancel  context.CancelCauseFunc // cancels ctx
	freed   happening               // a majority has confirmed the release
	done    happening
}

// happening is an event that can be waited for. The mutex of its lease guards it.
type happening struct {
	over bool
	told chan struct{} // closed when it is over; nil: created on demand
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
	return &Lease{ticket: t, timeout: patience, parent: ctx, decided: make(chan struct{})}
}

// Hold acquires all keys and returns when they are held. It sets defaults for some zero fields
// of cfg: TTL is DefaultTTL, Hedge is 2 ms, and tokens, jitter and waiter are random. Nodes are
// the names of nodes.
//
// The lease lasts until it is lost or released, or until ctx ends, even while Hold is still
// waiting; the end of ctx releases the keys. An error wraps ErrRefused, or is the cause of the
// end of ctx. By then no goroutine is left and the reachable nodes have been notified.
//
// Use Locks where several goroutines of a process want the same keys.
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

// hedge is the default of Config.Hedge: a lock that is held for longer is written to all nodes.
const hedge = 2 * time.Millisecond

// withDefaults sets Nodes, and the defaults that Hold documents.
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

// wait waits until the keys are held or refused. Once they are held, the end of the parent
// context ends the lease.
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

// end records that the lease has ended, and why. The end of the parent context takes precedence
// over cause.
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

// Context returns a context that ends with the lease. Its cause wraps ErrLost or ErrReleased,
// or is that of the context of the acquisition. When a lease is lost, the context ends a tenth
// of the ttl before others can acquire the keys, so that work in flight can end.
func (l *Lease) Context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ctx != nil:
	case l.cause != nil: // cause, not what parent may have ended with since
		l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(l.parent))
		l.cancel(l.cause)
	default:
		l.ctx, l.cancel = context.WithCancelCause(l.parent)
	}
	return l.ctx
}

// Valid reports whether the keys are held at this moment. It is more reliable than Context,
// whose end a suspended process may observe late.
func (l *Lease) Valid() bool {
	l.mu.Lock()
	lasts := l.cause == nil && l.parent.Err() == nil
	l.mu.Unlock()
	return lasts && l.keeper.validity.Load().At(l.keeper.clock())
}

// Done returns a channel that is closed when the lease has ended and each node has confirmed
// the release or timed out.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done.channel()
}

// Release releases the keys and waits until others can acquire them, which takes the
// confirmation of a majority of the nodes. If ctx ends first, it returns the cause; the release
// continues in the background. An error names nodes that did not confirm; they forget the keys
// within a ttl. Releasing a lost or released lease is no error. Before the nodes are closed,
// wait for Freed too: otherwise slower nodes keep the keys for a ttl.
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

// leftover returns the error of Release about unconfirmed nodes. mu is held.
func (l *Lease) leftover() error {
	if l.freed.over {
		return nil
	}
	return l.unfreed
}

// Freed waits for Done, or until ctx ends. Its error names the nodes that have not confirmed
// the release.
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

// free records that a majority has confirmed the release.
func (l *Lease) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freed.happens()
}

// finish records that the release is over, with the error about unconfirmed nodes.
func (l *Lease) finish(unfreed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.done.over {
		l.unfreed = unfreed
		l.done.happens()
	}
}
