//go:build !linux && !darwin

package services

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// These two have no meaning here; nothing is ever started that could get them.
const (
	sigPause    = syscall.Signal(0)
	sigContinue = syscall.Signal(0)
)

// supported reports whether this system can run the servers.
func supported() error {
	return fmt.Errorf("%w: local servers run on Linux and macOS, not on %s; on Windows use WSL", ErrMissing, runtime.GOOS)
}

func childAttributes(bool, *account) *syscall.SysProcAttr { return nil }

func lockFile(*os.File, lockHow) error { return supported() }
