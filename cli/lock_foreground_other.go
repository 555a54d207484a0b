//go:build !unix

package cli

// inForeground returns true where terminals have no process groups.
func inForeground() bool { return true }
