package quorum

import (
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"time"
)

// RandomToken returns a new random token that cannot be guessed and does not collide.
func RandomToken() string { return crand.Text() }

// Lease is a held key, renewed until it is lost or released. Its methods are safe
// for concurrent use.
type Lease struct {
	keeper  *keeper
	ticket  *ticket
	timeout time.Duration // maximum waiting time; 0: one try

	parent  context.Context         // context of the acquisition
	ctx     context.Context         // ends with the lease, or with parent
	end     context.CancelCauseFunc // ends the lease; the first cause counts
	stop    func() bool             // cancels the reaction to the end of parent
	decided chan struct{}           // closed when the key is held or refused
	refused error                   // written before decided is closed, read after

	freed   chan struct{} // closed when a majority has confirmed the release
	done    chan struct{}
	unfreed error // result of Freed, written before done is closed
}

func newLease(ctx context.Context, w Wait) *Lease {
	l := &Lease{
		ticket: &ticket{once: w.Timeout <= 0, priority: w.Priority}, timeout: w.Timeout,
		parent: ctx, stop: func() bool { return true },
		decided: make(chan struct{}), freed: make(chan struct{}), done: make(chan struct{}),
	}
	l.ctx, l.end = context.WithCancelCause(ctx)
	l.ticket.lease = l
	return l
}

// Hold acquires a key and returns when it is held. It waits at most for timeout: 0 makes one
// try, Forever sets no limit. It sets defaults for some zero fields of cfg: TTL is DefaultTTL,
// Hedge is 2 ms, and tokens, jitter and waiter are random. Nodes are the names of nodes, and
// Listed is set.
//
// The lease lasts until it is lost or released, or until ctx ends, even while Hold is still
// waiting; the end of ctx releases the key. The error is a Failure if the key could not be acquired
// in time or too many nodes deny it, or else the cause of the end of ctx. By then no goroutine is
// left and the reachable nodes have been notified.
//
// Use Locks where several goroutines of a process want the same key.
func Hold(ctx context.Context, nodes []Node, cfg Config, key string, timeout time.Duration) (*Lease, error) {
	g, err := NewGroup(cfg.withDefaults(nodes))
	switch {
	case err != nil:
		return nil, err
	case key == "":
		return nil, errors.New("a lease needs a key")
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	callers := NewCallers(nodes)
	l := newLease(ctx, Wait{Timeout: timeout})
	l.keeper = newKeeper(callers, g, Fifo, key, callers.Close)
	l.keeper.join(l)
	if err := l.wait(); err != nil {
		<-l.Done()
		return nil, err
	}
	return l, nil
}

// hedge is the default of Config.Hedge: a lock that is held for longer is written to all nodes.
const hedge = 2 * time.Millisecond

// withDefaults sets Nodes and Listed, and the defaults that Hold documents.
func (c Config) withDefaults(nodes []Node) Config {
	c.Nodes, c.Listed = Names(nodes), true
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

// wait waits until the key is held or refused. Once it is held, the end of the parent
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
	l.stop = context.AfterFunc(l.parent, l.leave)
	return nil
}

func (l *Lease) leave() { l.keeper.leave(l.ticket) }

// Context returns a context that ends with the lease. Its cause wraps ErrLost or ErrReleased,
// or is that of the context of the acquisition. When a lease is lost, the context ends a tenth
// of the ttl before others can acquire the key, so that work in flight can end.
func (l *Lease) Context() context.Context { return l.ctx }

// Valid reports whether the key is held at this moment. It is more reliable than Context,
// whose end a suspended process may observe late.
func (l *Lease) Valid() bool {
	return l.ctx.Err() == nil && l.keeper.validity.Load().At(l.keeper.clock())
}

// Done returns a channel that is closed when the lease has ended and each node has confirmed
// the release or timed out.
func (l *Lease) Done() <-chan struct{} { return l.done }

// Release releases the key and waits until others can acquire it, which takes the
// confirmation of a majority of the nodes. If ctx ends first, it returns the cause; the release
// continues in the background. An error names nodes that did not confirm; they forget the key
// within a ttl. Releasing a lost or released lease is no error. Before the nodes are closed,
// wait for Freed too: otherwise slower nodes keep the key for a ttl.
func (l *Lease) Release(ctx context.Context) error {
	l.stop()
	l.end(ErrReleased)
	l.leave()
	select {
	case <-l.freed:
	case <-l.done:
	default:
		select {
		case <-l.freed:
		case <-l.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-l.freed:
		return nil
	default:
		return l.unfreed
	}
}

// Freed waits for Done, or until ctx ends. Its error names the nodes that have not confirmed
// the release.
func (l *Lease) Freed(ctx context.Context) error {
	select {
	case <-l.done:
		return l.unfreed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish records that the release is over, with the error about unconfirmed nodes.
func (l *Lease) finish(unfreed error) {
	l.unfreed = unfreed
	close(l.done)
}
