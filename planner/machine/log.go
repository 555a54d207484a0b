package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/spec"
)

// Log drives one log through its ledger.Writer. Read, Append and Resend return CaughtUp,
// Committed, Taken, Gone or Again; all other outcomes end the machine.
type Log struct {
	Core   *Core
	Writer *ledger.Writer
	Apply  func(*ledger.Entry) error
	sent   *ledger.Entry
	// Ends returns, after each reply, why the log as read so far ends the machine; the log may
	// have more slots. Nil: its content never ends the machine.
	Ends func() error
	// Tries is the permitted number of consecutive reads without progress of a log that is only
	// read, for people. With 0, patience decides.
	Tries  int
	Folder ledger.Folder
	next   uint64       // end of the last read
	idle   int          // reads without progress since
	last   ledger.Reply // of the last read

	failing [3]time.Duration // since when calls of a kind fail; 0: they do not
}

// MaxLag is how long successful reads may not reach the end of a log: then its store answers
// with stale data.
const MaxLag = time.Minute

// Read reads the log to its end.
func (t *Log) Read() ledger.Event { return t.run(t.Writer.CatchUp()) }

// Append appends an entry, and returns once its slot is decided.
func (t *Log) Append(e *ledger.Entry) ledger.Event {
	t.sent = e
	return t.run(t.Writer.Append(e))
}

// Resend repeats a create, after Again.
func (t *Log) Resend() ledger.Event { return t.run(t.Writer.Resend()) }

func (t *Log) run(do ledger.Do) ledger.Event {
	c, began := t.Core, t.Core.Now.Mono
	for {
		switch {
		case do.Event == ledger.Damaged:
			c.Fail(do.Err)
		case do.Event == ledger.TooLarge:
			c.Fail(fmt.Errorf("log %s: %w", t.Writer.Log(), ledger.ErrTooLarge))
		case do.Event == ledger.Committed:
			c.Changed = true
			c.Check(t.Apply(t.sent))
			return do.Event
		case do.Event != ledger.Nothing:
			return do.Event
		case do.Send != nil:
			request := do.Send
			r, err := OnStore(c, t.name(request), CallTimeout, func(ctx context.Context, logs ledger.Logs) (ledger.Reply, error) {
				r := request.Do(ctx, logs)
				return r, r.Err
			})
			r.Err = err
			t.checkCall(request.Kind, err)
			do = t.Writer.Done(c.Now, r)
			t.count(r)
			if t.Ends != nil {
				c.Check(t.Ends())
			}
		case t.Tries > 0 && t.idle >= t.Tries:
			c.Fail(storeError(ledger.Stuck(t.Writer.Log(), t.Folder, t.last)))
		case c.Now.Mono-began > MaxLag:
			c.Fail(&planner.StoreError{Err: fmt.Errorf("log %s could not be read to its end for %v, it answers with old data", t.Writer.Log(), MaxLag)})
		default:
			c.SleepUntil(do.Wake)
			do = t.Writer.Tick(c.Now)
		}
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

// checkCall fails if a failed call is not to be repeated. A Writer retries for ever, which is right
// for a server. A command must report a full disk, and at once that reads or writes
// are not permitted. For a log that is only read, idle bounds other failures.
func (t *Log) checkCall(kind ledger.RequestKind, err error) {
	now := max(t.Core.Now.Mono, 1)
	switch {
	case err == nil || errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrTooLarge):
		t.failing[kind] = 0
	case errors.Is(err, fs.ErrPermission):
		t.Core.Fail(&planner.StoreError{Err: fmt.Errorf("log %s: %w", t.Writer.Log(), err)})
	case t.Tries > 0:
	case t.failing[kind] == 0:
		t.failing[kind] = now
	case now-t.failing[kind] > t.Core.Patience:
		t.Core.Fail(&planner.StoreError{Tried: t.Core.Patience, Err: fmt.Errorf("log %s: %w", t.Writer.Log(), err)})
	}
}

// storeError wraps a read error in ErrStore, unless the log is corrupt.
func storeError(err error) error {
	if errors.Is(err, ledger.ErrCorrupt) {
		return err
	}
	return &planner.StoreError{Err: err}
}

// appendNames replaces names of ledger.OpNames for appends.
var appendNames = map[string]string{
	"in":     "drive in",  // receives units that another shard has sent, for an absent owner
	"ack":    "drive out", // ends a transfer that was received
	"settle": "expire",    // ends holds
	"claim":  "drain",     // appends the grabs of a stream
}

// unitsLogs is the suffix of the logs of payloads.
const unitsLogs = "/units"

// name describes a call of the driver. An append is named after its op, so that tests can kill
// a command at each kind of append.
func (t *Log) name(r *ledger.Request) string {
	switch {
	case r.Kind == ledger.AppendRequest:
		return appendName(t.sent.Commit, r.Slot)
	case strings.HasPrefix(r.Log, spec.SaleLog("")):
		return "read sale"
	case strings.HasSuffix(r.Log, unitsLogs):
		return "read payloads"
	}
	return "read shard"
}

// appendName is the name of a commit's first op. The planner appends commits of several kinds
// of ops only to complete transfers and holds.
func appendName(c *pb.Commit, slot uint64) string {
	name := ledger.OpNames(c)[0]
	switch settings := c.GetOps()[0].GetGeneration().GetSettings(); {
	case name == "generation" && slot == 0:
		return "create shard"
	case settings.GetPhase() == pb.Phase_CLOSED:
		return "close" // final
	}
	return cmp.Or(appendNames[name], name)
}
