package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"salectl/backends/ledger"
	"salectl/spec"
	"salectl/testdata/peers/internal/naive"
	"salectl/testdata/peers/internal/sales"
)

// filler makes what is appended to one log by whoever has nothing to sell: heads
// as an executor writes them, and one entry again and again.
type filler struct {
	log   string
	slot  uint64 // of the next append
	head  []byte // of the last; nil: none
	entry []byte
}

func newFiller(uid string, shard int, entry []byte) *filler {
	return &filler{log: spec.ShardLog(uid, shard, shards), entry: entry}
}

// next returns the head to be written with the next slot.
func (f *filler) next() []byte {
	h := ledger.Head{Slot: f.slot, Totals: ledger.Totals{
		Generation: 1, Epoch: 1, Owner: "127.0.0.1:1", Phase: ledger.PhaseOpen, Limit: sales.Plenty / shards, Available: sales.Plenty / shards, Sold: 1_000_000,
	}}
	return h.Encode()
}

// wrote says that the slot was stored with a head.
func (f *filler) wrote(head []byte) { f.slot, f.head = f.slot+1, head }

// random returns that many bytes that do not compress.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it cannot fail
	return b
}

// rawAppends returns how many appends a second the executor's own driver takes
// from a loop for each shard, with entries of a size.
func (b *bench) rawAppends(ctx context.Context, size int) (float64, error) {
	uid, entry := b.Fresh("raw"), random(size)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var appended atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for shard := range shards {
		all.Go(func() {
			for f := newFiller(uid, shard, entry); time.Since(begin) < b.each && ctx.Err() == nil; appended.Add(1) {
				head := f.next()
				if err := b.Store.Logs.Append(ctx, f.log, f.slot, f.head, head, f.entry); err != nil {
					cancel(fmt.Errorf("a raw append: %w", err))
					return
				}
				f.wrote(head)
			}
		})
	}
	all.Wait()
	return float64(appended.Load()) / time.Since(begin).Seconds(), context.Cause(ctx)
}

// bare appends by gohbase alone, with no driver of ours between.
type bare struct {
	client gohbase.Client
	table  string
	rows   []*filler
}

func (b *bench) newBare(size int) *bare {
	r := &bare{client: b.HBase, table: b.Declared.HBase.Table}
	uid, entry := b.Fresh("bare"), random(size)
	for shard := range shards {
		r.rows = append(r.rows, newFiller(uid, shard, entry))
	}
	return r
}

// put is one CheckAndPut.
func (r *bare) put(ctx context.Context, shard int) error {
	f := r.rows[shard]
	head := f.next()
	put, err := hrpc.NewPutStr(ctx, r.table, f.log, map[string]map[string][]byte{
		naive.Family: {fmt.Sprintf("e%016x", f.slot): f.entry, "h": head},
	}, hrpc.TimestampUint64(f.slot+1))
	if err != nil {
		return err
	}
	switch ok, err := r.client.CheckAndPut(put, naive.Family, "h", f.head); {
	case err != nil:
		return err
	case !ok:
		return errors.New("a bare CheckAndPut found another head than it had written")
	}
	f.wrote(head)
	return nil
}
