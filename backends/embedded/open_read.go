package embedded

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
)

// openRead connects to the file for reading alone. Whoever may write the file and its folder
// reads as writers do; SQLite makes and removes the files beside it. Whoever may not
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
// While somebody has the file open, or was killed over it, the write-ahead log is there and
// its index: SQLite reads both, and locks what it reads against the writer. Else neither is
// there, and could not be made. Then the file alone has everything, and is read as one that
// does not change; see session.frozen.
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
		err = errChanged // whatever was read of it
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

// errChanged says that a file that was taken for one that does not change has changed.
var errChanged = errors.New("the file has changed while it was read")

// logged reports whether there is a write-ahead log, which has news that the file lacks.
func logged(path string) bool {
	_, err := os.Stat(path + "-wal")
	return err == nil
}

// unchanged reports whether a file is as it was: nobody has it open for writing, and nobody has
// written it meanwhile.
func unchanged(path string, was os.FileInfo) bool {
	is, err := os.Stat(path)
	return err == nil && os.SameFile(is, was) && is.Size() == was.Size() && is.ModTime().Equal(was.ModTime()) && !logged(path)
}

// untilFrozen repeats a read as long as the file changes under it.
func untilFrozen(try func() error) error {
	for begin := time.Now(); ; time.Sleep(pollEvery) {
		if err := try(); !errors.Is(err, errChanged) || time.Since(begin) > lockWait {
			return err
		}
	}
}
