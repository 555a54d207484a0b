package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// openEmbedded opens both files of a new folder.
func openEmbedded(t testing.TB) (ledger.Logs, quorum.Node) {
	t.Helper()
	return openEmbeddedAt(t, t.TempDir(), embedded.ThisHost())
}

// sell has callers claim one unit after the other, n in all, each waiting for its
// answer. Users and keys have 16 bytes.
func sell(b *testing.B, e *Executor, callers, n int) {
	b.Helper()
	var next, wrong atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				r := Request{User: fmt.Sprintf("user-%011d", i), Key: fmt.Sprintf("key-%012d", i), Quantity: 1}
				if a := e.Do(context.Background(), r); a.Outcome != api.Sold {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	if wrong.Load() > 0 {
		b.Errorf("%d claims were not sold", wrong.Load())
	}
}

// reportProcessorTime reports what each of b.N operations took of the processors, that of
// its callers and of all else in this process included.
func reportProcessorTime(b *testing.B, before time.Duration, operation string) {
	b.Helper()
	took := saletest.ProcessorTime(b) - before
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "cpu-ns/"+operation)
}

// written returns how many slots and bytes the logs of the shards have.
func written(e *Executor) (slots int, bytes int64) {
	for _, s := range e.Status().Shards {
		slots += int(s.Next)
		bytes += s.Bytes
	}
	return slots, bytes
}

// BenchmarkClaims is what one process sells: callers that each wait for their
// answer before they ask again. Beside it stands the raw figure: what the same
// store takes in appends of the same size, and the ratio of the two.
func BenchmarkClaims(b *testing.B) {
	const shards = 5
	for _, callers := range []int{200, 2000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			logs, node := openEmbedded(b)
			sale := saletest.Declared("bench", int64(b.N)+shards*int64(callers), shards, 10)
			saletest.Provision(b, logs, sale, spec.Shares(sale.Stock, shards))
			saletest.Mark(b, node)
			e := serve(b, logs, node, sale.Name)
			slotsBefore, bytesBefore := written(e)
			before := saletest.ProcessorTime(b)
			b.ResetTimer()
			sell(b, e, callers, b.N)
			b.StopTimer()
			reportProcessorTime(b, before, "claim")
			slots, bytes := written(e)
			slots, bytes = slots-slotsBefore, bytes-bytesBefore
			perAppend := float64(b.N) / float64(slots)
			sold := float64(b.N) / b.Elapsed().Seconds()
			raw := perAppend * rawAppends(b, shards, slots, int(bytes)/slots)
			b.ReportMetric(sold, "claims/s")
			b.ReportMetric(perAppend, "claims/append")
			b.ReportMetric(raw, "raw-claims/s")
			b.ReportMetric(sold/raw, "ratio")
		})
	}
}

// rawAppends returns how many appends of a size a new store takes a second from
// that many writers, each with a log of its own.
func rawAppends(b *testing.B, writers, appends, size int) float64 {
	b.Helper()
	logs, _ := openEmbedded(b)
	entry := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(entry)
	each := appends/writers + 1
	begin := time.Now()
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			var head []byte
			for slot := range uint64(each) {
				next := ledger.Head{Slot: slot, Totals: ledger.Totals{Generation: 1, Epoch: 1, Owner: "127.0.0.1:1", Phase: ledger.PhaseOpen, Limit: 1 << 20}}.Encode()
				if err := logs.Append(context.Background(), spec.ShardLog(saletest.UID, i, writers), slot, head, next, entry); err != nil {
					b.Error(err)
					return
				}
				head = next
			}
		})
	}
	all.Wait()
	return float64(each*writers) / time.Since(begin).Seconds()
}

// BenchmarkRefusals asks after the last unit, from all processors at once.
func BenchmarkRefusals(b *testing.B) {
	const shards = 5
	logs, node := openEmbedded(b)
	sale := saletest.Declared("bench", shards, shards, 1)
	saletest.Provision(b, logs, sale, spec.Shares(sale.Stock, shards))
	saletest.Mark(b, node)
	e := serve(b, logs, node, sale.Name)
	for i := 0; e.Do(b.Context(), Request{User: fmt.Sprint("first-", i), Quantity: 1}).Outcome != api.SoldOut; i++ {
	}
	users := make([]string, 1<<12)
	for i := range users {
		users[i] = fmt.Sprintf("user-%011d", i)
	}
	b.ReportAllocs()
	b.SetParallelism(4) // many more that never rest would keep the lease from being renewed
	var wrong atomic.Int64
	before := saletest.ProcessorTime(b)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for i := 0; p.Next(); i++ {
			a := e.Do(context.Background(), Request{User: users[i%len(users)], Key: "key-000000000001", Quantity: 1})
			if a.Outcome != api.SoldOut {
				wrong.Add(1)
			}
		}
	})
	b.StopTimer()
	reportProcessorTime(b, before, "refusal")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "refusals/s")
	if wrong.Load() > 0 {
		b.Errorf("%d claims had another answer", wrong.Load())
	}
}

