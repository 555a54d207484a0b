package embedded

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
)

// openRead connects to the file for reading. A process that may write the file and its folder
// reads like a writer, and SQLite creates and removes the files beside it. Any other process
// creates nothing.
func (d *database) openRead() (*session, error) {
	if !d.readOnly && mayWrite(d.path) {
		s, err := d.open(false)
		if err == nil || cause(err) != ErrReadOnly {
			return s, err
		}
	}
	return untilFree(d.openReadOnly)
}

// openReadOnly connects to the file without the right to write it.
//
// While a process has the file open, or after it was killed, the write-ahead log and its index
// exist: SQLite reads both, with locks against the writer. Otherwise neither exists, and
// neither could be created. Then the file is complete, and is read as immutable; see
// session.frozen.
func (d *database) openReadOnly() (*session, error) {
	file, err := os.Stat(d.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, errAbsent
	case errors.Is(err, os.ErrPermission):
		return nil, ErrUnreadable
	case err != nil:
		return nil, err
	case !mayRead(d.path) || !mayRead(d.path+"-wal") || !mayRead(d.path+"-shm"):
		return nil, ErrUnreadable
	}
	var frozen os.FileInfo
	options := "mode=ro&readonly_shm=1"
	if !logged(d.path) {
		frozen, options = file, "mode=ro&immutable=1"
	}
	name := url.URL{Scheme: "file", Path: d.path, RawQuery: options}
	conn, err := sqlite.OpenConn(name.String(), sqlite.OpenReadOnly, sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(lockWait)
	s := &session{Conn: conn, file: file, frozen: frozen}
	empty, err := d.identify(conn)
	switch {
	case !s.current(d.path):
		err = errChanged // whatever was read from it
	case err == nil && empty:
		err = errAbsent
	case err == nil:
		_, err = pragma(conn, fmt.Sprintf("cache_size = -%d", cacheKiB))
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// errChanged reports that a file that was read as immutable has changed.
var errChanged = errors.New("the file has changed while it was read")

// logged reports whether the file has a write-ahead log, with changes that the file lacks.
func logged(path string) bool {
	_, err := os.Stat(path + "-wal")
	return err == nil
}

// unchanged reports whether a file is unmodified and no process has it open for writing.
func unchanged(path string, was os.FileInfo) bool {
	is, err := os.Stat(path)
	return err == nil && os.SameFile(is, was) && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime()) && !logged(path)
}

// untilFrozen repeats a read while the file changes during it.
func untilFrozen(try func() error) error {
	for begin := time.Now(); ; time.Sleep(pollEvery) {
		if err := try(); !errors.Is(err, errChanged) || time.Since(begin) > lockWait {
			return err
		}
	}
}
