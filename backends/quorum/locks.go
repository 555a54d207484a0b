package quorum

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Locks provides leases on keys to the goroutines of one process. Goroutines that want the same
// key form one line, and only its head calls the nodes: a thousand waiters cost as much as one.
// Within the process a key passes from waiter to waiter without calls, for a fifth of a second
// at most. Then waiters of other processes get it, unless the nodes report that there are none.
//
// Among processes, the nodes keep a list of waiters and notify the first when a key is freed. A
// process that tries at that moment may be faster: a waiter is promised its turn to try, not
// the key.
type Locks struct {
	cfg     Config
	order   Order
	callers *Callers

	mu      sync.Mutex
	keepers map[string]*keeper
	closed  bool
}

// NewLocks returns Locks that serve waiters in the given order. The defaults of cfg are those
// of Hold.
func NewLocks(nodes []Node, cfg Config, order Order) (*Locks, error) {
	cfg = cfg.withDefaults(nodes)
	cfg.LateNodes = NewLateNodes(len(nodes))
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Locks{cfg: cfg, order: order, callers: NewCallers(nodes), keepers: make(map[string]*keeper)}, nil
}

// Wait configures the wait for a key.
type Wait struct {
	Timeout  time.Duration // maximum waiting time; 0: one try, without waiting
	Priority int           // higher comes first, with an Order that uses it
}

// Forever, as a timeout, waits until the context ends.
const Forever = time.Duration(math.MaxInt64)

// Acquire acquires a key, and returns when it is held. The error wraps ErrRefused if the key
// could not be acquired in time or too many nodes deny it, or else is the cause of the end of ctx.
// The lease lasts until it is lost or released, or until ctx ends.
func (k *Locks) Acquire(ctx context.Context, key string, w Wait) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l := newLease(ctx, w)
	if err := k.enter(key, l); err != nil {
		l.end(err)
		return nil, err
	}
	if err := l.wait(); err != nil {
		return nil, err
	}
	return l, nil
}

// enter adds a lease to the line of its key.
func (k *Locks) enter(key string, l *Lease) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrClosed
	}
	if l.keeper = k.keepers[key]; l.keeper != nil && l.keeper.join(l) {
		return nil
	}
	g, err := NewGroup(k.cfg)
	if err != nil {
		return err
	}
	var mine *keeper
	mine = newKeeper(k.callers, g, k.order, key, func() { k.forget(key, mine) })
	k.keepers[key], l.keeper = mine, mine
	mine.join(l)
	return nil
}

// forget removes a keeper that has ended, unless another has replaced it.
func (k *Locks) forget(key string, ended *keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keepers[key] == ended {
		delete(k.keepers, key)
	}
}

// Close ends all goroutines, and all leases and waiters with ErrClosed. Release leases first:
// otherwise the nodes keep their keys until they expire.
func (k *Locks) Close() {
	k.mu.Lock()
	k.closed = true
	keepers := slices.Collect(maps.Values(k.keepers))
	k.mu.Unlock()
	for _, one := range keepers {
		one.close()
	}
	k.callers.Close()
}
