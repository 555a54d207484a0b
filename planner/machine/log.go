package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
)

// Log drives one log through its ledger.Writer. read and append continue with CaughtUp,
// Committed, Taken, Gone or Again; all other outcomes end the machine.
type Log struct {
	Core   *Core
	Writer *ledger.Writer
	Apply  func(*ledger.Entry) error
	sent   *ledger.Entry
	// Ends returns, after each reply, why the log as read so far ends the machine; the log may
	// have more slots. Nil: its content never ends the machine.
	Ends func() error
	// For a log that is only read, for people: the permitted number of consecutive reads
	// without progress, and the function that receives the failure. With 0 and nil, patience
	// decides, and a failure ends the machine.
	Tries  int
	Failed func(error)
	Folder ledger.Folder
	next   uint64       // end of the last read
	idle   int          // reads without progress since
	last   ledger.Reply // of the last read

	then func(ledger.Event)

	began   time.Duration    // monotonic: begin of the current operation
	failing [3]time.Duration // since when calls of a kind fail; 0: they do not
}

// MaxLag is how long successful reads may not reach the end of a log: then its store answers
// with stale data.
const MaxLag = time.Minute

// Read reads the log to its end, and continues with then.
func (t *Log) Read(then func(ledger.Event)) {
	t.begin(then)
	t.run(t.Writer.CatchUp())
}

// Append appends an entry, and continues with then once its slot is decided.
func (t *Log) Append(e *ledger.Entry, then func(ledger.Event)) {
	t.begin(then)
	t.sent = e
	t.run(t.Writer.Append(e))
}

// Resend repeats a create, after Again.
func (t *Log) Resend(then func(ledger.Event)) {
	t.begin(then)
	t.run(t.Writer.Resend())
}

func (t *Log) fail(err error) {
	if t.Failed != nil {
		t.Failed(err)
		return
	}
	t.Core.End(err)
}

func (t *Log) begin(then func(ledger.Event)) { t.then, t.began = then, t.Core.Now.Mono }

func (t *Log) run(do ledger.Do) {
	switch {
	case do.Event == ledger.Damaged:
		t.fail(do.Err)
	case do.Event == ledger.TooLarge:
		t.fail(fmt.Errorf("log %s: %w", t.Writer.Log(), ledger.ErrTooLarge))
	case do.Event == ledger.Committed:
		t.Core.Changed = true
		if err := t.Apply(t.sent); err != nil {
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
		OnStore(t.Core, t.name(request), CallTimeout, make, func(r ledger.Reply, err error) {
			r.Err = err
			if !t.bears(request.Kind, err) {
				return
			}
			do := t.Writer.Done(t.Core.Now, r)
			t.count(r)
			if t.Ends != nil {
				if err := t.Ends(); err != nil {
					t.Core.End(err)
					return
				}
			}
			t.run(do)
		})
	case t.Tries > 0 && t.idle >= t.Tries:
		t.fail(storeError(ledger.Stuck(t.Writer.Log(), t.Folder, t.last)))
	case t.Core.Now.Mono-t.began > MaxLag:
		t.fail(fmt.Errorf("%w: log %s could not be read to its end for %v, it answers from the past", planner.ErrStore, t.Writer.Log(), MaxLag))
	default:
		t.Core.At(do.Wake, func() { t.run(t.Writer.Tick(t.Core.Now)) })
	}
}

// count records whether a read made progress.
func (t *Log) count(r ledger.Reply) {
	if t.Tries == 0 {
		return
	}
	t.last = r
	if t.idle++; t.Folder.Next() != t.next {
		t.next, t.idle = t.Folder.Next(), 0
	}
}

// bears reports whether to continue after a reply. A Writer retries for ever, which is right
// for a server. A person must learn that the disk is full, and at once that reads or writes
// are not permitted. For a log that is only read, idle bounds other failures.
func (t *Log) bears(kind ledger.RequestKind, err error) bool {
	now := max(t.Core.Now.Mono, 1)
	switch {
	case err == nil || errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrTooLarge):
		t.failing[kind] = 0
	case errors.Is(err, fs.ErrPermission):
		t.fail(fmt.Errorf("%w: log %s: %w", planner.ErrStore, t.Writer.Log(), err))
		return false
	case t.Tries > 0:
	case t.failing[kind] == 0:
		t.failing[kind] = now
	case now-t.failing[kind] > t.Core.Patience:
		t.fail(fmt.Errorf("%w, tried for %v: log %s: %w", planner.ErrStore, t.Core.Patience, t.Writer.Log(), err))
		return false
	}
	return true
}

// storeError wraps a read error in ErrStore, unless the log is corrupt.
func storeError(err error) error {
	if errors.Is(err, ledger.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", planner.ErrStore, err)
}

// ReadHeads reads the heads of logs until that succeeds or patience runs out.
func (c *Core) ReadHeads(logs []string, then func([][]byte)) {
	retry(c, "the heads of the shards", "read heads", func(ctx context.Context, from ledger.Logs) ([][]byte, error) { return from.Heads(ctx, logs) }, then)
}

// DeleteLog deletes a log up to a slot, like readHeads.
func (c *Core) DeleteLog(log string, upTo uint64, then func()) {
	retry(c, "log "+log, "delete", NoValue(func(ctx context.Context, from ledger.Logs) error { return from.Delete(ctx, log, upTo) }), func(any) { then() })
}
