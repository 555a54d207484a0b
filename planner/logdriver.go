package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"salectl/backends/ledger"
)

// logDriver drives one log through its ledger.Writer. read and append continue with CaughtUp,
// Committed, Taken, Gone or Again; all other outcomes end the machine.
type logDriver struct {
	core  *core
	w     *ledger.Writer
	apply func(*ledger.Entry) error
	sent  *ledger.Entry
	// ends returns, after each reply, why the log as read so far ends the machine; the log may
	// have more slots. Nil: its content never ends the machine.
	ends func() error
	// For a log that is only read, for people: the permitted number of consecutive reads
	// without progress, and the function that receives the failure. With 0 and nil, patience
	// decides, and a failure ends the machine.
	tries  int
	failed func(error)
	fold   ledger.Folder
	next   uint64       // end of the last read
	idle   int          // reads without progress since
	last   ledger.Reply // of the last read

	then func(ledger.Event)

	began   time.Duration    // monotonic: begin of the current operation
	failing [3]time.Duration // since when calls of a kind fail; 0: they do not
}

// maxLag is how long successful reads may not reach the end of a log: then its store answers
// with stale data.
const maxLag = time.Minute

func (t *logDriver) read(then func(ledger.Event)) {
	t.begin(then)
	t.run(t.w.CatchUp())
}

func (t *logDriver) append(e *ledger.Entry, then func(ledger.Event)) {
	t.begin(then)
	t.sent = e
	t.run(t.w.Append(e))
}

// resend repeats a create, after Again.
func (t *logDriver) resend(then func(ledger.Event)) {
	t.begin(then)
	t.run(t.w.Resend())
}

func (t *logDriver) fail(err error) {
	if t.failed != nil {
		t.failed(err)
		return
	}
	t.core.end(err)
}

func (t *logDriver) begin(then func(ledger.Event)) { t.then, t.began = then, t.core.now.Mono }

func (t *logDriver) run(do ledger.Do) {
	switch {
	case do.Event == ledger.Damaged:
		t.fail(do.Err)
	case do.Event == ledger.TooLarge:
		t.fail(fmt.Errorf("log %s: %w", t.w.Log(), ledger.ErrTooLarge))
	case do.Event == ledger.Committed:
		t.core.changed = true
		if err := t.apply(t.sent); err != nil {
			t.fail(err)
			return
		}
		t.then(do.Event)
	case do.Event != ledger.Nothing:
		t.then(do.Event)
	case do.Send != nil:
		request := do.Send
		make := func(ctx context.Context, logs ledger.Logs) (ledger.Reply, error) {
			r := request.Do(ctx, logs)
			return r, r.Err
		}
		onStore(t.core, t.name(request), callTimeout, make, func(r ledger.Reply, err error) {
			r.Err = err
			if !t.bears(request.Kind, err) {
				return
			}
			do := t.w.Done(t.core.now, r)
			t.count(r)
			if t.ends != nil {
				if err := t.ends(); err != nil {
					t.core.end(err)
					return
				}
			}
			t.run(do)
		})
	case t.tries > 0 && t.idle >= t.tries:
		t.fail(storeError(ledger.Stuck(t.w.Log(), t.fold, t.last)))
	case t.core.now.Mono-t.began > maxLag:
		t.fail(fmt.Errorf("%w: log %s could not be read to its end for %v, it answers from the past", ErrStore, t.w.Log(), maxLag))
	default:
		t.core.at(do.Wake, func() { t.run(t.w.Tick(t.core.now)) })
	}
}

// count records whether a read made progress.
func (t *logDriver) count(r ledger.Reply) {
	if t.tries == 0 {
		return
	}
	t.last = r
	if t.idle++; t.fold.Next() != t.next {
		t.next, t.idle = t.fold.Next(), 0
	}
}

// bears reports whether to continue after a reply. A Writer retries for ever, which is right
// for a server. A person must learn that the disk is full, and at once that reads or writes
// are not permitted. For a log that is only read, idle bounds other failures.
func (t *logDriver) bears(kind ledger.RequestKind, err error) bool {
	now := max(t.core.now.Mono, 1)
	switch {
	case err == nil || errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrTooLarge):
		t.failing[kind] = 0
	case errors.Is(err, fs.ErrPermission):
		t.fail(fmt.Errorf("%w: log %s: %w", ErrStore, t.w.Log(), err))
		return false
	case t.tries > 0:
	case t.failing[kind] == 0:
		t.failing[kind] = now
	case now-t.failing[kind] > t.core.patience:
		t.fail(fmt.Errorf("%w, tried for %v: log %s: %w", ErrStore, t.core.patience, t.w.Log(), err))
		return false
	}
	return true
}

// storeError wraps a read error in ErrStore, unless the log is corrupt.
func storeError(err error) error {
	if errors.Is(err, ledger.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// readHeads reads the heads of logs until that succeeds or patience runs out.
func (c *core) readHeads(logs []string, then func([][]byte)) {
	retry(c, "the heads of the shards", "read heads", func(ctx context.Context, from ledger.Logs) ([][]byte, error) { return from.Heads(ctx, logs) }, then)
}

// deleteLog deletes a log up to a slot, like readHeads.
func (c *core) deleteLog(log string, upTo uint64, then func()) {
	retry(c, "log "+log, "delete", noValue(func(ctx context.Context, from ledger.Logs) error { return from.Delete(ctx, log, upTo) }), func(any) { then() })
}
