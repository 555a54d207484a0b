package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"

	"salectl/testdata/peers/internal/table"
)

// free measures locks that nobody else wants.
func (b *bench) free(ctx context.Context, n int, f *figures) error {
	own, err := b.ours(n)
	if err != nil {
		return err
	}
	defer own.close()
	ours, theirs := b.freshly(own.lock, "ours"), b.freshly(redsyncs(b.clients[:n]), "theirs")
	plain := b.freshly(redsyncs(b.plain[:n]), "plain")
	p50, err := b.inTurns(ctx, theirs.turn, plain.turn, ours.turn, b.ping(n))
	if err != nil {
		return err
	}
	f.redsync[n].Add(microseconds(p50[2]), microseconds(p50[0]))
	f.plain[n].Add(microseconds(p50[2]), microseconds(p50[1]))
	f.ping[n].Add(microseconds(p50[2]), microseconds(p50[3]))
	if err := b.allGone(ctx, own, []*freeLock{ours}, theirs, plain); err != nil {
		return err
	}

	one, other := &freeLock{lock: own.lock, name: b.fresh("ours")}, &freeLock{lock: redsyncs(b.clients[:n]), name: b.fresh("theirs")}
	if p50, err = b.inTurns(ctx, other.turn, one.turn); err != nil {
		return err
	}
	f.oneName[n].Add(microseconds(p50[1]), microseconds(p50[0]))

	// This one leaves calls behind that it does not wait for, and perhaps keys. It
	// settles before the other's turn.
	hasty := b.freshly(redsyncs(b.clients[:n], redsync.WithFailFast(true)), "hasty")
	settle := func(context.Context) (time.Duration, error) { time.Sleep(time.Millisecond); return 0, nil }
	if p50, err = b.inTurns(ctx, hasty.turn, settle, ours.turn, settle); err != nil {
		return err
	}
	f.failFast[n].Add(microseconds(p50[2]), microseconds(p50[0]))
	return b.allGone(ctx, own, []*freeLock{ours, one}, other)
}

// allGone fails unless all locks were given back. Redsync does not report whether a
// node was too slow for it, so that its key has to run out.
func (b *bench) allGone(ctx context.Context, own *ours, ours []*freeLock, theirs ...*freeLock) error {
	within := own.freed()
	for _, l := range ours {
		if err := b.gone(ctx, l.name, within); err != nil {
			return err
		}
	}
	for _, l := range theirs {
		if err := b.gone(ctx, l.name, forgotten); err != nil {
			return err
		}
	}
	return nil
}

// freeLock is a lock that is taken and given back again and again.
type freeLock struct {
	lock  locker
	name  string
	fresh bool // each time it is another lock, whose name begins with name
	taken int
}

// freshly returns a lock that is a new one each time.
func (b *bench) freshly(lock locker, what string) *freeLock {
	return &freeLock{lock: lock, name: b.site.fresh(what), fresh: true}
}

func (l *freeLock) turn(ctx context.Context) (time.Duration, error) {
	name := l.name
	if l.fresh {
		l.taken++
		name = fmt.Sprintf("%s-%d", l.name, l.taken)
	}
	return timed(ctx, l.lock, name)
}

// ping pings the first n servers, all at once.
func (b *bench) ping(n int) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		var all sync.WaitGroup
		errs := make([]error, n)
		for i, c := range b.clients[:n] {
			all.Go(func() { errs[i] = c.Ping(ctx).Err() })
		}
		all.Wait()
		took := time.Since(began)
		for _, err := range errs {
			if err != nil {
				return 0, err
			}
		}
		return took, nil
	}
}

// warmUp is how many turns do not count: connections and scripts are new then.
const warmUp = 200

// inTurns lets each have a turn, again and again, and returns the median of what
// each took.
func (b *bench) inTurns(ctx context.Context, turns ...func(context.Context) (time.Duration, error)) ([]time.Duration, error) {
	runtime.GC() // what others left behind is not its burden
	took := make([][]time.Duration, len(turns))
	var begin time.Time
	for i := 0; i < warmUp || time.Since(begin) < b.each; i++ {
		for j, turn := range turns {
			d, err := turn(ctx)
			if err != nil {
				return nil, err
			}
			if i >= warmUp {
				took[j] = append(took[j], d)
			}
		}
		if i < warmUp {
			begin = time.Now()
		}
	}
	p50 := make([]time.Duration, len(turns))
	for j := range took {
		p50[j] = table.Median(took[j])
	}
	return p50, nil
}
