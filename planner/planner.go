// Package planner brings a sale from what its backends have to what its file
// says: read what there is (Actual), say what would change (Plan), change it
// (Apply), and at the end take it all down again (Destroy).
//
// What it promises:
//   - A plan is made by a pure function and bound to one slot of the sale's
//     log. Whoever fills that slot first has its way; every other plan is stale.
//   - Nothing of a saved plan is carried out that does not follow from the sale's file and
//     its ledger (Plan.Check).
//   - Apply and Destroy may be killed anywhere, may run twice at once, and
//     complete when they are run again. No unit is dealt twice: which units a
//     shard gets stands in the sale's log before any shard hears of it.
//   - Nothing is deleted before its export is on the disk, was read back, and
//     its digest stands in the sale's log.
//
// It keeps no state of its own. Reading a sale and carrying out a plan are step
// machines without I/O, clocks and goroutines (machine.go), which can say where
// they are (state.go); run.go is the shell around them.
package planner

import (
	"errors"
	"io"
	"log/slog"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/units"
)

// Config is what the planner works with.
type Config struct {
	Logs  ledger.Logs
	Nodes []quorum.Node
	// Lists are the nodes that keep the lists of a sale whose engine is redis, in
	// the order in which its file names them; none for engine ledger.
	Lists []lists.Node
	Clock clock.Clock
	// Writer is 8 random bytes, drawn anew for each run of the program.
	Writer []byte
	// Rand is where the uid of a new sale is drawn from, and the seed of its red
	// packets. It must be one that nobody can foresee.
	Rand io.Reader
	// Who says in the sale's log who planned, as user@host.
	Who string
	// Progress is told of each address that is done, one call at a time. Nil:
	// nobody wants to know.
	Progress func(Progress)
	// Logger gets what went wrong and was tried again. Nil: nobody wants to know.
	Logger *slog.Logger
	// Remember is told by Destroy what users bought, before anything is deleted; nil: nobody
	// keeps it.
	Remember Remember
	// CancelHolds has Destroy cancel what is held for payments; else it waits until each hold is
	// settled.
	CancelHolds bool
	// Linger is how long Destroy leaves the sealed logs where they are once they are exported, so
	// that feeds that are up to date read the end. Zero: it deletes at once.
	Linger time.Duration
	// Units tells what the units are that Apply adds, as Actual.NewUnits; nil where they are
	// numbers.
	Units *NewUnits
	// Key opens what the units of a sale are; nil where they are numbers, or public.
	Key *units.Key
	// DrawKey seals the secret of a draw that Apply begins, and opens it for a plan of
	// MakeReveal; nil where neither is done.
	DrawKey *units.Key
	// Patience is how long one log, or a majority of the nodes, may fail every
	// call before the planner gives up on it; 0 is 10 s.
	Patience time.Duration
	// ReadTimeout is how long reading a sale's own log and the heads of its shards may take
	// before it is ErrStore; 0 is 30 s. The lock nodes, which are read behind them, have
	// timeouts of their own.
	ReadTimeout time.Duration
}

const defaultPatience = 10 * time.Second

func (c Config) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.New(slog.DiscardHandler)
}

// Progress says that something is done.
type Progress struct {
	Address string // as in the plan
	Action  string // create, update, delete; on the way to a delete: seal, export
	Done    int    // of the plan's actions
	Total   int
	Note    string // more, for people
}

// Result is what Apply or Destroy came to.
type Result struct {
	Sale       string
	UID        string
	Generation uint64 // that every shard has
	// Changed reports whether this run itself changed anything: it made a table,
	// appended to a log, mended a marker, exported, or deleted a log that was
	// there. False after a plan that was carried out already. What destroy makes a
	// node forget does not count: the node does not tell whether it was there.
	// Beside an error it is a lower bound, since a call without an answer may have
	// changed something too.
	Changed bool
	// Summary counts the plan's actions that are done.
	Summary Summary
	// Shortfall is how many units should have been removed and could not, since
	// they were claimed meanwhile.
	Shortfall int64
	// Unmarked are the lock nodes that could not be reached for their markers.
	Unmarked []string
	// Refund is what nobody took of a red packet that was destroyed. Nil: the sale
	// had none, or is not sealed yet.
	Refund *Refund
	// Packets is what everybody may know of the red packet that was applied. Nil: units are
	// no packets.
	Packets *ledger.PacketsStatus
	// Export is the path of the file that Destroy wrote, or found written.
	Export string
	// ExportDigest is the SHA-256 of the exported file, as the sale's log has it.
	ExportDigest []byte
	// Warnings are things that went wrong and do not matter for the result.
	Warnings []string
}

// What callers do differently. Besides these there is ledger.ErrCorrupt, for
// what cannot be while every invariant holds.
var (
	// ErrRefused says that a change is not allowed; a *Refusal says why.
	ErrRefused = errors.New("refused")
	// ErrStale says that the sale has changed since the plan was made.
	ErrStale = errors.New("the plan is stale")
	// ErrPartly says that the sale's log has the change, and not all of it is
	// carried out: run it again.
	ErrPartly = errors.New("partly applied, run it again")
	// ErrTimeout says that the time ran out before anything was changed.
	ErrTimeout = errors.New("timeout, nothing was changed")
	// ErrStore says that where the ledger is kept, calls fail or do not return.
	// It comes beside another error that says what that means for the change.
	ErrStore = errors.New("the ledger's store fails")
	// ErrBadPlan says that a file is no plan that this program can read.
	ErrBadPlan = errors.New("not a plan that can be carried out")
)

// Refusal is a change that is not allowed, and what to do instead.
type Refusal struct {
	Reason string // a clause without a full stop
	Remedy string // one sentence, or several; "" if there is none
}

func (r *Refusal) Error() string {
	if r.Remedy == "" {
		return r.Reason
	}
	return r.Reason + ". " + r.Remedy
}

// Unwrap is ErrRefused.
func (r *Refusal) Unwrap() error { return ErrRefused }
