package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"salectl/internal/wait"
)

// errStopped is the answer to a signal for a server that is not there.
var errStopped = errors.New("does not run")

// start starts a server that does not run; errRunning if it does.
func (l *Local) start(ctx context.Context, m member) error {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return err
	}
	file, err := l.claim(m)
	if err != nil {
		return err
	}
	defer file.Close() // from here on the lock is the server's alone
	s, err := l.server(m)
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	s.keep = file
	r, err := s.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	if _, err = file.WriteAt([]byte(strconv.Itoa(r.process.Pid)+"\n"), 0); err == nil {
		err = s.await(ctx, r)
	}
	if err != nil {
		_ = s.Kill()
	}
	return err
}

// claim locks the pid file of a server that does not run, and empties it.
func (l *Local) claim(m member) (*os.File, error) {
	file, err := os.OpenFile(l.folder(m)+".pid", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = lockFile(file, lockOrFail)
	if err == nil {
		err = file.Truncate(0)
	}
	if err != nil {
		_ = file.Close()
	}
	if errors.Is(err, errLocked) {
		err = fmt.Errorf("start %s: %w", m.name, errRunning)
	}
	return file, err
}

// server prepares a server of the set.
func (l *Local) server(m member) (*server, error) {
	if m.name == "hbase" {
		h, err := newHBase(HBaseOptions{Dir: l.folder(m), Port: m.port})
		if err != nil {
			return nil, err
		}
		return &h.server, nil
	}
	r, err := newRedis(RedisOptions{Dir: l.folder(m), Port: m.port})
	if err != nil {
		return nil, err
	}
	return &r.server, nil
}

// pid returns the pid of a server, or 0 if it does not run.
func (l *Local) pid(m member) (int, error) {
	file, err := os.Open(l.folder(m) + ".pid")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	switch err := lockFile(file, probeOrFail); {
	case err == nil:
		return 0, nil // nobody has the lock: the pid is of the past
	case !errors.Is(err, errLocked):
		return 0, err
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s names no process; another command may just be starting it: try again", file.Name())
	}
	return pid, nil
}

// signal sends a signal to a server that runs; errStopped if it does not.
func (l *Local) signal(m member, sig syscall.Signal) error {
	pid, err := l.pid(m)
	if err != nil {
		return err
	}
	if pid == 0 {
		return fmt.Errorf("%s %w", m.name, errStopped)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return Signal(process, sig)
}

// gone waits for a server's end. The system closes the files of a process one by
// one, the pid file before the sockets, so the server is gone when its port is free.
func (l *Local) gone(m member, limit time.Duration) error {
	return wait.Poll(limit, func() error {
		if pid, err := l.pid(m); err != nil || pid != 0 {
			return errors.Join(fmt.Errorf("%s still runs %v after it was signalled to end", m.name, limit), err)
		}
		if _, err := portOr(m.port); err != nil {
			return fmt.Errorf("%s has ended: %w", m.name, err)
		}
		return nil
	})
}
