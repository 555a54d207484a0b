package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/signals"
	"salectl/spec"
)

// Hold describes the lock under which a command runs.
type Hold struct {
	Name      string
	TTL, Wait time.Duration // wait 0: one attempt; quorum.Forever: no limit
	Address   string        // identifies the holder to users
	Conflict  int           // exit code if the lock was not acquired in time
	Notify    func(string)  // prints a line about the lock nodes
}

// Run waits for the lock, runs the command, and releases the lock. taken has the signals of
// this process. Its error has the exit code of the command, or of a lock that was not acquired
// or was lost.
func (o Hold) Run(ctx context.Context, nodes []quorum.Node, command *exec.Cmd, taken <-chan os.Signal) error {
	observer := newObserver(nodes, o.Notify)
	// A lease lasts as long as its context. ctx may end while the command runs, and the command
	// must end before the lease.
	holding, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	lease, err := o.acquire(ctx, holding, cancel, observer.nodes, taken)
	if err != nil {
		return err
	}
	err = o.guard(ctx, lease, command, taken)
	release(lease)
	return err
}

// release releases the lock on every reachable node. The observer reports the others.
func release(lease *quorum.Lease) {
	// Both return when the slowest node has answered or timed out.
	_ = lease.Release(context.Background())
	_ = lease.Freed(context.Background())
}

// acquire waits for the lock until a signal arrives or ctx ends. The lease lasts until it is
// released or lost, or until cancel ends holding.
func (o Hold) acquire(ctx, holding context.Context, cancel context.CancelCauseFunc, nodes []quorum.Node, taken <-chan os.Signal) (lease *quorum.Lease, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		cfg := quorum.Config{Marker: spec.NamedLockMarker, TTL: o.TTL, Address: o.Address}
		lease, err = quorum.Hold(holding, nodes, cfg, spec.NamedLock(o.Name), o.Wait)
	}()
	ended := ctx.Done()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-ended:
			ended = nil
			cancel(context.Cause(ctx))
		case s := <-taken:
			if ends(s) {
				cancel(signals.ErrInterrupted)
			}
		}
	}
	if err == nil && holding.Err() != nil { // acquired and cancelled at the same time
		release(lease)
		err = context.Cause(holding)
	}
	if f, refused := errors.AsType[*quorum.Failure](err); refused {
		return nil, o.refusal(f)
	}
	return lease, err
}

// refusal returns the error of a lock that was not acquired.
func (o Hold) refusal(f *quorum.Failure) error {
	within := ""
	if o.Wait > 0 && o.Wait < quorum.Forever && !f.Denied() {
		within = fmt.Sprintf(" within %s", o.Wait)
	}
	var reasons []string
	if h, ok := f.Holder(); ok {
		on := 0
		for _, s := range f.Answers {
			if s.Holder.Token == h.Token {
				on++
			}
		}
		reasons = append(reasons, fmt.Sprintf("held by %s on %d of %s", holderName(h), on, spec.Count(len(f.Answers), "lock node")))
	}
	for _, s := range f.Answers {
		switch s.Answer {
		case quorum.Failed:
			reasons = append(reasons, nodeClause(s.Node, s.Err))
		case quorum.Abstained:
			reasons = append(reasons, fmt.Sprintf("lock node %s abstains until %s", s.Node, s.VotesFrom.UTC().Format(time.RFC3339)))
		}
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "too few lock nodes granted it")
	}
	err := fmt.Errorf("could not acquire the lock %s%s: %s", o.Name, within, strings.Join(reasons, "; "))
	if f.Denied() {
		return err
	}
	return &ExitError{Code: o.Conflict, Err: err}
}

// Exit codes of commands on locks, beside those of the commands that are run.
const (
	ExitLost        = 5   // a lock was not acquired, not broken, or was lost
	ExitMayBeHeld   = 6   // a lock may still be held
	ExitNotRunnable = 126 // the command exists and cannot be run
	ExitNotFound    = 127 // the command does not exist
	ExitSignal      = 128 // plus the number of the signal that ended the command
)

// ExitError is an error with an exit code.
type ExitError struct {
	Code  int
	Quiet bool // the command has printed its own error
	Err   error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// exit returns an error with an exit code.
func exit(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}
