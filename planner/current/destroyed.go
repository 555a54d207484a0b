package current

import (
	"context"
	"fmt"

	"salectl/backends/ledger"
	"salectl/planner"
)

// ReadLedger folds the shards of a sale to plan its destroy. It returns nil unless that EndsByLedger.
func ReadLedger(ctx context.Context, logs ledger.Logs, actual *planner.Actual) *planner.LedgerActual {
	if !actual.EndsByLedger() {
		return nil
	}
	for i, s := range actual.Shards {
		if s.Err != nil { // a read would be retried for long
			return &planner.LedgerActual{Err: fmt.Errorf("%s: %w", planner.ShardAddress(i), s.Err)}
		}
	}
	shards, err := ledger.LoadShards(ctx, logs, actual.Sale)
	return &planner.LedgerActual{Shards: shards, Err: err}
}
