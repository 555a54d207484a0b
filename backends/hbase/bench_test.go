package hbase

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

// BenchmarkAppend appends to rows at once, one writer each, beside gohbase's
// own CheckAndPut doing the same.
func BenchmarkAppend(b *testing.B) {
	for _, rows := range []int{1, 5} {
		for _, size := range []int{2000, 6000} {
			entry := bytes.Repeat([]byte("e"), size)
			run := func(b *testing.B, put func(log string, slot uint64, prev, head []byte) error) {
				prefix := newPrefix()
				b.SetBytes(int64(size))
				var next atomic.Int64
				var all sync.WaitGroup
				for row := range rows {
					all.Go(func() {
						log := fmt.Sprintf("%s%d", prefix, row)
						var prev []byte
						for slot := uint64(0); next.Add(1) <= int64(b.N); slot++ {
							head := fmt.Appendf(nil, `{"slot":%d,"writer":"bench"}`, slot)
							if err := put(log, slot, prev, head); err != nil {
								b.Error(err)
								return
							}
							prev = head
						}
					})
				}
				all.Wait()
			}
			b.Run(fmt.Sprintf("rows=%d/size=%d/salectl", rows, size), func(b *testing.B) {
				logs := mustOpen(b)
				warm(b, logs)
				b.ResetTimer()
				run(b, func(log string, slot uint64, prev, head []byte) error {
					ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
					defer cancel()
					return logs.Append(ctx, log, slot, prev, head, entry)
				})
			})
			b.Run(fmt.Sprintf("rows=%d/size=%d/gohbase", rows, size), func(b *testing.B) {
				warm(b, mustOpen(b))
				client := gohbase.NewClient(mustStandalone(b).Zookeeper(), gohbase.Logger(slog.New(slog.DiscardHandler)))
				defer client.Close()
				put := func(log string, slot uint64, prev, head []byte) error {
					ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
					defer cancel()
					values := map[string]map[string][]byte{"s": {fmt.Sprintf("e%016x", slot): entry, "h": head}}
					p, err := hrpc.NewPut(ctx, []byte("sales"), []byte(log), values, hrpc.TimestampUint64(slot+1))
					if err != nil {
						return err
					}
					if ok, err := client.CheckAndPut(p, "s", "h", prev); err != nil || !ok {
						return fmt.Errorf("%v, %w", ok, err)
					}
					return nil
				}
				if err := put(newPrefix(), 0, nil, []byte("head")); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				run(b, put)
			})
		}
	}
}

// warm makes a handle know all regions, and HBase compile what it needs.
func warm(b *testing.B, logs *Logs) {
	b.Helper()
	prefix := newPrefix()
	for i := range 256 {
		if err := logs.Append(b.Context(), fmt.Sprintf("%02x/%s", i, prefix), 0, nil, []byte("head"), []byte("entry")); err != nil {
			b.Fatal(err)
		}
	}
}

// fillLog stores slots quickly, without the protocol.
func fillLog(b testing.TB, logs *Logs, log string, slots, size int) {
	b.Helper()
	atOnce := max(1, min(slots, 500_000/size))
	for from := 0; from < slots; from += atOnce {
		cells := make(map[string][]byte)
		for slot := from; slot < min(slots, from+atOnce); slot++ {
			cells[slotName(uint64(slot))] = bytes.Repeat([]byte{byte(slot)}, size)
		}
		cells[headCell] = fmt.Appendf(nil, `{"slot":%d}`, slots-1)
		put, err := hrpc.NewPut(b.Context(), logs.regions.table, []byte(log), map[string]map[string][]byte{family: cells}, timestamp(uint64(from)))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := logs.once(b.Context(), wholeDelete{put}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadPage reads 64 slots of a log that has 300,000.
func BenchmarkReadPage(b *testing.B) {
	logs := mustOpen(b)
	const slots = 300_000
	log := newPrefix() + "long"
	fillLog(b, logs, log, slots, 100)
	for name, from := range map[string]uint64{"begin": 0, "middle": slots / 2, "end": slots - 64, "beyond": slots} {
		for _, max := range []int{1, 64, 4096} {
			b.Run(fmt.Sprintf("%s/max=%d", name, max), func(b *testing.B) {
				for range b.N {
					head, entries, err := logs.Read(b.Context(), log, from, max)
					if err != nil || head == nil || from < slots && len(entries) != min(max, slots-int(from)) {
						b.Fatal(len(entries), err)
					}
				}
			})
		}
	}
}

// BenchmarkLoad reads 10,000 slots of 7 KB from 64 logs at once, 64 at a time.
func BenchmarkLoad(b *testing.B) {
	logs := mustOpen(b)
	const rows, slots = 64, 10_000 / 64
	prefix := newPrefix()
	name := func(row int) string { return fmt.Sprintf("%02x/%s%d", row*256/rows, prefix, row) }
	for row := range rows {
		fillLog(b, logs, name(row), slots, 7000)
	}
	b.ResetTimer()
	for range b.N {
		var all sync.WaitGroup
		for row := range rows {
			all.Go(func() {
				for from := 0; from < slots; {
					_, entries, err := logs.Read(b.Context(), name(row), uint64(from), 64)
					if err != nil || len(entries) == 0 {
						b.Error(len(entries), err)
						return
					}
					from += len(entries)
				}
			})
		}
		all.Wait()
	}
}

// BenchmarkHeads asks for the heads of 1,024 logs, one of each three there.
func BenchmarkHeads(b *testing.B) {
	logs := mustOpen(b)
	prefix := newPrefix()
	var names []string
	for i := range 1024 {
		names = append(names, fmt.Sprintf("%02x/%s%d", i/4, prefix, i))
		if i%3 == 0 {
			fillLog(b, logs, names[i], 1, 100)
		}
	}
	b.ResetTimer()
	for range b.N {
		heads, err := logs.Heads(b.Context(), names)
		if err != nil || heads[0] == nil || heads[1] != nil {
			b.Fatal(err)
		}
	}
}
