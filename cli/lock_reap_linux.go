package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// reapOrphans waits, until over is closed, for the processes that a command has left behind. They
// become children of the first process of a container, and stay zombies if that does not wait.
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
			children, _ := os.ReadFile(list) // none: the thread has ended
			for _, child := range bytes.Fields(children) {
				if pid, err := strconv.Atoi(string(child)); err == nil && pid != command {
					_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // it may live
				}
			}
		}
	}
}
