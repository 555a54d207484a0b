package quorum

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// Locks hands out leases on keys to the goroutines of one process. Those who
// want the same key stand in one line, of which only the head asks the nodes:
// a thousand who wait cost what one does. A key goes from one to the next within
// the process without asking the nodes, for a fifth of a second at most. Then
// those of other processes are let in between, unless the nodes say that none waits.
//
// Among processes it is the nodes that keep a list of who waits and tell the
// first when a key is freed. Who comes by at that moment may be faster: what is
// promised to each who waits is its turn at asking, not the key.
type Locks struct {
	cfg     Config
	order   Order
	callers *Callers

	mu      sync.Mutex
	keepers map[string]*keeper
	closed  bool
}

// NewLocks returns locks that serve who waits in an order. The defaults of cfg
// are those of Hold; its Once is of no meaning.
func NewLocks(nodes []Node, cfg Config, order Order) (*Locks, error) {
	cfg = cfg.withDefaults(nodes)
	cfg.Once = false
	cfg.LateNodes = NewLateNodes(len(nodes))
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Locks{cfg: cfg, order: order, callers: NewCallers(nodes), keepers: make(map[string]*keeper)}, nil
}

// Wait is how to wait for a key.
type Wait struct {
	AtMost   time.Duration // 0: not at all
	Priority int           // in an Order that heeds it, higher comes first
}

// Forever waits until it is over: until the context ends.
const Forever = time.Duration(math.MaxInt64)

// Acquire returns when the key is held, or with an error that wraps ErrRefused
// when it could not be acquired in time, or the cause of the end of ctx. The lease lasts
// until it is lost or released, or until ctx ends.
func (k *Locks) Acquire(ctx context.Context, key string, w Wait) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	patience := w.AtMost
	if patience == Forever {
		patience = 0
	}
	l := newLease(ctx, &ticket{once: w.AtMost <= 0, priority: w.Priority}, patience)
	if err := k.enter(key, l); err != nil {
		l.end(err)
		return nil, err
	}
	if err := l.wait(); err != nil {
		return nil, err
	}
	return l, nil
}

// enter puts a lease into the line of its key.
func (k *Locks) enter(key string, l *Lease) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return ErrClosed
	}
	if l.keeper = k.keepers[key]; l.keeper != nil && l.keeper.join(l) {
		return nil
	}
	m, err := NewMachine(k.cfg)
	if err != nil {
		return err
	}
	var mine *keeper
	mine = newKeeper(k.callers, m, k.order, []string{key}, func() { k.forget(key, mine) })
	k.keepers[key], l.keeper = mine, mine
	mine.join(l)
	return nil
}

// forget drops a keeper that has ended, unless the key has another by now.
func (k *Locks) forget(key string, ended *keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keepers[key] == ended {
		delete(k.keepers, key)
	}
}

// Close ends all goroutines, and all that is held or waited for with ErrClosed.
// Leases are to be released before: the nodes keep the keys of others until these
// run out.
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
