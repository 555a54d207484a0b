package cli

import "syscall"

// tied makes a command die with this process, however that ends: without us
// nobody renews its lock.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
