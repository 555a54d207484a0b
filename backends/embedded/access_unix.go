//go:build unix

package embedded

import "golang.org/x/sys/unix"

// mayWrite reports whether this process may write an existing file. It does not open the file:
// closing it again would drop SQLite's locks on it.
func mayWrite(path string) bool { return may(path, unix.W_OK|unix.R_OK) }

func mayRead(path string) bool { return may(path, unix.R_OK) }

func may(path string, mode uint32) bool {
	err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	return err != unix.EACCES && err != unix.EROFS && err != unix.EPERM
}
