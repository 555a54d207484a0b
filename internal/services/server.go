package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"salectl/internal/wait"
)

// server is one process and what is known about it: how it is started, when it
// is ready, and whether it runs.
type server struct {
	name    string   // in messages
	command []string // the program and its arguments
	log     string   // path of the file that takes the output of every run
	// prepare is called before each start; nil: nothing to prepare.
	prepare func() error
	// ready reports whether the server serves, given what it has logged since it
	// was started. It is called several times a second.
	ready func(ctx context.Context, log string) bool
	limit time.Duration  // from start to ready, whatever ctx allows
	grace time.Duration  // for a clean shutdown
	bye   syscall.Signal // begins it; 0: SIGTERM
	as    *account       // whom it runs as; nil: as this process

	temporary string   // a folder to remove after Stop, or empty
	keep      *os.File // not nil: the server outlives this process and keeps this file open

	// mu guards run. It is held for a moment only, never while a server starts
	// or ends, so that a server can be killed while it starts.
	mu  sync.Mutex
	run *run // the latest; nil before the first
}

// startLimit is the longest start of a server. Only a fault takes that long, also
// on a machine whose processors are shared by many tests.
const startLimit = 5 * time.Minute

// run is one life of a server.
type run struct {
	process *os.Process
	logFrom int64         // where this run's part of the log begins
	ended   chan struct{} // closed when the process is gone
	err     error         // how it ended; read it after ended
}

var (
	// errRunning is the answer to a second Start.
	errRunning = errors.New("it runs already")
	// errPortLost: another process took a port between its choice and the
	// server's bind. Another port will do as well.
	errPortLost = errors.New("another program has taken its port")
)

// Start starts the server again after Kill or Stop, on the same port and with
// the same folder, and returns when it is ready. ctx and an upper bound of the
// server's own limit the wait; the server itself does not end with ctx.
func (s *server) Start(ctx context.Context) error {
	r, err := s.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	if err := s.await(ctx, r); err != nil {
		_ = s.Kill()
		return err
	}
	return nil
}

// Kill ends the server with SIGKILL and returns when it is gone. Killing a
// server that does not run is no error.
func (s *server) Kill() error {
	r := s.running()
	if r == nil {
		return nil
	}
	if err := r.signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %s: %w", s.name, err)
	}
	<-r.ended
	return nil
}

// Stop shuts the server down cleanly, a paused one too, and returns when it is
// gone. It kills a server that takes too long.
func (s *server) Stop() {
	if r := s.running(); r != nil {
		bye := s.bye
		if bye == 0 {
			bye = syscall.SIGTERM
		}
		_ = r.signal(bye)
		_ = r.signal(sigContinue) // a stopped process takes no other signal
		select {
		case <-r.ended:
		case <-time.After(s.grace):
			_ = s.Kill()
		}
	}
	if s.temporary != "" {
		_ = os.RemoveAll(s.temporary)
	}
}

// Pause stops the server with SIGSTOP: its connections stay open, and nobody
// answers on them. A server that does not run gives an error.
func (s *server) Pause() error { return s.signal("pause", sigPause) }

// Continue lets a paused server run again.
func (s *server) Continue() error { return s.signal("continue", sigContinue) }

func (s *server) signal(verb string, sig syscall.Signal) error {
	r := s.running()
	if r == nil {
		return fmt.Errorf("%s %s: it does not run", verb, s.name)
	}
	if err := r.signal(sig); err != nil {
		return fmt.Errorf("%s %s: %w", verb, s.name, err)
	}
	return nil
}

// running returns the current run, or nil.
func (s *server) running() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.run.over() {
		return nil
	}
	return s.run
}

func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// signal signals the process; it ignores that the process has just ended.
func (r *run) signal(sig syscall.Signal) error {
	if err := Signal(r.process, sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Signal sends a signal to a process. After SIGSTOP it waits until all threads stand
// still: each stops when it next runs, and may finish a system call before.
func Signal(p *os.Process, sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil || sig != sigPause {
		return err
	}
	return wait.Poll(wait.Limit, func() error {
		if !still(p.Pid) {
			return errors.New("it still runs after SIGSTOP")
		}
		return nil
	})
}

// launch starts the process and a goroutine that waits for its end.
//
// The goroutine keeps an OS thread of its own. Linux kills the server when the
// thread that started it ends (see childAttributes), not when the process does,
// and Go ends threads as it likes; a thread that waits for the server cannot
// end before the server unless the whole process does.
func (s *server) launch() (*run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil && !s.run.over() {
		return nil, errRunning
	}
	if s.prepare != nil {
		if err := s.prepare(); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Dir = filepath.Dir(s.log)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes(s.keep != nil, s.as)
	if s.keep != nil {
		cmd.ExtraFiles = []*os.File{s.keep}
	}
	r := &run{logFrom: from, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		forking.Lock()
		err := cmd.Start()
		forking.Unlock()
		started <- err
		if err == nil {
			r.err = cmd.Wait()
			close(r.ended)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	r.process, s.run = cmd.Process, r
	return r, nil
}

// await returns nil once the server is ready, or why it will not be.
func (s *server) await(ctx context.Context, r *run) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("it was not ready within %v", s.limit))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.ready(ctx, s.logOf(r)) && !r.over() {
			return nil
		}
		select {
		case <-r.ended:
			return s.startError(r, fmt.Errorf("it ended (%v)", r.err))
		case <-ctx.Done():
			return s.startError(r, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// startError returns why a start failed, with the last lines that were logged.
func (s *server) startError(r *run, why error) error {
	log := s.logOf(r)
	// The second is the error of HBase when its ZooKeeper went to the next port.
	if strings.Contains(log, "Address already in use") || strings.Contains(log, "Could not start ZK at requested port") {
		why = fmt.Errorf("%w: %w", errPortLost, why)
	}
	return fmt.Errorf("start %s: %w; the end of %s:\n%s", s.name, why, s.log, lastLines(log))
}

// lastLines returns the end of a program's output.
func lastLines(output string) string {
	const most = 15
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// logOf returns what a run has logged so far.
func (s *server) logOf(r *run) string {
	log, err := os.ReadFile(s.log)
	if err != nil || int64(len(log)) < r.logFrom {
		return ""
	}
	return string(log[r.logFrom:])
}
