// Package appends writes logs as salectl does, with nothing to sell: what the store alone
// can do.
package appends

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/ledger"
	"salectl/spec"
	"salectl/testdata/peers/internal/sales"
)

// Filler makes what is appended to one log: heads as an executor writes them, and one
// entry again and again.
type Filler struct {
	Log   string
	Slot  uint64 // of the next append
	Head  []byte // of the last; nil: none
	Entry []byte
}

// NewFiller makes what is appended to a shard's log of a run.
func NewFiller(uid string, shard, shards int, entry []byte) *Filler {
	return &Filler{Log: spec.ShardLog(uid, shard, shards), Entry: entry}
}

// Next returns the head to be written with the next slot.
func (f *Filler) Next() []byte {
	h := ledger.Head{Slot: f.Slot, Totals: ledger.Totals{
		Generation: 1, Epoch: 1, Owner: "127.0.0.1:1", Phase: ledger.PhaseOpen, Limit: sales.Plenty, Available: sales.Plenty, Sold: 1_000_000,
	}}
	return h.Encode()
}

// Wrote reports that the slot was stored with a head.
func (f *Filler) Wrote(head []byte) { f.Slot, f.Head = f.Slot+1, head }

// Random returns that many bytes that do not compress.
func Random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it cannot fail
	return b
}

// Raw appends entries of a size to the logs of a run for a time, by a loop for each shard,
// and returns how many.
func Raw(ctx context.Context, logs ledger.Logs, uid string, shards, size int, d time.Duration) (int64, error) {
	entry := Random(size)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var appended atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for shard := range shards {
		all.Go(func() {
			for f := NewFiller(uid, shard, shards, entry); time.Since(begin) < d && ctx.Err() == nil; appended.Add(1) {
				head := f.Next()
				if err := logs.Append(ctx, f.Log, f.Slot, f.Head, head, f.Entry); err != nil {
					cancel(fmt.Errorf("a raw append: %w", err))
					return
				}
				f.Wrote(head)
			}
		})
	}
	all.Wait()
	return appended.Load(), context.Cause(ctx)
}
