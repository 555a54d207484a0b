package main

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	syncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
	"salectl/spec"
)

// locker takes the lock of a name, however long that takes, and returns what
// gives it back.
type locker func(ctx context.Context, name string) (unlock func() error, err error)

// ours is locks of salectl's on connections of their own.
type ours struct {
	locks      *quorum.Locks
	closeNodes func()

	freeing sync.WaitGroup // of leases that were released and that not all nodes have confirmed yet
	unfreed atomic.Bool    // a node had its time to confirm a release, and did not
}

// ours opens locks of salectl's over the first n servers. They serve any number of
// goroutines in the order in which they came.
func (s *site) ours(n int) (*ours, error) {
	nodes, closeNodes, err := s.nodes(n)
	if err != nil {
		return nil, err
	}
	locks, err := quorum.NewLocks(nodes, config, quorum.Fifo)
	if err != nil {
		closeNodes()
		return nil, err
	}
	return &ours{locks: locks, closeNodes: closeNodes}, nil
}

// lock is a locker.
func (o *ours) lock(ctx context.Context, name string) (unlock func() error, err error) {
	l, err := o.locks.Acquire(ctx, spec.NamedLock(name), quorum.Wait{Timeout: quorum.Forever})
	if err != nil {
		return nil, err
	}
	return func() error {
		err := l.Release(context.Background())
		o.freeing.Go(func() {
			if l.Freed(context.Background()) != nil {
				o.unfreed.Store(true)
			}
		})
		return err
	}, nil
}

// freed waits until the nodes have confirmed all releases, or had their time to.
// It returns how long they may keep a key from then on: not at all if all have
// confirmed.
func (o *ours) freed() time.Duration {
	o.freeing.Wait()
	if o.unfreed.Load() {
		return forgotten
	}
	return 0
}

// forgotten is when a server has surely let expire what it had no command to
// forget.
const forgotten = 2 * quorum.DefaultTTL

func (o *ours) close() { o.locks.Close(); o.closeNodes() }

// config is that of all leases here.
var config = quorum.Config{Marker: spec.NamedLockMarker, Address: "127.0.0.1:1"}

// redsyncs returns a locker of redsync's over some servers. It has salectl's ttl
// and redsync's own pauses between tries, of 50 to 250 ms. It goes on trying for as
// long as salectl does.
func redsyncs(clients []*redis.Client, options ...redsync.Option) locker {
	sync := redsyncOver(clients)
	options = append([]redsync.Option{redsync.WithExpiry(quorum.DefaultTTL), redsync.WithTries(math.MaxInt)}, options...)
	return func(ctx context.Context, name string) (func() error, error) {
		m := sync.NewMutex("redsync:lock:"+name, options...)
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error {
			// As long as redsync waits for a node when it locks. By itself it would
			// wait for one that hangs until the client gives up.
			ctx, cancel := context.WithTimeout(context.Background(), quorum.DefaultTTL/20)
			defer cancel()
			if ok, err := m.UnlockContext(ctx); !ok {
				return err
			}
			return nil
		}, nil
	}
}

func redsyncOver(clients []*redis.Client) *redsync.Redsync {
	var pools []syncredis.Pool
	for _, c := range clients {
		pools = append(pools, goredis.NewPool(c))
	}
	return redsync.New(pools...)
}

// timed is how long it takes to lock and unlock once.
func timed(ctx context.Context, lock locker, name string) (time.Duration, error) {
	began := time.Now()
	unlock, err := lock(ctx, name)
	if err != nil {
		return 0, err
	}
	if err := unlock(); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}
