//go:build !linux && !darwin

package planner

import (
	"errors"
	"os"
)

// closeToMove does what is needed before a file is renamed: some systems move none that
// is open.
func closeToMove(f *os.File) error { return f.Close() }

// lockFile fails: what a process leaves behind that dies is not removed here.
func lockFile(*os.File, bool) error { return errors.ErrUnsupported }
