// Package files reads files of others: a path may be a pipe without a writer, or on a mount
// that does not answer. No call of this package waits longer than Patience for the system.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Patience bounds the wait for the system in one call.
const Patience = 5 * time.Second

var patience = Patience // shorter in tests

// ErrSlow reports that the system did not answer within Patience.
var ErrSlow = fmt.Errorf("the system has not answered for %v: check the file system of the path, or the writer of the pipe", Patience)

// ErrNoWriter reports a path that is a pipe without a writer.
var ErrNoWriter = errors.New("it is a pipe without a writer")

// mostStuck is the maximum number of abandoned calls for one path that the system has not
// answered. Each occupies a thread.
const mostStuck = 4

var (
	stuckMu sync.Mutex
	stuck   = map[string]int{} // number of abandoned calls, by path
)

// call makes a system call. If it does not return within Patience, it is abandoned; late, if
// not nil, receives its later result.
func call[T any](path string, f func() (T, error), late func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	slow := Explain(path, ErrSlow)
	stuckMu.Lock()
	full := stuck[path] >= mostStuck
	stuckMu.Unlock()
	if full {
		return none, slow
	}
	done := make(chan result, 1)
	go func() {
		value, err := f()
		done <- result{value, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		if r.err != nil && r.err != io.EOF {
			r.err = Explain(path, r.err)
		}
		return r.value, r.err
	case <-timer.C:
	}
	leave(path, 1)
	go func() {
		if r := <-done; r.err == nil && late != nil {
			late(r.value)
		}
		leave(path, -1)
	}()
	return none, slow
}

func leave(path string, n int) {
	stuckMu.Lock()
	defer stuckMu.Unlock()
	if stuck[path] += n; stuck[path] == 0 {
		delete(stuck, path)
	}
}

// File is a file that is open for reading. It is not safe for concurrent use.
type File struct {
	file *os.File
	path string
	pipe bool   // a pipe of which nothing was read yet
	buf  []byte // buffer of the current read, which may be abandoned
	slow error  // error of an abandoned call; the file is unusable then
}

// Open opens a file for reading.
func Open(path string) (*File, error) {
	// Otherwise the open of a pipe without a writer would block.
	file, err := call(path, func() (*os.File, error) {
		return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}, func(f *os.File) { f.Close() })
	if err != nil {
		return nil, err
	}
	f := &File{file: file, path: path}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	f.pipe = info.Mode()&fs.ModeNamedPipe != 0
	return f, nil
}

// mostAtOnce is the maximum number of bytes of one system call.
const mostAtOnce = 256 << 10

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	if n := min(len(p), mostAtOnce); n > len(f.buf) {
		f.buf = make([]byte, n)
	}
	buf := f.buf[:min(len(p), len(f.buf))]
	n, err := callOf(f, func() (int, error) { return f.file.Read(buf) })
	if f.pipe && err == io.EOF {
		err = Explain(f.path, ErrNoWriter)
	}
	f.pipe = false
	return copy(p, buf[:n]), err
}

// Stat describes the file.
func (f *File) Stat() (fs.FileInfo, error) { return callOf(f, f.file.Stat) }

// callOf is call for an open file. After an abandoned call every further one fails.
func callOf[T any](f *File, do func() (T, error)) (result T, err error) {
	if f.slow != nil {
		return result, f.slow
	}
	result, err = call(f.path, do, nil)
	if errors.Is(err, ErrSlow) {
		f.slow = err
	}
	return result, err
}

// Close closes the file. If the system does not answer, the file is closed later.
func (f *File) Close() error {
	_, err := call(f.path, func() (struct{}, error) { return struct{}{}, f.file.Close() }, nil)
	return err
}

// Read reads a file of at most most bytes. Of a longer one it returns most+1 bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// Stat is os.Stat, bounded by Patience.
func Stat(path string) (fs.FileInfo, error) {
	return call(path, func() (fs.FileInfo, error) { return os.Stat(path) }, nil)
}

// Error is a failed call on a file.
type Error struct {
	Path   string
	Why    string // a clause that follows the path
	Remedy string // a sentence
	Err    error
}

func (e *Error) Error() string { return e.Path + ": " + e.Why }

// Unwrap returns the error of the system.
func (e *Error) Unwrap() error { return e.Err }

// Explain returns the Error of a failed call that reads the file or folder at path, which err may be.
func Explain(path string, err error) *Error { return explain(path, err, "read", "read") }

func explain(path string, err error, verb, done string) *Error {
	if e, is := errors.AsType[*Error](err); is {
		return e
	}
	if failed, is := errors.AsType[*fs.PathError](err); is {
		err = failed.Err
	}
	writes := verb == "write"
	switch {
	case writes && errors.Is(err, fs.ErrNotExist):
		return &Error{path, "there is no folder " + filepath.Dir(path), "Create the folder, or name another file.", err}
	case errors.Is(err, fs.ErrNotExist):
		return &Error{path, "there is no such file or folder", "Check the path; it is relative to the working directory.", err}
	case errors.Is(err, syscall.EISDIR), writes && errors.Is(err, fs.ErrExist):
		return &Error{path, "it is a folder", "Name a file.", err}
	case errors.Is(err, fs.ErrPermission):
		return &Error{path, fmt.Sprintf("this user may not %s it", verb), fmt.Sprintf("Give %s permission, or run as a user who has it.", verb), err}
	}
	return &Error{path, fmt.Sprintf("it cannot be %s: %v", done, err), "Check the path and the disk.", err}
}

// ReadDir is os.ReadDir, bounded by Patience.
func ReadDir(path string) ([]fs.DirEntry, error) {
	return call(path, func() ([]fs.DirEntry, error) { return os.ReadDir(path) }, nil)
}

// ExposedError reports a file with a secret that everyone on the machine can read.
type ExposedError struct {
	Path string
	Mode fs.FileMode
}

func (e *ExposedError) Error() string {
	return fmt.Sprintf("everyone can read %s (mode %04o); run: chmod o-rwx %s; or, where it comes from a volume of Kubernetes, give the volume defaultMode: 0400",
		e.Path, e.Mode.Perm(), e.Path)
}

// ReadSecret is Read for a file that must not be readable by everyone on the machine: else the
// error is an *ExposedError.
func ReadSecret(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o004 != 0 {
		return nil, &ExposedError{path, mode}
	}
	return io.ReadAll(io.LimitReader(f, most+1))
}
