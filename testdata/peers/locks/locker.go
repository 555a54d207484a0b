package main

import (
	"context"
	"math"
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

// ours returns a locker of salectl's over the first n servers, on connections of
// its own. It serves any number of goroutines in the order in which they came.
func (s *site) ours(n int) (_ locker, closeLocks func(), err error) {
	nodes, closeNodes, err := s.nodes(n)
	if err != nil {
		return nil, nil, err
	}
	locks, err := quorum.NewLocks(nodes, config, quorum.Fifo)
	if err != nil {
		closeNodes()
		return nil, nil, err
	}
	lock := func(ctx context.Context, name string) (func() error, error) {
		l, err := locks.Acquire(ctx, spec.NamedLock(name), quorum.Wait{AtMost: quorum.Forever})
		if err != nil {
			return nil, err
		}
		return func() error { return l.Release(context.Background()) }, nil
	}
	return lock, func() { locks.Close(); closeNodes() }, nil
}

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
