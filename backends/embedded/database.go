package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Measured with batches of 3 KB and 32 KB from five logs: pages of 8 KB write small batches as
// fast as pages of 4 KB and large ones 15% faster; a checkpoint every 4 MB delays a commit by 4
// ms, every 64 MB by 100 ms, and neither changes the throughput. Reading through mmap is off:
// truncating the file would then kill the process instead of causing an error.
const (
	pageSize        = 8 << 10
	checkpointPages = 4 << 20 / pageSize
	cacheKiB        = 8 << 10
	walKeptBytes    = 16 << 20 // size to which a write-ahead log is cut that grew during a long read
)

// lockWait is how long an operation waits for another process's lock.
const lockWait = 10 * time.Second

// database describes one kind of file.
type database struct {
	path string
	// appID and version are stored in the file's header. They distinguish a wrong file from a
	// damaged one, and from that of another version of salectl.
	appID, version int64
	tables         string
	seed           func(*sqlite.Conn) error // fills new tables; may be nil
	synchronous    string                   // FULL or NORMAL

	// Set only by tests: open without the right to write, and the size at which the file counts
	// as full.
	readOnly bool
	maxPages int
}

// session is a connection and its file.
type session struct {
	*sqlite.Conn
	file os.FileInfo
	// frozen is the state of the file if it is read as immutable, without locks against
	// writers. What was read is valid only if the session is still current afterwards.
	frozen os.FileInfo
}

// current reports whether the path still leads to the session's file. Otherwise the folder was
// removed or replaced, and the session must not be used: two processes would sell the same
// stock from two files of one name.
func (s *session) current(path string) bool {
	if s.frozen != nil {
		return unchanged(path, s.frozen)
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, s.file)
}

