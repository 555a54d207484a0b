// Package planner plans changes of a sale. Make, MakePhase, MakeReveal and MakeDestroy compare
// what a sale file or a command requests with an Actual, the current state, and return a Plan.
// Plan.Encode and DecodePlans are the form of a plan in a file.
//
// The package guarantees:
//   - Its functions are pure: they read no clock, no file and no server, and draw no random
//     numbers. What they depend on is in the Actual.
//   - A plan is bound to one slot of the sale's log. The first plan that is appended at that
//     slot wins; every other plan is stale.
//   - A saved plan is carried out only if a plan made anew from the sale file and the ledger
//     agrees with it (Plan.Check).
//   - A change that a sale does not allow is a *Refusal with its remedy, before anything is
//     written.
//
// Package current reads the Actual, package apply carries out the Plan, and both run their
// steps by package machine. Callers show plans and request consent.
package planner

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers distinguish. In addition, ledger.ErrCorrupt reports a state that
// contradicts the invariants.
var (
	// ErrRefused reports a change that is not allowed. A *Refusal has the reason.
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
	ErrStore = errors.New("access to the ledger failed")
	// ErrBadPlan reports a file that is not a plan which this program can read.
	ErrBadPlan = errors.New("not a plan that can be carried out")
)

// StoreError is ErrStore with its cause.
type StoreError struct {
	Tried time.Duration // since the first call; 0: the call was not repeated
	Err   error
}

func (e *StoreError) Error() string {
	if e.Tried > 0 {
		return fmt.Sprintf("%v, tried for %v: %v", ErrStore, e.Tried, e.Err)
	}
	return fmt.Sprintf("%v: %v", ErrStore, e.Err)
}

// Unwrap returns ErrStore and the cause.
func (e *StoreError) Unwrap() []error { return []error{ErrStore, e.Err} }

// Refusal is the error for a change that is not allowed. Its text is the reason; displays add the
// remedy.
type Refusal struct {
	Reason string // a clause without a full stop
	Remedy string // one or more sentences; "" if there is none
}

// Refuse returns a Refusal with a reason.
func Refuse(format string, args ...any) *Refusal {
	return &Refusal{Reason: fmt.Sprintf(format, args...)}
}

// With returns the refusal with a remedy.
func (r *Refusal) With(format string, args ...any) *Refusal {
	r.Remedy = fmt.Sprintf(format, args...)
	return r
}

func (r *Refusal) Error() string { return r.Reason }

// Unwrap returns ErrRefused.
func (r *Refusal) Unwrap() error { return ErrRefused }
