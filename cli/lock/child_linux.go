package lock

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// reapOrphans waits for orphaned processes of a command until over is closed. In a container
// they become children of its first process, and remain zombies unless that process waits for them.
func reapOrphans(command int, over <-chan struct{}) {
	if os.Getpid() != 1 {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, list := range lists {
			children, _ := os.ReadFile(list) // empty: the thread has ended
			for _, child := range bytes.Fields(children) {
				if pid, err := strconv.Atoi(string(child)); err == nil && pid != command {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // the child may be alive
				}
			}
		}
	}
}

// tied makes the kernel kill a command when this process ends: without it nothing renews the
// lock.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
