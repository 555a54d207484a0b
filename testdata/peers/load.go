package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/spec"
	"salectl/testdata/peers/internal/appends"
	"salectl/testdata/peers/internal/crowd"
	"salectl/testdata/peers/internal/sales"
)

// The large sale.
const (
	largeClaims = 1_000_000
	largeShards = 64
	largeCommit = 100 // claims
)

// load is how long the large sale takes.
type load struct {
	serve time.Duration // until a new process that opens its stores can sell it
	read  time.Duration // for its logs to be read and thrown away
}

func (b *bench) load(ctx context.Context) (l load, err error) {
	if b.large == "" {
		if b.large, err = b.storeLarge(ctx); err != nil {
			return l, err
		}
	}
	if l.read, err = b.readLarge(ctx); err != nil {
		return l, err
	}
	sale := b.Declared
	sale.Name = b.large
	begin := time.Now()
	store, err := backends.Open(sale, sales.Quiet)
	if err != nil {
		return l, err
	}
	defer store.Close()
	e, err := sales.Serve(ctx, store, b.large)
	if err != nil {
		return l, err
	}
	l.serve = time.Since(begin)
	return l, e.Stop()
}

// storeLarge makes the large sale: applied as any other, its claims written into
// the shards' logs as an owner would. It takes a little more stock than claims,
// since the users' hashes do not spread quite evenly.
func (b *bench) storeLarge(ctx context.Context) (string, error) {
	name, err := b.Apply(ctx, largeClaims*11/10, largeShards)
	if err != nil {
		return "", err
	}
	sale := ledger.NewSale(spec.SaleLog(name))
	if _, err := ledger.Load(ctx, b.Store.Logs, spec.SaleLog(name), sale); err != nil {
		return "", err
	}
	buyers := make([][]string, largeShards)
	for i := range int64(largeClaims) {
		home := spec.HomeShard(crowd.User(i), largeShards)
		buyers[home] = append(buyers[home], crowd.User(i))
	}
	group, storing := errgroup.WithContext(ctx)
	for shard, buyers := range buyers {
		group.Go(func() error {
			return storeShard(storing, b.Store.Logs, spec.ShardLog(sale.UID(), shard, largeShards), buyers)
		})
	}
	if err := group.Wait(); err != nil {
		return "", err
	}
	return name, b.Audit(ctx, name, largeClaims)
}

// storeShard sells a unit to each buyer.
func storeShard(ctx context.Context, logs ledger.Logs, log string, buyers []string) error {
	state := ledger.NewState(log)
	w, err := ledger.Load(ctx, logs, log, state)
	if err != nil {
		return err
	}
	now := clock.System()
	d := state.Draft(appends.Random(8), now().Wall.UnixMicro())
	d.Own("127.0.0.1:1")
	for at := 0; ; at += largeCommit {
		if err := commit(ctx, logs, w, state, d); err != nil {
			return fmt.Errorf("%s: %w", log, err)
		}
		if at >= len(buyers) {
			return nil
		}
		d.Reset(now().Wall.UnixMicro())
		for i, user := range buyers[at:min(at+largeCommit, len(buyers))] {
			if v := d.Claim(user, crowd.Key(int64(at+i)), 1); v.Kind != ledger.Granted {
				return fmt.Errorf("%s: a claim was not granted", log)
			}
		}
	}
}

// commit appends a draft to a log that nobody else writes to.
func commit(ctx context.Context, logs ledger.Logs, w *ledger.Writer, state *ledger.State, d *ledger.Draft) error {
	e, err := d.Encode()
	if err != nil {
		return err
	}
	now := clock.System()
	do := w.Append(e)
	for do.Send != nil {
		do = w.Done(now(), do.Send.Do(ctx, logs))
	}
	if do.Event != ledger.Committed {
		return errors.Join(errors.New("an append did not succeed"), do.Err)
	}
	return state.Apply(e.Commit, e.Hash, len(e.Bytes))
}

// readLarge reads the shards' logs of the large sale, all at the same time and as
// many slots at once as an executor does.
func (b *bench) readLarge(ctx context.Context) (time.Duration, error) {
	name := spec.SaleLog(b.large)
	sale := ledger.NewSale(name)
	if _, err := ledger.Load(ctx, b.Store.Logs, name, sale); err != nil {
		return 0, err
	}
	begin := time.Now()
	group, reading := errgroup.WithContext(ctx)
	for shard := range largeShards {
		group.Go(func() error {
			const atOnce = 64
			log := spec.ShardLog(sale.UID(), shard, largeShards)
			for from, last := uint64(0), uint64(0); from <= last; {
				stored, entries, err := b.Store.Logs.Read(reading, log, from, atOnce)
				if err != nil {
					return err
				}
				head, err := ledger.ParseHead(stored)
				if err != nil || len(entries) == 0 {
					return errors.Join(fmt.Errorf("%s cannot be read from slot %d on", log, from), err)
				}
				from, last = from+uint64(len(entries)), head.Slot
			}
			return nil
		})
	}
	err := group.Wait()
	return time.Since(begin), err
}
