package planner

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// A temporary file is one in which a file is written that is to be there in full or not
// at all: under a name of its own beside it, renamed in the end. Two who write the same
// file must not write into one temporary file, which one of them then renames.
//
// Who writes a temporary file has its lock as long as it is open, until it has its final
// name. So one that nobody has the lock of was left by a process that died, and the next
// process removes it: it may be as large as the ledger.

// MoveTemp calls move, which gives a temporary file its final name. The file stays
// locked meanwhile.
func MoveTemp(f *os.File, move func() error) error {
	if err := closeToMove(f); err != nil {
		return err
	}
	return move()
}

// CreateTemp returns a new temporary file of a path, and removes those that processes
// which died have left. It is to be closed after MoveTemp.
func CreateTemp(path string) (*os.File, error) {
	RemoveTemps(path)
	for {
		f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
		if err != nil {
			return nil, err
		}
		if err := lockFile(f, true); err != nil {
			return f, nil // no locks on this file system: nobody removes it
		}
		// Before it had the lock, it may have been taken for one that was left.
		if sameFile(f, f.Name()) {
			return f, nil
		}
		f.Close()
	}
}

// RemoveTemps removes the temporary files of a path that processes which died have left.
// What it cannot remove stays: it takes room and is in nobody's way.
func RemoveTemps(path string) {
	dir := filepath.Dir(path)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !e.Type().IsRegular() || !isTemp(e.Name(), filepath.Base(path)) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		if lockFile(f, false) == nil && sameFile(f, name) {
			_ = os.Remove(name)
		}
		f.Close()
	}
}

// isTemp reports whether a name is one that CreateTemp makes for a file.
func isTemp(name, of string) bool {
	number, ok := strings.CutPrefix(name, of+".")
	if ok {
		number, ok = strings.CutSuffix(number, ".partial")
	}
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// sameFile reports whether a name still is that of an open file.
func sameFile(f *os.File, name string) bool {
	open, err := f.Stat()
	named, err2 := os.Lstat(name)
	return errors.Join(err, err2) == nil && os.SameFile(open, named)
}
