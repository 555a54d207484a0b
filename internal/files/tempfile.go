package files

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Saving is a way to write files.
type Saving struct {
	Mode    fs.FileMode // 0: only the owner can read the file
	Replace bool        // replace an existing file; otherwise one with other content is an ExistsError
	// Check checks the file on disk before it gets its final name; nil: no check.
	Check func(temp string) error
	Sync  func(*os.File) error // nil: that of os.File; tests replace it
}

// ExistsError reports a file that would have to be overwritten.
type ExistsError struct {
	Path string
	What string // the difference from the file to be written, as a predicate
}

// ErrExists is the error that every ExistsError wraps.
var ErrExists = errors.New("the file exists")

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s exists, and %s: move it away, or name another file", e.Path, e.What)
}

// Unwrap returns ErrExists.
func (e *ExistsError) Unwrap() error { return ErrExists }

// Save writes a file durably: to a temporary file, which is synced, and then gets the final name. It
// returns the SHA-256.
func (s Saving) Save(path string, write func(io.Writer) error) (digest []byte, err error) {
	if s.Sync == nil {
		s.Sync = (*os.File).Sync
	}
	defer func() { err = atTarget(path, err) }()
	temp, err := CreateTemp(path)
	if err != nil {
		return nil, err
	}
	defer temp.Close()
	defer os.Remove(temp.Name()) // fails harmlessly once the file has its final name
	content := sha256.New()
	if err := write(io.MultiWriter(temp, content)); err != nil {
		return nil, err
	}
	if s.Mode != 0 {
		if err := temp.Chmod(s.Mode); err != nil {
			return nil, err
		}
	}
	for _, step := range []func(*os.File) error{s.Sync, closeToMove} {
		if err := step(temp); err != nil {
			return nil, err
		}
	}
	if s.Check != nil {
		if err := s.Check(temp.Name()); err != nil {
			return nil, err
		}
	}
	digest = content.Sum(nil)
	if err := s.publish(temp.Name(), path, digest); err != nil {
		return nil, err
	}
	folder, err := os.Open(filepath.Dir(path)) // makes the name durable
	if err != nil {
		return nil, err
	}
	return digest, errors.Join(s.Sync(folder), folder.Close())
}

// publish gives a temporary file its final name. Unlike a rename, a link never replaces a file that
// another process has created meanwhile.
func (s Saving) publish(temp, path string, digest []byte) error {
	if !s.Replace {
		if os.Link(temp, path) == nil {
			return nil
		}
		// The name is taken, or the file system has no links.
		switch has, err := digestOf(path); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !bytes.Equal(has, digest):
			return &ExistsError{path, "has other content"}
		}
	}
	return os.Rename(temp, path) // a file with the same bytes may not be synced
}

func digestOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	digest := sha256.New()
	_, err = io.Copy(digest, f)
	return digest.Sum(nil), err
}

// CreateTemp returns a new temporary file for path, after removing those left by processes
// that died.
func CreateTemp(path string) (*os.File, error) {
	RemoveTemps(path)
	for {
		f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial")
		if err != nil {
			return nil, atTarget(path, err)
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

// CheckWritable returns an error if no file can be created at a path.
func CheckWritable(path string) error {
	temp, err := CreateTemp(path)
	if err != nil {
		return err
	}
	return atTarget(path, errors.Join(temp.Close(), os.Remove(temp.Name())))
}

// atTarget explains an error of a file; that of a call on a temporary file of path names path.
func atTarget(path string, err error) error {
	link, renamed := errors.AsType[*os.LinkError](err)
	failed, is := errors.AsType[*fs.PathError](err)
	switch {
	case renamed:
		return Unwritten(path, link.Err)
	case is && isTemp(filepath.Base(failed.Path), filepath.Base(path)):
		return Unwritten(path, failed.Err)
	case is:
		return Explain(failed.Path, err)
	}
	return err
}

// Unwritten returns the Error of a failed call that writes the file at path.
func Unwritten(path string, err error) *Error { return explain(path, err, "write", "written") }

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
