package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"zombiezen.com/go/sqlite"
)

// The faults of a file. The errors that wrap them name the path.
var (
	ErrFull       = errors.New("the disk is full; free some space and try again, what was acknowledged is safe")
	ErrReadOnly   = permissionError("it cannot be written; run the command as the user who serves the sale, or grant this user write access to the folder and its files; check that the disk is not mounted read-only")
	ErrUnreadable = permissionError("it cannot be read; grant this user read access to the folder and its files")
	ErrDamaged    = errors.New("the file is damaged; restore a copy of the whole folder, or move it away and start a new run of the sale")
	ErrForeign    = errors.New("the file is not a store of salectl; name another folder under embedded.dir")
	ErrVersion    = errors.New("the file was written by another version of salectl; use that version")
	ErrBusy       = errors.New("another process keeps the file locked; find a stopped or hanging one")
	ErrClosed     = errors.New("the store is closed")
)

// permissionError is an error with its own text that is also fs.ErrPermission: a retry is
// useless.
type permissionError string

func (e permissionError) Error() string        { return string(e) }
func (e permissionError) Is(target error) bool { return target == fs.ErrPermission }

// errAbsent reports that there is no database yet. It does not leave the package.
var errAbsent = errors.New("no database yet")

// explain converts an error of SQLite or the file system about a path to one of the errors
// above. An unknown error keeps its text.
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
