//go:build unix

package cli

import "golang.org/x/sys/unix"

// openFiles returns how many files this process may have open, connections among
// them; false: as many as it likes.
func openFiles() (int, bool) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur > 1<<30 {
		return 0, false
	}
	return int(limit.Cur), true
}
