package services

import "syscall"

// childAttributes takes a server that is to stay out of the terminal's session.
// macOS cannot tie a child to its parent's life: there a server ends with Stop,
// or with the terminal that its group still belongs to.
func childAttributes(stay bool, as *account) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: stay, Credential: as.credential()}
}
