//go:build unix

package server

import "golang.org/x/sys/unix"

// openFiles returns the maximum number of open files of this process, including connections;
// false: there is no limit.
func openFiles() (int, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0, false
	}
	return int(limit.Cur), true
}
