package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// fewest is over how many servers a lock is that many want.
const fewest = 3

// unsettled is how long a contest lasts before the waits that begin count.
const unsettled = time.Second

// contended has 64 contend for one lock: redsync's, salectl's as if each were a
// process with connections of its own, and salectl's as goroutines of one process.
func (b *bench) contended(ctx context.Context, f *figures) error {
	const contenders = 64
	theirs, err := b.contend(ctx, slices.Repeat([]locker{redsyncs(b.clients[:fewest])}, contenders), b.contest, 0)
	if err != nil {
		return err
	}
	f.longestRedsync.Add(milliseconds(theirs.longest), milliseconds(theirs.mean()))
	for _, who := range []string{processes, goroutines} {
		ours, err := b.contendOurs(ctx, who, contenders, b.contest, 0)
		if err != nil {
			return err
		}
		f.handed[who].Add(ours.handed, theirs.handed)
		f.longest[who].Add(milliseconds(ours.longest), milliseconds(ours.mean()))
		if who == processes {
			f.perHand.Add(ours.commands/float64(ours.changes), theirs.commands/float64(theirs.changes))
		}
		held, err := b.contendOurs(ctx, who, contenders, b.contest, time.Millisecond)
		if err != nil {
			return err
		}
		f.longestHeld[who].Add(milliseconds(held.longest), milliseconds(held.mean()))
	}
	return nil
}

// contendOurs has a number of processes, or of goroutines of one process, contend
// for a lock of salectl's.
func (b *bench) contendOurs(ctx context.Context, who string, n int, lasts, holds time.Duration) (*contest, error) {
	var each []locker
	for len(each) < n {
		own, err := b.ours(fewest)
		if err != nil {
			return nil, err
		}
		defer own.close()
		if who == processes {
			each = append(each, own.lock)
		} else {
			each = slices.Repeat([]locker{own.lock}, n)
		}
	}
	return b.contend(ctx, each, lasts, holds)
}

// contend has a goroutine for each locker take one lock, keep it, give it back,
// and want it again, for some time.
func (b *bench) contend(ctx context.Context, each []locker, lasts, holds time.Duration) (*contest, error) {
	name := b.fresh("contest")
	before, err := b.counts(ctx, fewest)
	if err != nil {
		return nil, err
	}
	runtime.GC() // what others left behind is not its burden
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	inTime, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	c := &contest{last: -1, began: time.Now()}
	var all sync.WaitGroup
	for who, lock := range each {
		all.Go(func() {
			for inTime.Err() == nil {
				if err := c.take(inTime, who, lock, name, holds); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	c.handed = float64(c.changes) / lasts.Seconds()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c.had == 0 {
		return nil, fmt.Errorf("%w: nobody had %s within %v", errWrong, name, lasts)
	}
	after, err := b.counts(ctx, fewest)
	c.commands = float64(after.All() - before.All())
	return c, err
}

// contest is what became of those who wanted one lock.
type contest struct {
	handed   float64 // changes of the holder, a second
	commands float64 // that the servers got meanwhile

	inside atomic.Int32 // how many have the lock
	began  time.Time

	mu      sync.Mutex
	last    int   // who had it last; -1: nobody
	had     int64 // how often anybody had it
	changes int64 // how often it was another than before
	waits   int64 // that have ended, of those that count
	sum     time.Duration
	longest time.Duration
}

// take waits for the lock, keeps it, and gives it back. That the contest ends
// meanwhile is no error.
func (c *contest) take(ctx context.Context, who int, lock locker, name string, holds time.Duration) error {
	requested := time.Now()
	unlock, err := lock(ctx, name)
	waited := time.Since(requested)
	switch {
	case ctx.Err() != nil: // who has the lock may lose it from now on
		c.cutShort(requested, waited)
		if err == nil {
			_ = unlock()
		}
		return nil
	case err != nil:
		return err
	}
	err = c.hold(ctx, name, holds)
	c.entered(who, requested, waited)
	c.inside.Add(-1)
	// Who holds the lock when the contest ends may have lost it by that.
	if gone := unlock(); err == nil && ctx.Err() == nil {
		err = gone
	}
	return err
}

// hold is what the lock is for: nobody else may be inside.
func (c *contest) hold(ctx context.Context, name string, holds time.Duration) error {
	if n := c.inside.Add(1); n > 1 {
		return fmt.Errorf("%w: %s has %d holders", errWrong, name, n)
	}
	if holds == 0 {
		runtime.Gosched() // whoever should not be here gets the time to come
		return nil
	}
	select {
	case <-time.After(holds):
	case <-ctx.Done():
	}
	return nil
}

// entered counts somebody who has the lock.
func (c *contest) entered(who int, requested time.Time, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.had++
	if who != c.last {
		c.changes++
	}
	c.last = who
	if requested.Sub(c.began) >= unsettled {
		c.waits++
		c.sum += waited
		c.longest = max(c.longest, waited)
	}
}

// cutShort counts somebody who waited when the contest ended: for the mean it is
// not known how long it would have been, but the longest is no shorter.
func (c *contest) cutShort(requested time.Time, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if requested.Sub(c.began) >= unsettled {
		c.longest = max(c.longest, waited)
	}
}

// mean is how long a wait was on average.
func (c *contest) mean() time.Duration { return c.sum / time.Duration(max(c.waits, 1)) }
