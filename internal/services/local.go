package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Local is the set of servers that examples use: three Redis and an HBase, on
// ports that never change. They outlive the process that started them.
//
// Each has a file NAME.pid in the set's folder. The server keeps that file open
// and locked for as long as it lives, so that nobody takes a stranger with the
// pid of a dead server for it, and nobody starts it twice.
type Local struct {
	dir     string
	members []member
}

// member is a server of the set.
type member struct {
	name, question, answer string
	port                   int
}

// localMembers returns the servers of a set on the given ports: of the Redis,
// and of the HBase's ZooKeeper.
func localMembers(redis [3]int, zookeeper int) []member {
	return []member{
		{"redis-1", redisRequest, redisReply, redis[0]},
		{"redis-2", redisRequest, redisReply, redis[1]},
		{"redis-3", redisRequest, redisReply, redis[2]},
		{"hbase", zookeeperRequest, zookeeperReply, zookeeper},
	}
}

// NewLocal returns the set whose data, logs and pid files are in dir. An empty
// dir means the folder "local" in CacheDir.
func NewLocal(dir string) (*Local, error) {
	if dir == "" {
		dir = filepath.Join(CacheDir(), "local")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &Local{dir: dir, members: localMembers([3]int{16379, 16380, 16381}, 12181)}, nil
}

// Dir returns the set's folder.
func (l *Local) Dir() string { return l.dir }

// Names returns the names of the servers.
func (l *Local) Names() []string {
	var names []string
	for _, m := range l.members {
		names = append(names, m.name)
	}
	return names
}

// Status is how a server stands.
type Status struct {
	Name    string
	Address string // of an HBase: its ZooKeeper's
	PID     int    // 0: it does not run
	Answers bool   // false of one that runs: it is starting, or paused
}

// Status returns the state of each server.
func (l *Local) Status(ctx context.Context) ([]Status, error) {
	all := make([]Status, len(l.members))
	err := l.each(func(i int, m member) error {
		pid, err := l.pid(m)
		all[i] = Status{Name: m.name, Address: address(m.port), PID: pid}
		if pid != 0 {
			all[i].Answers = strings.HasPrefix(query(ctx, all[i].Address, nil, m.question), m.answer)
		}
		return err
	})
	return all, err
}

// Up starts the named servers, without names all, as far as they do not run, and
// returns when they are ready. It returns the names of those that it started, also
// with an error.
func (l *Local) Up(ctx context.Context, names ...string) ([]string, error) {
	for _, name := range names {
		if err := l.one(name, func(member) error { return nil }); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	var started []string
	err := l.each(func(_ int, m member) error {
		if len(names) > 0 && !slices.Contains(names, m.name) {
			return nil
		}
		err := l.start(ctx, m)
		if errors.Is(err, errRunning) {
			return nil
		}
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			started = append(started, m.name)
		}
		return err
	})
	return started, err
}

// Start starts one server and returns when it is ready.
func (l *Local) Start(ctx context.Context, name string) error {
	return l.one(name, func(m member) error { return l.start(ctx, m) })
}

// Kill ends one server with SIGKILL and returns when it is gone.
func (l *Local) Kill(name string) error {
	return l.one(name, func(m member) error {
		if err := l.signal(m, syscall.SIGKILL); err != nil {
			return err
		}
		return l.gone(m, 5*time.Second)
	})
}

// Pause stops one server with SIGSTOP: it keeps its connections and is silent.
func (l *Local) Pause(name string) error {
	return l.one(name, func(m member) error { return l.signal(m, sigPause) })
}

// Continue lets a paused server run again.
func (l *Local) Continue(name string) error {
	return l.one(name, func(m member) error { return l.signal(m, sigContinue) })
}

// Down shuts all servers down and returns when they are gone.
func (l *Local) Down() error {
	return l.each(func(_ int, m member) error {
		err := l.signal(m, syscall.SIGTERM)
		if errors.Is(err, errStopped) {
			return nil
		}
		if err != nil {
			return err
		}
		_ = l.signal(m, sigContinue) // a paused one takes no other signal
		if l.gone(m, 5*time.Second) == nil {
			return nil
		}
		if err := l.Kill(m.name); !errors.Is(err, errStopped) {
			return err
		}
		return nil
	})
}

// Purge deletes what the servers have stored and logged. They must be down.
func (l *Local) Purge() error {
	return l.each(func(_ int, m member) error {
		pid, err := l.pid(m)
		if err != nil {
			return err
		}
		if pid != 0 {
			return fmt.Errorf("delete the data of %s: it runs", m.name)
		}
		return errors.Join(os.RemoveAll(l.folder(m)), os.RemoveAll(l.folder(m)+".pid"))
	})
}

func (l *Local) folder(m member) string { return filepath.Join(l.dir, m.name) }

// each does something to all servers at the same time.
func (l *Local) each(do func(int, member) error) error {
	errs := make([]error, len(l.members))
	var wait sync.WaitGroup
	for i, m := range l.members {
		wait.Go(func() { errs[i] = do(i, m) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// one does something to the server of that name.
func (l *Local) one(name string, do func(member) error) error {
	for _, m := range l.members {
		if m.name == name {
			return do(m)
		}
	}
	return fmt.Errorf("there is no server %q, but %s", name, strings.Join(l.Names(), ", "))
}
