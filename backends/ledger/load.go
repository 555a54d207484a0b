package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"salectl/backends/clock"
)

// ErrGone says that a log does not exist (any more).
var ErrGone = errors.New("no such log")

// readTries is how often in a row a read of Load may fail.
const readTries = 4

// Load reads a log to its end into fold and returns the writer that has done
// so, ready to append. An absent log is no error: Next of fold is 0 then, and
// the writer may create it. A read that fails is repeated a few times.
func Load(ctx context.Context, logs Logs, log string, fold Folder) (*Writer, error) {
	w := NewWriter(log, fold)
	now := clock.System()
	failures := 0
	for do := w.CatchUp(); ; {
		switch {
		case do.Event == CaughtUp:
			return w, nil
		case do.Event == Gone:
			return nil, fmt.Errorf("log %s: %w", log, ErrGone)
		case do.Event != Nothing:
			return nil, do.Err
		case do.Send != nil:
			reply := do.Send.Do(ctx, logs)
			if reply.Err == nil {
				failures = 0
			} else if failures++; failures == readTries || ctx.Err() != nil {
				return nil, fmt.Errorf("reading log %s: %w", log, reply.Err)
			}
			do = w.Done(now(), reply)
		default:
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("reading log %s: %w", log, ctx.Err())
			case <-time.After(do.Wake - now().Mono):
			}
			do = w.Tick(now())
		}
	}
}
