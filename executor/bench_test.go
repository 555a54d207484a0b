package executor

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/spec"
)

// openEmbedded opens both files of a new folder.
func openEmbedded(t testing.TB) (ledger.Logs, quorum.Node) {
	t.Helper()
	dir := t.TempDir()
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	node, err := embedded.OpenNode(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
		if err := node.Close(); err != nil {
			t.Error(err)
		}
	})
	return logs, node
}

// BenchmarkClaims is what one process sells: callers that each wait for their
// answer before they ask again.
func BenchmarkClaims(b *testing.B) {
	for _, callers := range []int{200, 2000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			logs, node := openEmbedded(b)
			sale := declared("bench", int64(b.N)+5, 5, 10)
			provision(b, logs, sale, spec.Shares(sale.Stock, 5))
			mark(b, node)
			e := serve(b, logs, node, sale.Name)
			var next atomic.Int64
			var wrong atomic.Int64
			b.ResetTimer()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						a := e.Claim(context.Background(), Request{User: fmt.Sprintf("user-%011d", i), Key: fmt.Sprintf("key-%012d", i), Quantity: 1})
						if a.Outcome != Sold {
							wrong.Add(1)
						}
					}
				})
			}
			all.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "claims/s")
			if wrong.Load() > 0 {
				b.Errorf("%d claims were not sold", wrong.Load())
			}
			slots := int64(0)
			for _, s := range e.Status().Shards {
				slots += int64(s.Slot)
			}
			b.ReportMetric(float64(b.N)/float64(slots), "claims/append")
			runtime.GC()
		})
	}
}
