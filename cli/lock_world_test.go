//go:build linux

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"salectl/backends/quorum"
	"salectl/backends/redis"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// lockWorld is some lock nodes and the file that names them. There is no HBase.
type lockWorld struct {
	*testing.T
	nodes []*services.Redis
	dir   string
}

// startLocks starts n lock nodes that vote on named locks at once.
func startLocks(t *testing.T, n int) *lockWorld {
	w := startNewLocks(t, n)
	for _, s := range w.nodes {
		node, err := redis.Open(redis.Options{Address: s.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		info, err := node.Info(t.Context())
		if err == nil {
			err = node.Mark(t.Context(), spec.NamedLockMarker, info.RunID)
		}
		if err != nil {
			t.Fatal(err)
		}
		node.Close()
	}
	return w
}

// startNewLocks starts n lock nodes that nobody has used.
func startNewLocks(t *testing.T, n int) *lockWorld {
	t.Helper()
	w := &lockWorld{T: t, dir: t.TempDir()}
	var names []string
	for i := range n {
		node, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: filepath.Join(w.dir, fmt.Sprint(i))})
		services.Require(t, err)
		t.Cleanup(func() { node.Stop() })
		w.nodes = append(w.nodes, node)
		names = append(names, strconv.Quote(node.Addr()))
	}
	sale := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\nspec:\n  stock: 10\n  lockCount: 2\n" +
		"  redis: {nodes: [" + strings.Join(names, ", ") + "]}\n  hbase: {zookeeper: [\"127.0.0.1:1\"], table: none}\n"
	if err := os.WriteFile(filepath.Join(w.dir, "sale.yaml"), []byte(sale), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// onNode asks one node something of Redis itself.
func (w *lockWorld) onNode(i int, command ...any) any {
	w.Helper()
	client := goredis.NewClient(&goredis.Options{Addr: w.nodes[i].Addr()})
	defer client.Close()
	answer, err := client.Do(context.Background(), command...).Result()
	if err != nil && err != goredis.Nil {
		w.Fatalf("%v on node %d: %v", command, i, err)
	}
	return answer
}

// keys are the keys about named locks on the given nodes.
func (w *lockWorld) keys(nodes ...int) (keys []any) {
	w.Helper()
	for _, i := range nodes {
		keys = append(keys, w.onNode(i, "KEYS", spec.NamedLockPrefix+"*").([]any)...)
	}
	return keys
}

// free fails unless nothing is left of a lock on the given nodes. On a busy host a node executes a
// release after its caller has ceased to wait. It has less time than a lease takes to expire.
func (w *lockWorld) free(nodes ...int) {
	w.Helper()
	err := wait.Poll(quorum.MinTTL/2, func() error {
		if keys := w.keys(nodes...); len(keys) > 0 {
			return fmt.Errorf("the nodes %v still have %q", nodes, keys)
		}
		return nil
	})
	if err != nil {
		w.Error(err)
	}
}

// until waits until something has come true.
func (w *lockWorld) until(what string, true func() bool) {
	w.Helper()
	wait.Until(w, what, true)
}

// waits returns when somebody waits for a lock.
func (w *lockWorld) waits(name string) {
	w.Helper()
	w.until("waiting for "+name, func() bool {
		return w.onNode(0, "EXISTS", spec.NamedLock(name)+":waiting") == int64(1)
	})
}

// startedRun is one run of salectl.
type startedRun struct {
	*exec.Cmd
	w        *lockWorld
	out, err stream
}

// stream is what a process has written so far.
type stream struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// open starts salectl in a process group of its own, as a shell does.
func (w *lockWorld) open(args ...string) *startedRun {
	w.Helper()
	t := w.prepare(args...)
	t.Stdout, t.Stderr = &t.out, &t.err
	t.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.start()
	return t
}

func (w *lockWorld) prepare(args ...string) *startedRun {
	t := &startedRun{Cmd: exec.Command("salectl", args...), w: w}
	t.Dir = w.dir
	return t
}

func (t *startedRun) start() {
	t.w.Helper()
	if err := t.Start(); err != nil {
		t.w.Fatal(err)
	}
	t.w.Cleanup(func() {
		syscall.Kill(-t.Process.Pid, syscall.SIGKILL)
		t.Wait()
		if t.w.Failed() {
			t.w.Logf("%q wrote:\n%s%s", t.Args, &t.out, &t.err)
		}
	})
}

// hold runs listen under a lock and returns its process id when it runs.
func (w *lockWorld) hold(args ...string) (t *startedRun, command int) {
	w.Helper()
	t = w.open(append([]string{"lock", "run", "--ttl", "2s"}, args...)...)
	return t, t.command()
}

// command waits until listen runs.
func (t *startedRun) command() (pid int) {
	t.w.Helper()
	t.w.until("holding the lock", func() bool {
		_, err := fmt.Sscanf(t.out.String(), "pid %d\n", &pid)
		return err == nil
	})
	return pid
}

// group sends a signal to all processes of the terminal's group.
func (t *startedRun) group(s syscall.Signal) {
	t.w.Helper()
	err := syscall.Kill(-t.Process.Pid, s)
	if err == nil && s == syscall.SIGSTOP {
		err = services.Signal(t.Process, s)
	}
	if err != nil {
		t.w.Fatal(err)
	}
}

// ends waits for the end, and fails unless it has the exit code.
func (t *startedRun) ends(code int) {
	t.w.Helper()
	late := time.AfterFunc(wait.Limit, func() { syscall.Kill(-t.Process.Pid, syscall.SIGKILL) })
	t.Wait()
	late.Stop()
	if got := t.ProcessState.ExitCode(); got != code {
		t.w.Errorf("%v: exit code %d (%v), want %d\n%s%s", t.Args[1:], got, t.ProcessState, code, &t.out, &t.err)
	}
}

// says fails unless standard error is one line with text in it.
func (t *startedRun) says(text string) {
	t.w.Helper()
	if said := t.err.String(); !strings.Contains(said, text) || strings.Count(said, "\n") != 1 {
		t.w.Errorf("%v says %q, want one line with %q", t.Args[1:], said, text)
	}
}

// gone reports whether a process has ended.
func gone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }
