//go:build !linux && !darwin

package files

import (
	"errors"
	"os"
)

// closeToMove closes a file before it is renamed: some systems rename no open file.
func closeToMove(f *os.File) error { return f.Close() }

// lockFile fails: files left by processes that died are not removed on this system.
func lockFile(*os.File, bool) error { return errors.ErrUnsupported }
