//go:build linux || darwin

package files

import (
	"errors"
	"os"
	"syscall"
)

// closeToMove does nothing before a rename, so that the file stays locked.
func closeToMove(*os.File) error { return nil }

// lockFile locks a file until it is closed or the process ends. If wait is false and another
// process has the lock, it fails.
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
