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
)

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
