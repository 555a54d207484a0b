package current

import (
	"context"
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// ReadWhole reads a sale's log and its shards on from where they were read, until they are
// complete: no shard is missing that this log or another shard requires, or lacks entries that this
// log has closed, and the sale's log has every generation taken by a shard, and the ranks of all
// awarded units. Only an export of a complete sale is one of the whole sale. The error names what
// is missing at last.
func ReadWhole(ctx context.Context, logs ledger.Logs, name string, sale *ledger.Sale, shards []*ledger.State) error {
	uid := sale.UID()
	for try := 1; ; try++ {
		if _, err := ledger.Load(ctx, logs, spec.SaleLog(name), sale); err != nil {
			return err
		}
		lacks := ledger.MissingData(sale.Applied(), shards)
		i := slices.IndexFunc(lacks, func(what string) bool { return what != "" })
		lags := slices.ContainsFunc(shards, func(s *ledger.State) bool {
			_, recorded := s.Entries()
			return sale.Behind(s.Totals) || sale.EntriesClosed() != nil && !recorded
		})
		switch {
		case sale.UID() != uid || sale.Destroyed() || readShort(sale, shards):
			return ledger.NoSale{Sale: name, Fate: "is being deleted, its ledger is in the export that destroy wrote"}
		case i < 0 && !lags:
			return nil
		case try == ledger.MissingTries && i < 0:
			return planner.Refuse("a log of sale %s was read without a generation, entries or ranks that another already has: the store answers with old data", name).
				With("Run the command again.")
		case try == ledger.MissingTries:
			return partOf(sale, i, shards[i], lacks[i])
		}
		if err := ledger.Wait(ctx, logs, ledger.MissingPause); err != nil {
			return err
		}
		if err := ledger.ReadOn(ctx, logs, shards); err != nil {
			return err
		}
	}
}

// readShort reports whether shards were read without slots that Sealed counts: before they
// were sealed, or while their logs were deleted. A sale that was never applied may lack all.
func readShort(sale *ledger.Sale, shards []*ledger.State) bool {
	for i, slots := range sale.Sealed().GetSlots() {
		if shards[i].Next() < slots {
			return true
		}
	}
	return false
}

// partOf returns the error for an incomplete shard.
func partOf(sale *ledger.Sale, i int, s *ledger.State, lacks string) error {
	switch head := s.Head(); {
	case s.Next() == 0:
		return planner.DamagedError(sale, i, nil)
	case s.Generation < sale.Applied():
		return planner.DamagedError(sale, i, &head)
	}
	return planner.Refuse("%s %s: a destroy of the sale has not finished", planner.ShardAddress(i), lacks).
		With("Wait until it has, or run 'salectl destroy' again: it exports the sale.")
}

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
