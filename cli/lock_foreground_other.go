//go:build !unix

package cli

// inForeground is about terminals that have process groups.
func inForeground() bool { return true }
