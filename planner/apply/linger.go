package apply

import (
	"context"
	"time"

	"salectl/backends/ledger"
)

// lingering returns an Exporter that waits after the export. By then all shards are sealed and
// nothing is deleted, so followers of the sale can read the last slots.
func lingering(export Exporter, wait time.Duration) Exporter {
	return func(ctx context.Context, logs ledger.Logs, e *Export) (string, []byte, error) {
		path, digest, err := export(ctx, logs, e)
		if err != nil {
			return path, digest, err
		}
		select {
		case <-time.After(wait):
			return path, digest, nil
		case <-ctx.Done():
			return path, digest, context.Cause(ctx)
		}
	}
}
