package current

import (
	"context"
	"slices"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
)

// ReadHolds reads when the holds of a sale are released. It returns nil if there are none.
func ReadHolds(ctx context.Context, logs ledger.Logs, actual *planner.Actual) *planner.HoldsActual {
	if !actual.Sale.Live() || !slices.ContainsFunc(actual.Shards, func(s planner.ShardActual) bool { return s.Head != nil && s.Head.Held > 0 }) {
		return nil
	}
	shards, err := ledger.LoadShards(ctx, logs, actual.Sale)
	holds := &planner.HoldsActual{Err: err}
	if _, last, n := planner.HoldTimes(shards); err == nil && n > 0 {
		holds.Last = time.UnixMicro(last)
	}
	return holds
}
