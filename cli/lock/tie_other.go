//go:build !linux

package lock

import "syscall"

// tied returns nil where a child cannot be bound to its parent: a command then outlives a
// killed lock run.
func tied() *syscall.SysProcAttr { return nil }
