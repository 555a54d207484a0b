package lock

import "syscall"

// tied makes the kernel kill a command when this process ends: without it nothing renews the
// lock.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
