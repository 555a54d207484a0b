package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/signals"
)

// Command locates the program of a command, before the wait for a lock. The command
// inherits the process group of this process, so that it can use the terminal. Its streams are
// the caller's.
func Command(command []string) (*exec.Cmd, error) {
	cmd := exec.Command(command[0], command[1:]...)
	if errors.Is(cmd.Err, exec.ErrDot) {
		cmd.Err = nil // . in PATH is deliberate, as for shells
	}
	if cmd.Err != nil {
		return nil, notRun(command[0], cmd.Err)
	}
	if _, err := exec.LookPath(cmd.Path); err != nil && !errors.Is(err, exec.ErrDot) {
		return nil, notRun(command[0], err)
	}
	cmd.SysProcAttr = tied()
	return cmd, nil
}

// notRun returns the error of a command that was not run, with the exit code used by shells.
func notRun(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exit(ExitNotFound, "there is no command %q", name)
	}
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return exit(ExitNotRunnable, "the command %q cannot be run: %w", name, err)
}

// start starts a command. The channel receives its result.
//
// The goroutine locks its OS thread: Linux kills the command when the thread that started it
// ends (tied), and Go ends threads at any time. A thread that waits for the command ends
// before it only with the whole process.
func start(cmd *exec.Cmd) (ended <-chan error, err error) {
	started, over := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done := make(chan struct{})
			var reaping sync.WaitGroup
			reaping.Go(func() { reapOrphans(cmd.Process.Pid, done) })
			err = cmd.Wait()
			close(done)
			reaping.Wait()
			over <- err
		}
	}()
	return over, <-started
}

// guard runs a command while a lease lasts.
type guard struct {
	lease *quorum.Lease
	name  string // name of the lock
	// grace is the time for the command to end by itself after the lease is lost. It must be
	// over before others can have the lock, which is a tenth of the ttl after the end of the
	// lease's context if it just ran out.
	grace   time.Duration
	signals <-chan os.Signal
	ended   <-chan struct{} // closed when the program should end; earlier signals were received
}

// run runs the command until it ends: nil for success, an error with the command's exit code,
// or that the lock was lost.
func (g guard) run(cmd *exec.Cmd) error {
	if !g.lease.Valid() {
		return g.lost("before the command began")
	}
	over, err := start(cmd)
	if err != nil {
		return notRun(cmd.Args[0], err)
	}
	lost, ended := g.lease.Context().Done(), g.ended
	var kill <-chan time.Time
	var heard signals.Echo
	for {
		select {
		case err := <-over:
			if !g.lease.Valid() {
				return g.lost("while the command ran")
			}
			return exitOf(cmd, err)
		case s := <-g.signals:
			if ends(s) && !byKeyboard(s) && !heard.Repeats(s) {
				send(cmd, s)
			}
		case <-ended:
			ended = nil
			heard.Repeats(syscall.SIGTERM)
			send(cmd, syscall.SIGTERM)
		case <-lost:
			lost = nil
			send(cmd, syscall.SIGTERM)
			kill = time.After(g.grace)
		case <-kill:
			send(cmd, os.Kill)
		}
	}
}

// send sends a signal to the command. It ignores the error of a command that has just ended.
func send(cmd *exec.Cmd, s os.Signal) { _ = cmd.Process.Signal(s) }

func (g guard) lost(when string) error {
	why := context.Cause(g.lease.Context())
	if why == nil {
		why = errors.New("this process was suspended for too long")
	}
	var failure *quorum.Failure
	if errors.As(why, &failure) {
		why = errors.New(failure.Reason())
	}
	return exit(ExitLost, "the lock %s was lost %s: %w", g.name, when, why)
}

// exitOf returns the exit of a command as an error without a text: the command has printed its
// own.
func exitOf(cmd *exec.Cmd, err error) error {
	if err == nil {
		return nil
	}
	state := cmd.ProcessState
	if state == nil {
		return err
	}
	code := state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = ExitSignal + int(status.Signal())
	}
	// Not err itself: it has an exit code of its own, as urfave's errors have.
	return &ExitError{Code: code, Quiet: true, Err: errors.New(state.String())}
}
