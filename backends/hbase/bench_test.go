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

	"salectl/backends/ledger"
)

// putter stores an entry, by one library or another.
type putter func(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error

// BenchmarkAppend appends to rows at once, one writer each, in turns with
// gohbase's own CheckAndPut, so that both find the same server.
func BenchmarkAppend(b *testing.B) {
	logs := mustOpen(b)
	client := gohbase.NewClient(mustStandalone(b).Zookeeper(), gohbase.Logger(slog.New(slog.DiscardHandler)))
	defer client.Close()
	bare := putter(func(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
		values := map[string]map[string][]byte{family: {slotName(slot): entry, headCell: head}}
		put, err := hrpc.NewPutStr(ctx, "sales", log, values, timestamp(slot))
		if err != nil {
			return err
		}
		ok, err := client.CheckAndPut(put, family, headCell, prev)
		if err == nil && !ok {
			err = ledger.ErrTaken
		}
		return err
	})
	for range 20 { // the server compiles what it needs
		appendTo(b, logs.Append, 5, 200, 2000)
		appendTo(b, bare, 5, 200, 2000)
	}
	for _, rows := range []int{1, 5} {
		for _, size := range []int{2000, 6000} {
			b.Run(fmt.Sprintf("rows=%d/size=%d", rows, size), func(b *testing.B) {
				var ours, theirs time.Duration
				for left := b.N; left > 0; left -= 500 {
					ours += appendTo(b, logs.Append, rows, min(left, 500), size)
					theirs += appendTo(b, bare, rows, min(left, 500), size)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(b.N)/ours.Seconds(), "appends/s")
				b.ReportMetric(float64(b.N)/theirs.Seconds(), "gohbase/s")
				b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
			})
		}
	}
}

// appendTo appends a number of entries to new logs and returns how long it took.
func appendTo(b *testing.B, put putter, rows, entries, size int) time.Duration {
	b.Helper()
	prefix, entry := newPrefix(), bytes.Repeat([]byte("e"), size)
	var next atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for row := range rows {
		all.Go(func() {
			log := fmt.Sprintf("%02x/%s%d", row*256/rows, prefix, row)
			var prev []byte
			for slot := uint64(0); next.Add(1) <= int64(entries); slot++ {
				ctx, cancel := context.WithTimeout(b.Context(), callTimeout)
				err := put(ctx, log, slot, prev, head(slot), entry)
				cancel()
				if err != nil {
					b.Error(err)
					return
				}
				prev = head(slot)
			}
		})
	}
	all.Wait()
	return time.Since(begin)
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
	for _, from := range []uint64{0, slots / 2, slots - 64, slots} {
		for _, max := range []int{1, 64, 4096} {
			b.Run(fmt.Sprintf("from=%d/max=%d", from, max), func(b *testing.B) {
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

// BenchmarkHeads reads the heads of 1,024 logs, of which one in three exists.
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
