package embedded

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// claimBytes is about what an accepted claim takes in an entry.
const claimBytes = 80

// BenchmarkAppend appends to five logs at once, each waiting for its append
// before the next, as the sequencers of five shards do. It is the raw figure
// that claims per second are held against: appends/s times claims.
func BenchmarkAppend(b *testing.B) {
	for _, logs := range []int{1, 5, 64} {
		for _, claims := range []int{1, 40, 400} {
			b.Run(fmt.Sprintf("logs=%d/claims=%d", logs, claims), func(b *testing.B) {
				benchmarkAppend(b, mustOpenLogs(b, b.TempDir()), logs, claims*claimBytes)
			})
		}
	}
}

func benchmarkAppend(b *testing.B, store *Logs, logs, size int) {
	entry := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(entry)
	heads := make([][]byte, logs)
	for i := range heads {
		heads[i] = benchHead(0)
		if err := store.Append(b.Context(), benchLog(i), 0, nil, heads[i], entry); err != nil {
			b.Fatal(err)
		}
	}
	waits := make([][]time.Duration, logs)
	b.SetBytes(int64(size))
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range logs {
		appends := b.N / logs
		if i < b.N%logs {
			appends++
		}
		all.Go(func() {
			for slot := uint64(1); slot <= uint64(appends); slot++ {
				head, begin := benchHead(slot), time.Now()
				if err := store.Append(b.Context(), benchLog(i), slot, heads[i], head, entry); err != nil {
					b.Error(err)
					return
				}
				heads[i], waits[i] = head, append(waits[i], time.Since(begin))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	reportWaits(b, slices.Concat(waits...))
}

func benchLog(i int) string { return fmt.Sprintf("%02x/0123456789abcdef/%d", i, i) }

// benchHead is as large as a real one.
func benchHead(slot uint64) []byte {
	return fmt.Appendf(nil, `{"slot":%d,"hash":"%064d","generation":1,"epoch":1,"owner":"127.0.0.1:8080","phase":"open","limit":20000,"available":10000,"held":0,"sold":10000,"inFlight":0}`, slot, slot)
}

func reportWaits(b *testing.B, waits []time.Duration) {
	slices.Sort(waits)
	for _, q := range []struct {
		name string
		at   int
	}{{"p50-us", len(waits) / 2}, {"p99-us", len(waits) * 99 / 100}, {"max-us", len(waits) - 1}} {
		b.ReportMetric(float64(waits[q.at].Microseconds()), q.name)
	}
}

// BenchmarkRead reads a log of 2,000 slots of 100 claims in pages, as a start
// of serve does.
func BenchmarkRead(b *testing.B) {
	const slots, page = 2000, 500
	store := mustOpenLogs(b, b.TempDir())
	entry, head := make([]byte, 100*claimBytes), []byte(nil)
	for slot := range uint64(slots) {
		if err := store.Append(b.Context(), "log", slot, head, benchHead(slot), entry); err != nil {
			b.Fatal(err)
		}
		head = benchHead(slot)
	}
	b.SetBytes(int64(slots * len(entry)))
	for b.Loop() {
		for from := uint64(0); from < slots; from += page {
			if _, entries, err := store.Read(b.Context(), "log", from, page); err != nil || len(entries) != page {
				b.Fatalf("%d entries, %v", len(entries), err)
			}
		}
	}
}

// BenchmarkVote renews the leases of all shards of a sale.
func BenchmarkVote(b *testing.B) {
	for _, shards := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			node := mustOpenNode(b, b.TempDir(), time.Now)
			info, err := node.Info(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := node.Mark(b.Context(), "marker", info.RunID); err != nil {
				b.Fatal(err)
			}
			ballot := quorum.Ballot{Marker: "marker", TTL: quorum.MaxTTL}
			for i := range shards {
				ballot.Requests = append(ballot.Requests, quorum.LeaseRequest{Key: fmt.Sprintf("salectl:0123456789abcdef:shard:%d", i), Token: "0123456789abcdef", Note: "127.0.0.1:8080 17"})
			}
			for b.Loop() {
				if count, err := node.Vote(b.Context(), ballot); err != nil || !count.Yes[0] {
					b.Fatalf("%v, %v", count, err)
				}
			}
		})
	}
}
