package executor

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/executor/saletest"
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
					ahead := func(sale *spec.Sale, _ *pb.Settings) { sale.Backlog = spec.MaxBacklog }
					s := listSiteAt(b, ack, []string{startRedis(b, mode.args...).Addr()}, ahead, spec.Shares(stock+stock/10, shards)...)
					p := s.serve()
					before := saletest.ProcessorTime(b)
					b.ResetTimer()
					sell(b, p.Executor, callers, b.N)
					b.StopTimer()
					reportProcessorTime(b, before, "grab")
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "grabs/s")
					b.ReportMetric(float64(b.N)/float64(grabsMade(b, p)), "grabs/call")
				})
			}
		}
	}
}

// grabsMade returns how many calls of its one node a process has made to give
// units.
func grabsMade(b *testing.B, p *siteProcess) uint64 {
	var made dto.Metric
	calls := p.metrics.Grab.WithLabelValues(p.cfg.Lists[0].Name()).(prometheus.Histogram)
	if err := calls.Write(&made); err != nil {
		b.Fatal(err)
	}
	return made.GetHistogram().GetSampleCount()
}

// BenchmarkTakeover starts to serve a sale of which a million units were given by lists
// on two nodes: the nodes have kept what they gave, or have come back empty.
func BenchmarkTakeover(b *testing.B) {
	const stock = million + million/5
	s := newListSite(b, spec.AckLedger, 2, nil, spec.Shares(stock, 2)...)
	p := s.serve()
	sell(b, p.Executor, 2000, million)
	take := func(b *testing.B, before func()) {
		for range b.N {
			b.StopTimer()
			if err := p.stop(); err != nil {
				b.Fatal(err)
			}
			before()
			b.StartTimer()
			p = s.serve()
		}
		b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/takeover")
	}
	b.Run("kept", func(b *testing.B) { take(b, func() {}) })
	b.Run("empty", func(b *testing.B) {
		take(b, func() {
			_, kept := s.connect()
			for shard, node := range kept {
				if err := node.Forget(b.Context(), lists.List{UID: saletest.UID, Shard: shard}); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}
