package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"salectl/testdata/peers/internal/appends"
	"salectl/testdata/peers/internal/naive"
)

// rawAppends returns how many appends a second the executor's own driver takes
// from a loop for each shard, with entries of a size.
func (b *bench) rawAppends(ctx context.Context, size int) (float64, error) {
	begin := time.Now()
	n, err := appends.Raw(ctx, b.Store.Logs, b.Fresh("raw"), shards, size, b.each)
	return float64(n) / time.Since(begin).Seconds(), err
}

// bare appends by gohbase alone, with no driver of ours between.
type bare struct {
	client gohbase.Client
	table  string
	rows   []*appends.Filler
}

func (b *bench) newBare(size int) *bare {
	r := &bare{client: b.HBase, table: b.Declared.HBase.Table}
	uid, entry := b.Fresh("bare"), appends.Random(size)
	for shard := range shards {
		r.rows = append(r.rows, appends.NewFiller(uid, shard, shards, entry))
	}
	return r
}

// put is one CheckAndPut.
func (r *bare) put(ctx context.Context, shard int) error {
	f := r.rows[shard]
	head := f.Next()
	put, err := hrpc.NewPutStr(ctx, r.table, f.Log, map[string]map[string][]byte{
		naive.Family: {fmt.Sprintf("e%016x", f.Slot): f.Entry, "h": head},
	}, hrpc.TimestampUint64(f.Slot+1))
	if err != nil {
		return err
	}
	switch ok, err := r.client.CheckAndPut(put, naive.Family, "h", f.Head); {
	case err != nil:
		return err
	case !ok:
		return errors.New("a bare CheckAndPut found another head than it had written")
	}
	f.Wrote(head)
	return nil
}
