//go:build !linux

package cli

import "syscall"

// tied is nothing where a child's life cannot be tied to its parent's: a command
// then outlives a lock run that is killed.
func tied() *syscall.SysProcAttr { return nil }
