//go:build !unix

package cli

func openFiles() (int, bool) { return 0, false }
