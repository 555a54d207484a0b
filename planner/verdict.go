package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"salectl/backends/ledger"
	"salectl/spec"
)

// stop ends the machine because its time is up, or somebody interrupted it.
func (w *work) stop(cause error) {
	kind := ErrPartly
	if !w.touched && !w.sent && !w.known {
		kind = errInterrupted
		if errors.Is(cause, context.DeadlineExceeded) {
			kind = ErrTimeout
		}
	}
	if w.worry != nil {
		cause = fmt.Errorf("%w; the last error was: %v", cause, w.worry)
	}
	w.end(fmt.Errorf("%w: %w", kind, cause))
}

var errInterrupted = errors.New("nothing was changed")

// verdict is how the end of the machine reaches the caller: whatever goes wrong
// after the table was made or the plan is in the sale's log leaves it carried out
// in part.
func (w *work) verdict(err error) error {
	if err == nil {
		return nil
	}
	decided := false
	for _, own := range []error{ErrStale, ErrRefused, ErrPartly, ErrTimeout, errInterrupted, ledger.ErrCorrupt} {
		decided = decided || errors.Is(err, own)
	}
	if (w.touched || w.known) && !decided {
		err = fmt.Errorf("%w: %w", ErrPartly, err)
	}
	return fmt.Errorf("sale %s: %w", w.plan.Sale, err)
}

// outcome completes the result, and returns the error for the caller: where the
// machine ended with err, or with something left undone.
func (w *work) outcome(err error) error {
	w.result.Changed = w.changed
	if err != nil {
		return w.verdict(err)
	}
	if left := w.left(); left != "" {
		return fmt.Errorf("sale %s: %w: %s", w.plan.Sale, ErrPartly, left)
	}
	return nil
}

// left says what an apply that came to its end has left undone.
func (w *work) left() string {
	var all []string
	if n := w.result.Shortfall; n > 0 {
		all = append(all, fmt.Sprintf("%s could not be taken back: claims were faster; make a new plan", spec.Count(n, "unit")))
	}
	for _, n := range w.nodes {
		if n.unmarked != nil {
			all = append(all, fmt.Sprintf("lock node %s could not be marked: %s", n.name, nodeShort(n.name, n.unmarked)))
		}
	}
	return strings.Join(all, "; ")
}
