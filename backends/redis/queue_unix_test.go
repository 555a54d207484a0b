//go:build unix

package redis

import "syscall"

// listenAgain shortens the queue of a listening socket.
func listenAgain(fd uintptr) error { return syscall.Listen(int(fd), 0) }
