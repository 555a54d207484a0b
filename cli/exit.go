package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"
	urfave "github.com/urfave/cli/v2"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/cli/lock"
	"salectl/executor/rehearse"
	"salectl/internal/files"
	"salectl/internal/signals"
	"salectl/planner"
	"salectl/spec"
)

// Exit codes of all commands.
const (
	exitOK          = api.ExitOK
	exitError       = api.ExitError
	exitChanges     = 2                  // the plan has changes; only with --exit-code
	exitRefused     = api.ExitRefused    // a guard refused, or an invariant is broken
	exitUsage       = api.ExitUsage      // a bad spec or command line
	exitStale       = lock.ExitLost      // the plan was made for an earlier state; or a lock was not acquired, or was lost
	exitPartly      = lock.ExitMayBeHeld // incomplete: run it again
	exitTimeout     = api.ExitTimeout    // not within the time given; or the server of a claim was overloaded or no owner
	exitDown        = 8                  // status --exit-code: the sale is open, and no claim can be sold
	exitDegraded    = 9                  // status --exit-code: another fault
	exitSoldOut     = api.ExitSoldOut    // sold out, or none available now
	exitLimit       = api.ExitLimit      // the user has reached the limit
	exitNotOpen     = api.ExitNotOpen    // not open yet, paused, or closed
	exitThreshold   = 13                 // rehearse, audit: a threshold failed
	exitInterrupted = 130                // by a signal
)

// worst has all codes except 0, the most urgent first. It decides if several sales end
// differently: a broken invariant must not be hidden by an unreachable server, nor a failure
// by a refused claim.
var worst = []int{
	exitInterrupted, exitRefused, exitPartly, exitError, exitTimeout, exitStale, exitUsage,
	exitThreshold, exitDown, exitDegraded, exitSoldOut, exitLimit, exitNotOpen, exitChanges,
}

// Errors of commands themselves; other packages return the rest.
var (
	errUsage       = errors.New("bad usage")
	errChanges     = errors.New("there are changes")
	errUnconfirmed = errors.New("not confirmed")
	errAudit       = errors.New("the audit found problems")
	errRehearsal   = errors.New("the rehearsal found problems")
	errThreshold   = errors.New("a threshold failed")
	errTimeout     = errors.New("timed out")
	errDown        = errors.New("the sale cannot sell")
	errDegraded    = errors.New("the sale has a fault")
)

// timedOut returns the error of an operation that did not end within a time. It wraps
// errTimeout and context.DeadlineExceeded.
func timedOut(after time.Duration) error { return timeoutError(after) }

type timeoutError time.Duration

func (e timeoutError) Error() string   { return fmt.Sprintf("%v after %v", errTimeout, time.Duration(e)) }
func (e timeoutError) Unwrap() []error { return []error{errTimeout, context.DeadlineExceeded} }

// waited wraps a timeout that no server caused: a person did not answer, or a sale did not
// reach the expected state.
type waited struct{ error }

func (w waited) Unwrap() error { return w.error }

// codes maps errors to exit codes, besides exitError, outcomeError and spec.Problem.
var codes = []struct {
	is   error
	code int
}{
	{signals.ErrInterrupted, exitInterrupted},
	{errUsage, exitUsage},
	{errChanges, exitChanges},
	{errUnconfirmed, exitRefused},
	{errAudit, exitRefused},
	{errRehearsal, exitRefused},
	{errDraw, exitRefused},
	{errThreshold, exitThreshold},
	{errTimeout, exitTimeout},
	{errDown, exitDown},
	{errDegraded, exitDegraded},
	{planner.ErrRefused, exitRefused},
	{files.ErrExists, exitRefused},
	{planner.ErrBadPlan, exitUsage},
	{planner.ErrStale, exitStale},
	{planner.ErrPartly, exitPartly},
	{planner.ErrTimeout, exitTimeout},
	{ledger.ErrCorrupt, exitRefused},
	{rehearse.ErrViolated, exitRefused},
	{context.DeadlineExceeded, exitTimeout},
}

// ExitCode returns the exit code for the error of a command, however deep it is wrapped. Of
// several failures (a multierror) the worst counts. One failure with several causes (more than
// one %w, errors.Join) has the worst code among the known ones; an unknown error has 1.
func ExitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if found := codesOf(err); len(found) > 0 {
		return slices.MinFunc(found, func(a, b int) int { return rank(a) - rank(b) })
	}
	return exitError
}

// codesOf returns the known codes of an error and of those that it wraps; of a multierror, that
// of each failure.
func codesOf(err error) (found []int) {
	if code, ok := ownCode(err); ok {
		return []int{code}
	}
	switch wrapped := err.(type) {
	case *multierror.Error:
		for _, e := range wrapped.Errors {
			found = append(found, ExitCode(e))
		}
	case interface{ Unwrap() []error }:
		for _, e := range wrapped.Unwrap() {
			found = append(found, codesOf(e)...)
		}
	case interface{ Unwrap() error }:
		return codesOf(wrapped.Unwrap())
	}
	return found
}

// ownCode returns the code of err itself, without the errors that it wraps.
func ownCode(err error) (code int, ok bool) {
	switch e := err.(type) {
	case *spec.Problem:
		return exitUsage, true
	case *lock.ExitError:
		return e.Code, true
	case *outcomeError:
		return e.outcome.Row().Exit, true
	case urfave.ExitCoder:
		return e.ExitCode(), true
	}
	for _, c := range codes {
		if err == c.is {
			return c.code, true
		}
	}
	return 0, false
}

// rank returns a code's place in worst. Other codes rank like an error.
func rank(code int) int {
	if code == exitOK {
		return len(worst)
	}
	if i := slices.Index(worst, code); i >= 0 {
		return i
	}
	return slices.Index(worst, exitError)
}