// million is how many claims a large sale has.
const million = 1_000_000

// heap returns the bytes in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkMemory is what an accepted claim leaves in memory.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		logs, node := openEmbedded(b)
		sale := saletest.Declared("bench", million+10_000, 5, 1)
		saletest.Provision(b, logs, sale, spec.Shares(sale.Stock, 5))
		saletest.Mark(b, node)
		e := serve(b, logs, node, sale.Name)
		before := heap()
		sell(b, e, 2000, million)
		b.ReportMetric(float64(heap()-before)/million, "B/claim")
		runtime.KeepAlive(e)
	}
}

// farLogs are logs on a server: each read takes 5 ms more and ends with the entry
// that makes it a megabyte.
type farLogs struct{ ledger.Logs }

func (l farLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	time.Sleep(5 * time.Millisecond) // that a server takes is what is measured
	head, entries, err := l.Logs.Read(ctx, log, from, max)
	bytes := 0
	for i, e := range entries {
		if bytes += len(e); bytes >= 1<<20 {
			return head, entries[:i+1], err
		}
	}
	return head, entries, err
}

// BenchmarkLoad starts to serve a sale of a million claims, 100 a slot, on 64
// shards and on 5, whose store is in this process or on a server.
func BenchmarkLoad(b *testing.B) {
	for _, shards := range []int{64, 5} {
		logs, node := openEmbedded(b)
		sale := storeClaims(b, logs, million, shards)
		saletest.Mark(b, node)
		b.Run(fmt.Sprintf("near/shards=%d", shards), func(b *testing.B) { load(b, logs, node, sale) })
		b.Run(fmt.Sprintf("far/shards=%d", shards), func(b *testing.B) { load(b, farLogs{logs}, node, sale) })
	}
}

func load(b *testing.B, logs ledger.Logs, node quorum.Node, sale spec.Sale) {
	for range b.N {
		e := New(Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: sale.Name, Address: "127.0.0.1:1"})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		wait.UntilNil(b, "the process", e.Ready)
		b.StopTimer()
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/load")
}

// storeClaims fills logs with a sale of n claims that are all sold, 100 a slot.
func storeClaims(b *testing.B, logs ledger.Logs, n, shards int) spec.Sale {
	b.Helper()
	buyers, shares := make([][]string, shards), make([]int64, shards)
	for i := range n {
		user := fmt.Sprintf("user-%011d", i)
		home := spec.HomeShard(user, shards)
		buyers[home] = append(buyers[home], user)
		shares[home]++
	}
	sale := saletest.Declared("bench", int64(n), shards, 1)
	saletest.Provision(b, logs, sale, shares)
	var all sync.WaitGroup
	for shard := range shards {
		all.Go(func() {
			if err := storeShard(logs, spec.ShardLog(saletest.UID, shard, shards), buyers[shard]); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	return sale
}

// storeShard sells a unit to each buyer.
func storeShard(logs ledger.Logs, log string, buyers []string) error {
	state := ledger.NewState(log)
	w, err := ledger.Load(context.Background(), logs, log, state)
	if err != nil {
		return err
	}
	now := clock.System()()
	commit := func(d *ledger.Draft) error {
		e, err := d.Encode()
		if err != nil {
			return err
		}
		if do := w.Done(now, w.Append(e).Send.Do(context.Background(), logs)); do.Event != ledger.Committed {
			return fmt.Errorf("event %d, %w", do.Event, do.Err)
		}
		return state.Apply(e.Commit, e.Hash, len(e.Bytes))
	}
	d := state.Draft([]byte("seller-1"), saletest.PlannedUs)
	d.Own("127.0.0.1:1")
	if err := commit(d); err != nil {
		return err
	}
	for at := 0; at < len(buyers); at += 100 {
		d.Reset(saletest.PlannedUs)
		for i, user := range buyers[at:min(at+100, len(buyers))] {
			if v := d.Claim(user, fmt.Sprintf("key-%012d", at+i), 1); v.Kind != ledger.Granted {
				return errors.New("a claim was not granted")
			}
		}
		if err := commit(d); err != nil {
			return err
		}
	}
	return nil
}
