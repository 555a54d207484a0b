package lock

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/signals"
	"salectl/spec"
)

// NoLimit is the wait for a lock without a limit.
const NoLimit time.Duration = -1

// Hold describes the lock under which a command runs.
type Hold struct {
	Name      string
	TTL, Wait time.Duration // wait 0: one attempt
	Address   string        // identifies the holder to people
	Say       func(string)  // prints a line about the lock nodes
}

// Run waits for the lock, runs the command, and releases the lock. taken has the signals of
// this process. Its error is ErrNotAcquired, or has the exit code of the command or of a lost
// lock.
func (o Hold) Run(ctx context.Context, nodes []quorum.Node, command *exec.Cmd, taken <-chan os.Signal) error {
	heard := newHeard(nodes, o.Say)
	// A lease lasts as long as its context, and ctx may end while the command runs, which
	// must end first.
	holding, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	lease, err := heard.hold(holding, giveUp, o, waiting{taken, ctx})
	if err != nil {
		return err
	}
	err = guard{lease: lease, name: o.Name, grace: o.TTL / 12, signals: taken, ended: ctx.Done()}.run(command)
	giveBack(lease)
	return err
}

// giveBack releases the lock on every reachable node. heard reports the others.
func giveBack(lease *quorum.Lease) {
	// Both return when the slowest node has answered or timed out.
	_ = lease.Release(context.Background())
	_ = lease.Freed(context.Background())
}

// waiting holds what may end a wait for a lock early.
type waiting struct {
	signals <-chan os.Signal
	program context.Context
}

// hold waits for the lock with the options of the command line. The lease lasts until it is
// released or lost.
func (h *heard) hold(holding context.Context, giveUp context.CancelCauseFunc, o Hold, w waiting) (*quorum.Lease, error) {
	type result struct {
		lease *quorum.Lease
		err   error
	}
	done := make(chan result, 1)
	go func() {
		cfg := quorum.Config{Marker: spec.NamedLockMarker, TTL: o.TTL, Address: o.Address, Once: o.Wait == 0}
		lease, err := quorum.Hold(holding, h.nodes, cfg, spec.NamedLock(o.Name))
		done <- result{lease, err}
	}()
	var late <-chan time.Time
	if o.Wait > 0 {
		timer := time.NewTimer(o.Wait)
		defer timer.Stop()
		late = timer.C
	}
	interrupted, denied := w.program.Done(), h.denied
	for {
		select {
		case got := <-done:
			switch {
			case got.err == nil && holding.Err() == nil:
				return got.lease, nil
			case got.err == nil: // acquired and cancelled at the same time
				giveBack(got.lease)
				got.err = context.Cause(holding)
			}
			switch {
			case errors.Is(got.err, errDenied), errors.Is(got.err, quorum.ErrRefused) && h.isDenied():
				return nil, h.refusal(o.Name, 0)
			case errors.Is(got.err, errLate), errors.Is(got.err, quorum.ErrRefused):
				return nil, notAcquired{h.refusal(o.Name, o.Wait)}
			}
			return nil, got.err
		case <-late:
			giveUp(errLate)
		case <-denied:
			denied = nil
			giveUp(errDenied)
		case <-interrupted:
			interrupted = nil
			giveUp(context.Cause(w.program))
		case s := <-w.signals:
			if ends(s) {
				giveUp(signals.ErrInterrupted)
			}
		}
	}
}

// ErrNotAcquired reports a lock that was not acquired within the time.
var ErrNotAcquired = errors.New("the lock was not acquired")

type notAcquired struct{ error }

func (notAcquired) Is(target error) bool { return target == ErrNotAcquired }

// Causes for the end of a wait without the lock.
var (
	errLate   = errors.New("not acquired in time")
	errDenied = errors.New("too few lock nodes permit it")
)
