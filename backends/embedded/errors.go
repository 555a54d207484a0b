package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"zombiezen.com/go/sqlite"
)

// What can be wrong with a file. The messages around them name the path.
var (
	ErrFull       = errors.New("the disk is full; free some space and try again, what was acknowledged is safe")
	ErrReadOnly   = permissionError("it cannot be written; run this as the user who serves the sale, or give this user the right to write the folder and its files, and check that the disk is not mounted read-only")
	ErrUnreadable = permissionError("it cannot be read; give this user the right to read the folder and its files")
	ErrDamaged    = errors.New("the file is damaged; put back a copy of the whole folder, or move it away and begin a new run of the sale")
	ErrForeign    = errors.New("the file was not made by salectl for this; name another folder under embedded.dir")
	ErrVersion    = errors.New("the file was written by another version of salectl; use that version")
	ErrBusy       = errors.New("another process did not let go of the file; look for one that is stopped or stuck")
	ErrClosed     = errors.New("the store is closed")
)

// permissionError is a fs.ErrPermission in words of its own: to try again does not help.
type permissionError string

func (e permissionError) Error() string        { return string(e) }
func (e permissionError) Is(target error) bool { return target == fs.ErrPermission }

// errAbsent says that there is no database yet. It never leaves the package.
var errAbsent = errors.New("no database yet")

// explain turns what SQLite or the file system says about a path into one of
// the errors above. What it does not know keeps its own words.
func explain(path string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.As(err, new(permissionError)) {
		return fmt.Errorf("%s: %w", path, err)
	}
	if known := cause(err); known != nil {
		return fmt.Errorf("%s: %w (%v)", path, known, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func cause(err error) error {
	code := sqlite.ErrCode(err)
	if code == sqlite.ResultIOErrSHMSize {
		return ErrFull // the index of the write-ahead log could not grow
	}
	switch code.ToPrimary() {
	case sqlite.ResultFull:
		return ErrFull
	case sqlite.ResultReadOnly, sqlite.ResultCantOpen, sqlite.ResultPerm:
		return ErrReadOnly
	case sqlite.ResultCorrupt:
		return ErrDamaged
	case sqlite.ResultNotADB:
		return ErrForeign
	case sqlite.ResultBusy, sqlite.ResultProtocol:
		return ErrBusy
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return ErrFull
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return ErrReadOnly
	}
	return nil
}

func isBusy(err error) bool {
	return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy
}
