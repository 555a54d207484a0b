package services

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// newTestLocal returns a set in a folder and on ports of its own.
func newTestLocal(t *testing.T) *Local {
	t.Helper()
	_, err := redisServer.path()
	Require(t, err)
	_, err = findHBase()
	Require(t, err)
	ports, err := freePorts(4)
	if err != nil {
		t.Fatal(err)
	}
	l := &Local{dir: t.TempDir(), members: localMembers([3]int(ports[:3]), ports[3])}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// wantStatus holds each server to one of: up, silent, down.
func wantStatus(t *testing.T, l *Local, want ...string) {
	t.Helper()
	all, err := l.Status(t.Context())
	if err != nil {
		t.Error(err)
	}
	var got []string
	for _, s := range all {
		switch {
		case s.PID == 0:
			got = append(got, "down")
		case s.Answers:
			got = append(got, "up")
		default:
			got = append(got, "silent")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("status: got %v, want %v", got, want)
	}
}

func TestLocalServersAreOneSet(t *testing.T) {
	l := newTestLocal(t)
	wantStatus(t, l, "down", "down", "down", "down")
	if started, err := l.Up(t.Context(), "redis-1", "redis-4"); err == nil || len(started) > 0 {
		t.Errorf("with a name that does not exist: started %v, %v", started, err)
	}
	if started, err := l.Up(t.Context(), "redis-1"); err != nil || !slices.Equal(started, []string{"redis-1"}) {
		t.Fatalf("one: started %v, %v", started, err)
	}
	wantStatus(t, l, "up", "down", "down", "down")
	started, err := l.Up(t.Context())
	if err != nil || len(started) != 3 {
		t.Fatalf("the others: started %v, %v", started, err)
	}
	wantStatus(t, l, "up", "up", "up", "up")

	// Another process, as the next command is one, sees the same.
	same := &Local{dir: l.dir, members: l.members}
	for _, step := range []struct {
		do   func(string) error
		name string
		want error
	}{
		{same.Kill, "redis-2", nil},
		{same.Kill, "redis-2", errStopped},
		{same.Pause, "redis-2", errStopped},
		{same.Pause, "hbase", nil},
	} {
		if err := step.do(step.name); !errors.Is(err, step.want) {
			t.Errorf("%s: got %v, want %v", step.name, err, step.want)
		}
	}
	wantStatus(t, same, "up", "down", "up", "silent")
	if err := same.Continue("hbase"); err != nil {
		t.Error(err)
	}
	if err := same.Start(t.Context(), "redis-1"); !errors.Is(err, errRunning) {
		t.Errorf("starting what runs: %v", err)
	}
	if started, err := same.Up(t.Context()); err != nil || !slices.Equal(started, []string{"redis-2"}) {
		t.Errorf("up again started %v, %v", started, err)
	}
	wantStatus(t, same, "up", "up", "up", "up")
	if err := same.Purge(); err == nil || !strings.Contains(err.Error(), "it runs") {
		t.Errorf("purge of what runs: %v", err)
	}

	if err := same.Pause("redis-3"); err != nil {
		t.Error(err)
	}
	if err := same.Down(); err != nil {
		t.Error(err)
	}
	wantStatus(t, same, "down", "down", "down", "down")
	if err := same.Purge(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(l.dir); err != nil || len(left) > 0 {
		t.Errorf("purge left %v, %v", left, err)
	}
}

// The pid of a dead server may be anybody's by now.
func TestLocalTrustsNoPidOfTheDead(t *testing.T) {
	l := newTestLocal(t)
	if err := l.Start(t.Context(), "redis-1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Kill("redis-1"); err != nil {
		t.Fatal(err)
	}
	file := l.folder(l.members[0]) + ".pid"
	if content, err := os.ReadFile(file); err != nil || len(content) == 0 {
		t.Fatalf("no pid file to be misled by: %q, %v", content, err)
	}
	if err := l.Kill("redis-1"); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
	if err := l.Kill("redis-4"); err == nil || !strings.Contains(err.Error(), "redis-3") {
		t.Errorf("a name that does not exist: %v", err)
	}
}
