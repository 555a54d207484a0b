package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// callers is how many grab at once.
const callers = 200

// steady is the rate at which the source is offered grabs, a second: about half of
// what it can do, since at its limit a wait is as long as one measures.
const steady = 40_000

// offered is the rate at which salectl is, a second.
const offered = 100_000

// bench makes the measurements. Each is on a Redis of its own.
type bench struct {
	packets int           // in a list that callers empty
	offered time.Duration // for how long grabs are offered
	dir     string        // for the servers' files

	zookeeper string // of an HBase
	tables    int    // that were made there
}

// round measures everything once. What is compared with each other is measured
// one after the other.
func (b *bench) round(ctx context.Context, f *figures) error {
	rates := make(map[string]float64)
	for _, keeps := range []persistence{inMemory, synced} {
		one, err := b.emptied(ctx, keeps, newSource)
		if err != nil {
			return fmt.Errorf("the source, %s: %w", keeps.name, err)
		}
		many, err := b.emptied(ctx, keeps, newPipelined)
		if err != nil {
			return fmt.Errorf("pipelined, %s: %w", keeps.name, err)
		}
		ours, err := b.emptied(ctx, keeps, newOurs)
		if err != nil {
			return fmt.Errorf("salectl, %s: %w", keeps.name, err)
		}
		f.ours[keeps.name].Add(ours, one)
		f.beside[keeps.name].Add(ours, many)
		rates[keeps.name] = one
		f.source[keeps.name].Add(one, rates[inMemory.name])
		f.pipelined[keeps.name].Add(many, one)
	}
	bare, err := b.bare(ctx, steady)
	if err != nil {
		return err
	}
	source, err := b.offeredTo(ctx, inMemory, newSource, steady)
	if err != nil {
		return fmt.Errorf("the source, %d grabs/s offered: %w", steady, err)
	}
	f.wait.Add(p99(source), p99(bare))
	if bare, err = b.bare(ctx, offered); err != nil {
		return err
	}
	for _, keeps := range []persistence{inMemory, synced} {
		ours, err := b.offeredTo(ctx, keeps, newOurs, offered)
		if err != nil {
			return fmt.Errorf("salectl, %d grabs/s offered: %w", offered, err)
		}
		f.waits[keeps.name].Add(p99(ours), p99(bare))
	}
	grabbed, drained, err := b.drains(ctx)
	if err != nil {
		return fmt.Errorf("salectl with its ledger in HBase: %w", err)
	}
	f.drained.Add(drained, grabbed)
	return nil
}

// emptied has callers empty the list of a new contender, checks what they got, and
// returns how many packets that were a second.
func (b *bench) emptied(ctx context.Context, keeps persistence, open opener) (rate float64, err error) {
	err = b.with(ctx, keeps, open, b.packets, func(c contender) (int, error) {
		grabs, took, err := c.run(ctx, callers)
		if err != nil {
			return grabs, err
		}
		if grabs != b.packets {
			return grabs, fmt.Errorf("%w: %d of %d were given when nothing was left", errWrong, grabs, b.packets)
		}
		rate = float64(grabs) / took.Seconds()
		return grabs, nil
	})
	return rate, err
}

// drains has callers empty a list of salectl's with the ledger in HBase, and returns
// how many packets that were a second, and how many a second from its begin until
// the ledger had all of them.
func (b *bench) drains(ctx context.Context) (grabbed, drained float64, err error) {
	b.tables++
	open := onHBase(b.zookeeper, fmt.Sprintf("packets-%d", b.tables))
	err = b.with(ctx, synced, open, b.packets, func(c contender) (int, error) {
		begin := time.Now()
		grabs, took, err := c.run(ctx, callers)
		if err != nil {
			return grabs, err
		}
		if err := c.(*ours).drained(ctx, grabs); err != nil {
			return grabs, err
		}
		grabbed, drained = float64(grabs)/took.Seconds(), float64(grabs)/time.Since(begin).Seconds()
		return grabs, nil
	})
	return grabbed, drained, err
}

// with prepares a new contender on a new Redis, does something with it that says
// how many packets were given, and checks that.
func (b *bench) with(ctx context.Context, keeps persistence, open opener, packets int, do func(contender) (grabs int, err error)) error {
	return onRedis(ctx, b.dir, keeps, func(address string) error {
		c := open(address, callers)
		defer c.close()
		all := newPackets(packets)
		if err := c.prepare(ctx, all); err != nil {
			return err
		}
		grabs, err := do(c)
		if err != nil {
			return err
		}
		taken, err := c.taken(ctx)
		if err != nil {
			return err
		}
		return check(all, taken, grabs)
	})
}

// offeredTo offers a new contender grabs at a rate, checks what they got, and
// returns how long they took.
func (b *bench) offeredTo(ctx context.Context, keeps persistence, open opener, rate int) (waits *hdrhistogram.Histogram, err error) {
	n := b.offers(rate)
	err = b.with(ctx, keeps, open, n, func(c contender) (int, error) {
		var grabs atomic.Int64
		waits, err = offer(ctx, rate, n, func(ctx context.Context, i int64) error {
			got, err := c.grab(ctx, user(i))
			if got {
				grabs.Add(1)
			}
			return err
		})
		return int(grabs.Load()), err
	})
	return waits, err
}

// offers is how many calls are offered at a rate.
func (b *bench) offers(rate int) int { return int(float64(rate) * b.offered.Seconds()) }

// bare is how long calls take that do nothing: what the measure itself adds.
func (b *bench) bare(ctx context.Context, rate int) (*hdrhistogram.Histogram, error) {
	return offer(ctx, rate, b.offers(rate), func(context.Context, int64) error { return nil })
}
