package services

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"salectl/internal/wait"
)

func TestServersDieWithTheirParent(t *testing.T) {
	_, err := redisServer.path()
	Require(t, err)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentOfRedis+"="+t.TempDir())
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent writes %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the server does not run: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	wait.Until(t, "the server to end", func() bool { return !alive(pid) })
}

// alive reports whether a process runs. One that waits for its parent to take note
// of its end does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// The kernel kills a server when the thread that started it ends. Go ends the
// thread of a goroutine that returns while it is locked to it.
func TestServersOutliveTheThreadOfTheirCaller(t *testing.T) {
	var r *Redis
	var err error
	var thread int
	done := make(chan struct{})
	var start func()
	start = func() {
		runtime.LockOSThread()
		if thread = syscall.Gettid(); thread == syscall.Getpid() {
			go start() // the first thread of a process never ends
			<-done
			return
		}
		defer close(done)
		r, err = StartRedis(t.Context(), RedisOptions{Dir: t.TempDir()})
	}
	go start()
	<-done
	Require(t, err)
	t.Cleanup(r.Stop)
	wait.Until(t, "the thread to end", func() bool {
		return exists(fmt.Sprintf("/proc/self/task/%d", thread)) != nil
	})
	wantAnswer(t, r, redisRequest, "+PONG")
}
