package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"salectl/backends/ledger"
	"salectl/planner"
	"salectl/spec"
)

// Stop ends the execution at a timeout or an interruption.
func (x *execution) Stop(cause error) {
	kind := planner.ErrPartly
	if !x.tableMade && x.planned == unsent {
		kind = errInterrupted
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = planner.ErrTimeout
		}
	}
	if x.core.Worry != nil {
		cause = fmt.Errorf("%w; the last error was: %v", cause, x.core.Worry)
	}
	x.core.Fail(fmt.Errorf("%w: %w", kind, cause))
}

var errInterrupted = errors.New("nothing was changed")

// wrap converts the final error for the caller: any failure after the table was made or the
// plan was stored in the sale's log is ErrPartly.
func (x *execution) wrap(err error) error {
	if err == nil {
		return nil
	}
	decided := false
	for _, own := range []error{planner.ErrStale, planner.ErrRefused, planner.ErrPartly, planner.ErrTimeout, errInterrupted, ledger.ErrCorrupt} {
		decided = decided || errors.Is(err, own)
	}
	if (x.tableMade || x.planned.isKnown()) && !decided {
		err = fmt.Errorf("%w: %w", planner.ErrPartly, err)
	}
	return fmt.Errorf("sale %s: %w", x.plan.Sale, err)
}

// Outcome completes the result and returns the error for the caller: that of the machine, or
// ErrPartly if something is left undone.
func (x *execution) Outcome(err error) error {
	x.result.Changed = x.core.Changed
	if err != nil {
		return x.wrap(err)
	}
	if left := x.left(); left != "" {
		return fmt.Errorf("sale %s: %w: %s", x.plan.Sale, planner.ErrPartly, left)
	}
	return nil
}

// left describes what a completed apply has left undone.
func (x *execution) left() string {
	var all []string
	if n := x.result.Shortfall; n > 0 {
		all = append(all, fmt.Sprintf("%s could not be taken back: claims were faster; make a new plan", spec.Count(n, "unit")))
	}
	for _, n := range x.nodes {
		if n.unmarked != nil {
			all = append(all, fmt.Sprintf("lock node %s could not be marked: %s", n.name, planner.ShortNodeError(n.name, n.unmarked)))
		}
	}
	return strings.Join(all, "; ")
}
