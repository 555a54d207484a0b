package executor

import (
	"fmt"
	"testing"

	"salectl/spec"
)

// BenchmarkGrabs is what one process gives away from lists on one node: callers
// that each wait for their answer before they ask again.
func BenchmarkGrabs(b *testing.B) {
	const shards = 1
	for _, ack := range []spec.Ack{spec.AckRedis, spec.AckLedger} {
		for _, mode := range []struct {
			name string
			args []string
		}{
			{"keeps-nothing", nil},
			{"appendfsync-always", []string{"--appendonly", "yes", "--appendfsync", "always"}},
		} {
			for _, callers := range []int{200, 2000} {
				b.Run(fmt.Sprintf("ack=%s/%s/callers=%d", ack, mode.name, callers), func(b *testing.B) {
					stock := int64(b.N) + int64(shards*callers)
					s := newListSite(b, ack, 1, mode.args, spec.Shares(stock+stock/10, shards)...)
					p := s.serve()
					b.ResetTimer()
					sell(b, p.Executor, callers, b.N)
					b.StopTimer()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "grabs/s")
				})
			}
		}
	}
}
