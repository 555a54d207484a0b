//go:build linux || darwin

package services

import (
	"errors"
	"os"
	"syscall"
)

const (
	sigPause    = syscall.SIGSTOP
	sigContinue = syscall.SIGCONT
)

// supported reports whether this system can run the servers.
func supported() error { return nil }

// lockFile locks a file until the last process that has it open through f ends
// or closes it. It returns errLocked if it does not wait and another has it.
func lockFile(f *os.File, how lockHow) error {
	flags := map[lockHow]int{
		lockAndWait: syscall.LOCK_EX,
		lockOrFail:  syscall.LOCK_EX | syscall.LOCK_NB,
		probeOrFail: syscall.LOCK_SH | syscall.LOCK_NB,
	}[how]
	for {
		err := syscall.Flock(int(f.Fd()), flags)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLocked
		default:
			return err
		}
	}
}

// credential is what a process of the account is started with; of nil, that of this process.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}
