package events

import (
	"context"

	"golang.org/x/sync/semaphore"

	"salectl/backends/ledger"
)

// maxReads is the limit of concurrent reads by all followers of a sale: fewer than a store permits,
// so that capacity remains for claims.
const maxReads = 2

// Sale is a sale whose ledger can be followed.
type Sale struct {
	name string
	logs ledger.Logs
}

// NewSale returns a Sale, or nil if service has no ledger to follow. An executor.Executor has one.
func NewSale(name string, service any) *Sale {
	followed, ok := service.(interface{ Logs() ledger.Logs })
	if !ok {
		return nil
	}
	return &Sale{name, boundedLogs{followed.Logs(), semaphore.NewWeighted(maxReads)}}
}

// boundedLogs limits the number of concurrent reads.
type boundedLogs struct {
	ledger.Logs
	reads *semaphore.Weighted
}

// Read implements ledger.Logs.
func (bounded boundedLogs) Read(ctx context.Context, log string, from uint64, most int) (head []byte, entries [][]byte, err error) {
	if err := bounded.reads.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	defer bounded.reads.Release(1)
	return bounded.Logs.Read(ctx, log, from, most)
}

// Heads implements ledger.Logs.
func (bounded boundedLogs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := bounded.reads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer bounded.reads.Release(1)
	return bounded.Logs.Heads(ctx, logs)
}
