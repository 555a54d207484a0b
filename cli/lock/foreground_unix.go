//go:build unix

package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// inForeground reports whether this process is in the foreground process group of its
// terminal.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
