//go:build !linux

package lock

import "syscall"

// tied returns nil where a child cannot be bound to its parent: a command then outlives a
// killed lock run.
func tied() *syscall.SysProcAttr { return nil }

// reapOrphans does nothing where salectl is not the first process of a container.
func reapOrphans(int, <-chan struct{}) {}
