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

// readTries is how many reads in a row may bring nothing before Load gives up.
// The pauses between them add up to more than a second.
const readTries = 8

// Load reads a log to its end into fold and returns the writer that has done
// so, ready to append. An absent log is no error: Next of fold is 0 then, and
// the writer may create it. A read that fails is repeated a few times. So is
// one whose head and slots do not fit, since a read may lag; in the end that is
// ErrCorrupt.
func Load(ctx context.Context, logs Logs, log string, fold Folder) (*Writer, error) {
	w := NewWriter(log, fold)
	now := clock.System()
	var reply Reply
	idle := 0
	for do := w.CatchUp(); ; {
		switch {
		case do.Event == CaughtUp:
			return w, nil
		case do.Event == Gone:
			return nil, fmt.Errorf("log %s: %w", log, ErrGone)
		case do.Event != Nothing:
			return nil, do.Err
		case do.Send != nil:
			before := fold.Next()
			reply = do.Send.Do(ctx, logs)
			do = w.Done(now(), reply)
			if idle++; fold.Next() != before {
				idle = 0
			}
		case idle >= readTries:
			return nil, stuck(log, fold, reply)
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

// stuck says why a log cannot be read on.
func stuck(log string, fold Folder, last Reply) error {
	if last.Err != nil {
		return fmt.Errorf("reading log %s: %w", log, last.Err)
	}
	head, err := ParseHead(last.Head)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: log %s: it ends before slot %d and its head is that of slot %d: a slot was lost", ErrCorrupt, log, fold.Next(), head.Slot)
}
