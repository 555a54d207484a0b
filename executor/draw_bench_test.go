package executor

import (
	"fmt"
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
)

// BenchmarkEntries is how many entries to a draw one process takes in: beside plain claims in
// the same run, of which it is a ratio.
func BenchmarkEntries(b *testing.B) {
	for _, callers := range []int{200, 2000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			plain := paidSale(b, int64(b.N+5*callers), 0)
			drawn := benchSale(b, 100, &pb.Settings{
				PerUserLimit: 1, Phase: pb.Phase_OPEN, Draw: true, ClosesAtUs: time.Now().Add(time.Hour).UnixMicro(),
			})
			n, claims, entries := inTurn(b, callers, plain, drawn, api.Entered)
			b.ReportMetric(n/entries.Seconds(), "entries/s")
			b.ReportMetric(n/claims.Seconds(), "claims/s")
			b.ReportMetric(claims.Seconds()/entries.Seconds(), "ratio")
		})
	}
}
