package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// A temporary file holds the content of a file that must appear complete or not at all. It is
// written beside that file under its own name and renamed at the end. Concurrent writers of
// the same file must not share a temporary file, which one of them renames.
//
// The writer holds a lock on the temporary file from its creation until it has its final name.
// An unlocked one was left by a process that died, and the next process removes it: it may be
// as large as the ledger.

// Save writes a file durably: to a temporary file, which is synced, and to which publish gives
// the final name. sync is that of os.File; tests replace it.
func Save(path string, sync, write func(*os.File) error, publish func(temp string) error) error {
	temp, err := CreateTemp(path)
	if err != nil {
		return err
	}
	defer temp.Close()
	defer os.Remove(temp.Name()) // fails harmlessly once the file has its final name
	for _, step := range []func(*os.File) error{write, sync, closeToMove} {
		if err := step(temp); err != nil {
			return err
		}
	}
	if err := publish(temp.Name()); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path)) // makes the name durable
	if err != nil {
		return err
	}
	return errors.Join(sync(folder), folder.Close())
}

// CreateTemp returns a new temporary file for path, after removing those left by processes
// that died.
func CreateTemp(path string) (*os.File, error) {
	RemoveTemps(path)
	for {
		f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
		if err != nil {
			return nil, err
		}
		if err := lockFile(f, true); err != nil {
			return f, nil // no locks on this file system: such files are never removed
		}
		// Before it was locked, another process may have removed it as left behind.
		if sameFile(f, f.Name()) {
			return f, nil
		}
		f.Close()
	}
}

// RemoveTemps removes the temporary files of path left by processes that died. Files that it
// cannot remove stay and only take space.
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

// isTemp reports whether CreateTemp makes such a name for the file of.
func isTemp(name, of string) bool {
	number, ok := strings.CutPrefix(name, of+".")
	if ok {
		number, ok = strings.CutSuffix(number, ".partial")
	}
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// sameFile reports whether name still refers to the open file.
func sameFile(f *os.File, name string) bool {
	open, err := f.Stat()
	named, err2 := os.Lstat(name)
	return errors.Join(err, err2) == nil && os.SameFile(open, named)
}
