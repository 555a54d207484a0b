package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"salectl/testdata/peers/internal/cluster"
	"salectl/testdata/peers/internal/crowd"
	"salectl/testdata/peers/internal/naive"
	"salectl/testdata/peers/internal/sales"
)

// shards is the number of locks of every sale here but the large one.
const shards = 5

// bench makes the measurements.
type bench struct {
	*cluster.Cluster
	each     time.Duration // one measurement
	profiles string        // a folder for CPU profiles; "": none
	large    string        // the sale with a million claims; "": not stored yet
}

// round measures everything once. What is compared with each other is measured
// one after the other.
func (b *bench) round(ctx context.Context, f *figures) error {
	sold := make(map[int]float64)
	for _, callers := range []int{200, 2000} {
		c, err := b.claims(ctx, callers)
		if err != nil {
			return err
		}
		raw, err := b.rawAppends(ctx, c.entry)
		if err != nil {
			return err
		}
		sold[callers] = c.Rate
		f.raw[callers].Add(c.Rate, raw*c.batch)
		f.batch[callers].Add(c.batch, 0)
	}
	best, commands := 0.0, 0.0
	for _, callers := range naiveCallers {
		c, each, err := b.naiveClaims(ctx, callers)
		if err != nil {
			return err
		}
		f.naive[callers].Add(c.Rate, 0)
		if c.Rate > best {
			best, commands = c.Rate, each
		}
	}
	for callers, rate := range sold {
		f.peer[callers].Add(rate, best)
	}
	a, err := b.alone(ctx)
	if err != nil {
		return err
	}
	f.alone.Add(a.claim.Seconds()*1e3, a.put.Seconds()*1e3)
	f.commands.Add(a.commands, commands)
	l, err := b.load(ctx)
	if err != nil {
		return err
	}
	f.load.Add(l.serve.Seconds(), l.read.Seconds())
	return nil
}

// claims is what an executor sells to a crowd.
type claims struct {
	crowd.Result
	batch float64 // claims in a commit, on average
	entry int     // bytes of a commit, on average
}

func (b *bench) claims(ctx context.Context, callers int) (c claims, err error) {
	sale, err := b.Selling(ctx, sales.Plenty, shards, func(e *sales.Serving) error {
		slotsBefore, bytesBefore := e.Written()
		err := b.profiled(fmt.Sprintf("claims-%d.pprof", callers), func() (err error) {
			c.Result, err = crowd.Call(ctx, crowd.Options{Callers: callers, For: b.each, Most: math.MaxInt64}, e.Claimer(crowd.User))
			return err
		})
		if err != nil {
			return err
		}
		slots, bytes := e.Written()
		slots, bytes = slots-slotsBefore, bytes-bytesBefore
		c.batch, c.entry = float64(c.Sold)/float64(slots), int(bytes/slots)
		return nil
	})
	if err != nil {
		return c, err
	}
	return c, b.Audit(ctx, sale, c.Sold)
}

// profiled does something, under the eye of the profiler if profiles are wanted.
func (b *bench) profiled(name string, do func() error) error {
	if b.profiles == "" {
		return do()
	}
	f, err := os.Create(filepath.Join(b.profiles, name))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close())
	}
	err = do()
	pprof.StopCPUProfile()
	return errors.Join(err, f.Close())
}

// naiveCallers are the crowds of which the naive protocol's best counts.
var naiveCallers = []int{5, 20, 200}

// naiveClaims is what the naive protocol sells to a crowd, and how many Redis
// commands each sold claim cost.
func (b *bench) naiveClaims(ctx context.Context, callers int) (crowd.Result, float64, error) {
	n := naive.New(b.HBase, b.Redis, b.Declared.HBase.Table, b.Fresh("naive"), shards, sales.Plenty)
	before, err := b.commands(ctx)
	if err != nil {
		return crowd.Result{}, 0, err
	}
	c, err := crowd.Call(ctx, crowd.Options{Callers: callers, For: b.each, Most: math.MaxInt64}, func(ctx context.Context, i int64) (bool, error) {
		return n.Claim(ctx, crowd.User(i))
	})
	if err != nil {
		return c, 0, err
	}
	after, err := b.commands(ctx)
	if err != nil {
		return c, 0, err
	}
	return c, float64(after-before) / float64(c.Sold), n.Check(ctx, c.Sold)
}

// soldOut has 2,000 users send two claims each for 1,000 units, and counts what each
// of the two protocols has sold by then.
func (b *bench) soldOut(ctx context.Context, f *figures) error {
	const stock, claims = 1000, 4000
	twice := func(i int64) string { return crowd.User(i / 2) }
	var ours crowd.Result
	sale, err := b.Selling(ctx, stock, shards, func(e *sales.Serving) (err error) {
		ours, err = crowd.Call(ctx, crowd.Options{Callers: 200, For: time.Minute, Most: claims}, e.Claimer(twice))
		return err
	})
	if err != nil {
		return err
	}
	if err := b.Audit(ctx, sale, ours.Sold); err != nil {
		return err
	}
	n := naive.New(b.HBase, b.Redis, b.Declared.HBase.Table, b.Fresh("naive"), shards, stock/shards)
	theirs, err := crowd.Call(ctx, crowd.Options{Callers: 20, For: time.Minute, Most: claims}, func(ctx context.Context, i int64) (bool, error) {
		return n.Claim(ctx, twice(i))
	})
	if err != nil {
		return err
	}
	f.soldOut.Add(float64(ours.Sold), float64(theirs.Sold))
	return n.Check(ctx, theirs.Sold)
}
