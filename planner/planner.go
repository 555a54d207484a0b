// Package planner plans and carries out changes of a sale. ReadActual reads the current state
// from the backends, Make plans what differs from the sale file, Apply carries out the plan,
// and Destroy exports and deletes the sale.
//
// The package guarantees:
//   - A plan is made by a pure function and bound to one slot of the sale's log. The first
//     plan that is appended at that slot wins; every other plan is stale.
//   - Of a saved plan only what follows from the sale file and the ledger is carried out
//     (Plan.Check).
//   - Apply and Destroy may be killed at any point and may run concurrently; a later run
//     completes them. No unit is dealt twice: the sale's log records the units of each
//     shard before any shard receives them.
//   - Nothing is deleted before its export is on disk, was read back, and its digest is in
//     the sale's log.
//
// The package keeps no state. Reading a sale and carrying out a plan are step machines without
// I/O, clocks or goroutines (machine.go), which report their progress (state.go). run.go is
// their shell.
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

// Config holds the backends, keys and options of the planner.
type Config struct {
	Logs  ledger.Logs
	Nodes []quorum.Node
	// Lists are the list nodes of a sale of engine redis, in the order of the sale file; empty
	// for engine ledger.
	Lists []lists.Node
	Clock clock.Clock
	// Writer is 8 random bytes, drawn anew for each run of the program.
	Writer []byte
	// Rand is the source of the uid of a new sale and of the seed of its red packets. It must
	// be unpredictable.
	Rand io.Reader
	// Who is recorded in the sale's log as the planner, as user@host.
	Who string
	// Progress is called once for each address that is done, never concurrently. It may be
	// nil.
	Progress func(Progress)
	// Logger receives failures that are retried. Nil discards them.
	Logger *slog.Logger
	// Remember receives from Destroy what users bought, before anything is deleted. Nil: the
	// purchases are not kept.
	Remember Remember
	// CancelHolds makes Destroy cancel held claims. Otherwise it waits until each is settled.
	CancelHolds bool
	// Linger is how long Destroy keeps the sealed logs after their export, so that feeds which
	// are up to date read the end. With 0 it deletes at once.
	Linger time.Duration
	// Units supplies the payloads of the units that Apply adds (Actual.NewUnits); nil if units
	// are numbers.
	Units *NewUnits
	// Key decrypts the payloads of units; nil if units are numbers or public.
	Key *units.Key
	// DrawKey encrypts the secret of a draw that Apply begins, and decrypts it for a plan of
	// MakeReveal; nil if neither happens.
	DrawKey *units.Key
	// Patience is how long all calls to one log, or to a majority of the nodes, may fail
	// before the planner returns an error; 0 means 10 s.
	Patience time.Duration
	// ReadTimeout bounds the read of a sale's own log and the heads of its shards, which then
	// fails with ErrStore; 0 means 30 s. The lock nodes are read after them and have their own
	// timeouts.
	ReadTimeout time.Duration
}

const defaultPatience = 10 * time.Second

func (c Config) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.New(slog.DiscardHandler)
}

// Progress reports a completed step.
type Progress struct {
	Address string // as in the plan
	Action  string // create, update, delete; before a delete also seal, export
	Done    int    // number of the plan's actions that are done
	Total   int
	Note    string // details, for people
}

// Result is the outcome of Apply or Destroy.
type Result struct {
	Sale       string
	UID        string
	Generation uint64 // that every shard has taken
	// Changed reports whether this run changed anything: it made a table, appended to a log,
	// repaired a marker, exported, or deleted an existing log. It is false for a plan that was
	// carried out before. What Destroy removes from a node does not count, since the node does
	// not report whether it existed. Beside an error, Changed is a lower bound: a call without
	// an answer may have changed something too.
	Changed bool
	// Summary counts the completed actions of the plan.
	Summary Summary
	// Shortfall is the number of units that were to be removed but were claimed first.
	Shortfall int64
	// Unmarked are the lock nodes whose markers could not be written.
	Unmarked []string
	// Refund is the part of a destroyed red packet that was not taken. It is nil if the sale
	// has no red packet or is not sealed.
	Refund *Refund
	// Packets is the public state of the red packet that was applied; nil if the sale has
	// none.
	Packets *ledger.PacketsStatus
	// Export is the path of the file that Destroy wrote or found complete.
	Export string
	// ExportDigest is the SHA-256 of the exported file, as recorded in the sale's log.
	ExportDigest []byte
	// Warnings are failures that do not affect the result.
	Warnings []string
}

// Errors that callers distinguish. In addition, ledger.ErrCorrupt reports a state that
// contradicts the invariants.
var (
	// ErrRefused reports a change that is not allowed. A *Refusal gives the reason.
	ErrRefused = errors.New("refused")
	// ErrStale reports that the sale has changed since the plan was made.
	ErrStale = errors.New("the plan is stale")
	// ErrPartly reports that the sale's log has the change, but it is not fully carried out; a
	// second run completes it.
	ErrPartly = errors.New("partly applied, run it again")
	// ErrTimeout reports that the time ran out before anything was changed.
	ErrTimeout = errors.New("timeout, nothing was changed")
	// ErrStore reports that calls to the ledger's store fail or do not return. It accompanies
	// another error that states the effect on the change.
	ErrStore = errors.New("the ledger's store fails")
	// ErrBadPlan reports a file that is not a plan which this program can read.
	ErrBadPlan = errors.New("not a plan that can be carried out")
)

// Refusal is the error for a change that is not allowed, with its remedy.
type Refusal struct {
	Reason string // a clause without a full stop
	Remedy string // one or more sentences; "" if there is none
}

func (r *Refusal) Error() string {
	if r.Remedy == "" {
		return r.Reason
	}
	return r.Reason + ". " + r.Remedy
}

// Unwrap returns ErrRefused.
func (r *Refusal) Unwrap() error { return ErrRefused }