// open connects to the file. If the file is absent or its creation is unfinished, open creates
// it with create, and otherwise returns errAbsent.
func (d *database) open(create bool) (*session, error) {
	flags := sqlite.OpenReadWrite
	switch {
	case d.readOnly:
		flags = sqlite.OpenReadOnly
	case create:
		if err := makeFolder(filepath.Dir(d.path)); err != nil {
			return nil, err
		}
		flags |= sqlite.OpenCreate
	}
	_, err := os.Stat(d.path)
	absent := errors.Is(err, os.ErrNotExist)
	if absent && !create {
		return nil, errAbsent
	}
	conn, err := sqlite.OpenConn(d.path, flags)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(lockWait)
	file, err := os.Stat(d.path)
	if err == nil && absent {
		// The file contains users and request keys. SQLite creates its other files with the same mode.
		err = os.Chmod(d.path, file.Mode().Perm()&^0o007)
	}
	if err == nil {
		err = d.accept(conn, create)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &session{Conn: conn, file: file}, nil
}

// accept checks whose file this is before it changes anything, and creates the tables of a new
// file.
func (d *database) accept(conn *sqlite.Conn, create bool) error {
	empty, err := d.identify(conn)
	if empty {
		if !create {
			return errAbsent
		}
		err = d.format(conn)
	}
	if err != nil {
		return err
	}
	pragmas := []string{
		"synchronous = " + d.synchronous,
		fmt.Sprintf("wal_autocheckpoint = %d", checkpointPages),
		fmt.Sprintf("journal_size_limit = %d", walKeptBytes),
		fmt.Sprintf("cache_size = -%d", cacheKiB),
	}
	if d.synchronous == "FULL" {
		// Without these, macOS leaves synced data in the drive's cache.
		pragmas = append(pragmas, "fullfsync = on", "checkpoint_fullfsync = on")
	}
	if d.maxPages > 0 {
		pragmas = append(pragmas, fmt.Sprintf("max_page_count = %d", d.maxPages))
	}
	for _, p := range pragmas {
		if _, err := pragma(conn, p); err != nil {
			return err
		}
	}
	return nil
}

// identify reads the header. empty reports that nothing was written to the file yet.
func (d *database) identify(conn *sqlite.Conn) (empty bool, err error) {
	var id, version, tables int64
	err = sqlitex.ExecuteTransient(conn, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`,
		&sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			id, version, tables = s.ColumnInt64(0), s.ColumnInt64(1), s.ColumnInt64(2)
			return nil
		}})
	switch {
	case err != nil:
		return false, err
	case id == 0 && version == 0 && tables == 0:
		return true, nil
	case id != d.appID:
		return false, ErrForeign
	case version != d.version:
		return false, fmt.Errorf("%w: its format is %d, this one reads %d", ErrVersion, version, d.version)
	}
	return false, nil
}

// format sets the journal mode of an empty file and creates its tables. If the process is
// killed meanwhile, the file stays empty and the next writer repeats format.
func (d *database) format(conn *sqlite.Conn) error {
	if _, err := pragma(conn, fmt.Sprintf("page_size = %d", pageSize)); err != nil {
		return err
	}
	mode, err := untilFree(func() (string, error) { return pragma(conn, "journal_mode = wal") })
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("this file system cannot share memory between processes (journal mode %s); use a local disk", mode)
	}
	if err := d.fill(conn); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(d.path))
}

func (d *database) fill(conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	// Another process may have been faster since the last identify.
	if empty, err := d.identify(conn); err != nil || !empty {
		return err
	}
	script := fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d;", d.tables, d.appID, d.version)
	if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
		return err
	}
	if d.seed != nil {
		return d.seed(conn)
	}
	return nil
}

// pragma runs one pragma and returns its result, if any.
func pragma(conn *sqlite.Conn, set string) (answer string, err error) {
	err = sqlitex.ExecuteTransient(conn, "PRAGMA "+set, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		answer = s.ColumnText(0)
		return nil
	}})
	return answer, err
}

// untilFree repeats an operation that SQLite refuses at once, without its usual waiting, while
// several processes create the file.
func untilFree[T any](try func() (T, error)) (T, error) {
	for begin := time.Now(); ; time.Sleep(pollEvery) {
		v, err := try()
		if err == nil || !isBusy(err) || time.Since(begin) > lockWait {
			return v, err
		}
	}
}

// folder returns dir as an absolute path, so that a change of the working directory has no
// effect. It returns an error if dir cannot become a folder.
func folder(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("embedded folder %s: %w", dir, err)
	}
	switch info, err := os.Stat(abs); {
	case err == nil && !info.IsDir():
		return "", fmt.Errorf("embedded folder %s is a file; name a folder under embedded.dir", abs)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return "", explain(abs, err)
	}
	return abs, nil
}

// makeFolder creates dir and its missing parents, and syncs each name to the disk: a file is
// only as durable as its path.
func makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// query calls each with the rows of a statement until there are no more, or each returns false.
// An argument is a string, an int64 or a []byte.
func query(conn *sqlite.Conn, each func(row *sqlite.Stmt) (more bool), sql string, args ...any) error {
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case string:
			stmt.BindText(i+1, v)
		case int64:
			stmt.BindInt64(i+1, v)
		case []byte:
			stmt.BindBytes(i+1, v)
		}
	}
	for {
		found, err := stmt.Step()
		if err != nil {
			return err
		}
		if !found || !each(stmt) {
			return stmt.Reset() // otherwise the statement would keep its transaction open
		}
	}
}

// first calls read with the first row of a statement, and reports whether there was one.
func first(conn *sqlite.Conn, read func(row *sqlite.Stmt), sql string, args ...any) (found bool, err error) {
	err = query(conn, func(row *sqlite.Stmt) bool {
		read(row)
		found = true
		return false
	}, sql, args...)
	return found, err
}

// execute runs a statement that returns no rows.
func execute(conn *sqlite.Conn, sql string, args ...any) error {
	return query(conn, func(*sqlite.Stmt) bool { return false }, sql, args...)
}
