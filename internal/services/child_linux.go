package services

import "syscall"

// childAttributes makes a server die with this process, however that ends; or,
// for one that is to stay, takes it out of the terminal's session, so that
// neither Ctrl-C nor closing the terminal reaches it.
func childAttributes(stay bool, as *account) *syscall.SysProcAttr {
	if stay {
		return &syscall.SysProcAttr{Setsid: true, Credential: as.credential()}
	}
	// A group of its own: Ctrl-C reaches only the process that started the
	// server, which stops it in its own time.
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: as.credential()}
}
