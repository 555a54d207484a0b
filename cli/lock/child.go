package lock

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
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
	if failed, is := errors.AsType[*fs.PathError](err); is {
		err = failed.Err
	}
	return exit(ExitNotRunnable, "the command %q cannot be run: %w", name, err)
}

// start starts a command. The channel receives its result.
//
// The goroutine locks its OS thread: Linux kills the command when the thread that started it
// ends (tied), and Go ends threads at any time. A locked thread ends before the command only with
// the whole process.
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

// guard runs a command while a lease lasts. Its error has the command's exit code, or reports
// the loss of the lock. ctx ends when the program should end. taken has received earlier
// signals.
func (o Hold) guard(ctx context.Context, lease *quorum.Lease, cmd *exec.Cmd, taken <-chan os.Signal) error {
	if !lease.Valid() {
		return o.lost(lease, "before the command began")
	}
	over, err := start(cmd)
	if err != nil {
		return notRun(cmd.Args[0], err)
	}
	lost, ended := lease.Context().Done(), ctx.Done()
	var kill <-chan time.Time
	var echo signals.Echo
	for {
		select {
		case err := <-over:
			if !lease.Valid() {
				return o.lost(lease, "while the command ran")
			}
			return exitOf(cmd, err)
		case s := <-taken:
			if ends(s) && !byKeyboard(s) && !echo.Repeats(s) {
				send(cmd, s)
			}
		case <-ended:
			ended = nil
			echo.Repeats(syscall.SIGTERM)
			send(cmd, syscall.SIGTERM)
		case <-lost:
			lost = nil
			send(cmd, syscall.SIGTERM)
			// Others can have the lock a tenth of the ttl after a lease has just run out.
			kill = time.After(o.TTL / 12)
		case <-kill:
			send(cmd, os.Kill)
		}
	}
}

// send sends a signal to the command. It ignores the error of a command that has just ended.
func send(cmd *exec.Cmd, s os.Signal) { _ = cmd.Process.Signal(s) }

func (o Hold) lost(lease *quorum.Lease, when string) error {
	why := cmp.Or(context.Cause(lease.Context()), errors.New("this process was suspended for too long"))
	if failure, is := errors.AsType[*quorum.Failure](why); is {
		why = errors.New(failure.Reason())
	}
	return exit(ExitLost, "the lock %s was lost %s: %w", o.Name, when, why)
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

// endings are the signals that end a command, sent by users and service managers.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

func ends(s os.Signal) bool { return slices.Contains(endings, s) }

// TakeSignals redirects signals to the returned channel, for a command that passes them on.
// stopOther stops their delivery to the present receiver; nil: there is none. The redirection is
// permanent: such a command is the last action of a process.
//
// Signals that the parent process ignores (nohup, a background job of a script) stay ignored,
// also for the command. SIGPIPE is received so that a closed standard error does not end this
// process before the lock is released.
func TakeSignals(stopOther func(), ignored []os.Signal) <-chan os.Signal {
	taken := make(chan os.Signal, 16)
	signal.Notify(taken, endings...)
	signal.Notify(taken, syscall.SIGPIPE)
	if stopOther != nil {
		stopOther()
	}
	for _, s := range ignored {
		signal.Ignore(s)
	}
	return taken
}

// byKeyboard reports whether a signal came from the keyboard of the terminal. The command has
// received it then, since the terminal signals its whole foreground group. Signals do not
// carry their origin, so either signal from another source to a foreground process counts as
// one from the keyboard.
func byKeyboard(s os.Signal) bool {
	return (s == os.Interrupt || s == syscall.SIGQUIT) && inForeground()
}
