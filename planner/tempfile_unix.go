//go:build linux || darwin

package planner

import (
	"errors"
	"os"
	"syscall"
)

// closeToMove does what is needed before a file is renamed: nothing, so that it stays
// locked.
func closeToMove(*os.File) error { return nil }

// lockFile locks a file until it is closed or the process ends. Unless it may wait,
// it fails if another has the lock.
func lockFile(f *os.File, wait bool) error {
	flags := syscall.LOCK_EX
	if !wait {
		flags |= syscall.LOCK_NB
	}
	for {
		if err := syscall.Flock(int(f.Fd()), flags); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
