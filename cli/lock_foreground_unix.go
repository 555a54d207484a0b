//go:build unix

package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// inForeground reports whether our process group is that to which our terminal
// sends what is typed.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
