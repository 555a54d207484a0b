package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

func TestUnsuitableFiles(t *testing.T) {
	sqlite3 := func(path string, statements ...string) {
		conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, s := range statements {
			if err := execute(conn, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		make func(path string)
		want error
	}{
		"somebody's database": {func(path string) { sqlite3(path, "CREATE TABLE theirs (x)") }, ErrForeign},
		"other program's":     {func(path string) { sqlite3(path, "PRAGMA application_id = 77") }, ErrForeign},
		"no database":         {func(path string) { mustWrite(t, path, bytes.Repeat([]byte("not a database\n"), 1000)) }, ErrForeign},
		"the lock node's": {func(path string) {
			node := mustOpenNode(t, filepath.Dir(path), time.Now)
			if err := errors.Join(node.Mark(t.Context(), "marker", ""), node.Close(), os.Rename(filepath.Join(filepath.Dir(path), locksFile), path)); err != nil {
				t.Fatal(err)
			}
		}, ErrForeign},
		"a newer format": {func(path string) {
			makeLedger(t, filepath.Dir(path), 1)
			sqlite3(path, "PRAGMA user_version = 2")
		}, ErrVersion},
		"an older format": {func(path string) {
			makeLedger(t, filepath.Dir(path), 1)
			sqlite3(path, "PRAGMA user_version = 0")
		}, ErrVersion},
		"damaged": {func(path string) {
			makeLedger(t, filepath.Dir(path), 50)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 2 * pageSize; i < len(data); i += 7 {
				data[i] ^= 0x55
			}
			mustWrite(t, path, data)
		}, ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), ledgerFile)
			test.make(path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			logs := mustOpenLogs(t, filepath.Dir(path))
			errAppend := logs.Append(t.Context(), "log 0", 0, nil, []byte("head"), []byte("entry"))
			_, _, errRead := logs.Read(t.Context(), "log 0", 0, 100)
			for _, err := range []error{errAppend, errRead} {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%v\nwant the path and: %v", err, test.want)
				}
			}
			logs.Close()
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was changed (%v)", err)
			}
		})
	}
}

func mustWrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

func makeLedger(t *testing.T, dir string, entries int) {
	t.Helper()
	logs := mustOpenLogs(t, dir)
	c := &chain{logs: logs, log: "log 0"}
	for range entries {
		c.mustAppend(t, make([]byte, 10_000))
	}
	if err := logs.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFolderThatIsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	mustWrite(t, path, nil)
	for _, dir := range []string{path, filepath.Join(path, "below")} {
		if _, err := OpenLogs(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("OpenLogs(%s): %v, want an error that names the file", dir, err)
		}
		if _, err := OpenNode(dir, ThisHost()); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("OpenNode(%s): %v, want an error that names the file", dir, err)
		}
	}
}

// A handle that went on with a file that is no longer at its path would sell
// the stock beside whoever finds the new one.
func TestRemovedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sale")
	old, other := &chain{logs: mustOpenLogs(t, dir), log: "log"}, mustOpenLogs(t, dir)
	old.mustAppend(t, []byte("old"))
	if _, _, err := other.Read(t.Context(), "log", 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := old.append(t.Context(), []byte("late")); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("append to a log whose file is gone: %v, want ErrTaken", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there again (%v)", err)
	}
	if head, _, err := other.Read(t.Context(), "log", 0, 1); head != nil || err != nil {
		t.Errorf("another handle still reads the head %q, %v", head, err)
	}

	begun := &chain{logs: other, log: "log"}
	begun.mustAppend(t, []byte("new"))
	if err := old.append(t.Context(), []byte("late")); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("append with the head of the removed file: %v, want ErrTaken", err)
	}
	_, entries, err := old.logs.Read(t.Context(), "log", 0, 10)
	if err != nil || !slices.EqualFunc(entries, [][]byte{[]byte("new")}, bytes.Equal) {
		t.Errorf("the handle of before reads %q, %v; want the new entry", entries, err)
	}
}

// TestReadWithoutTheRightToWrite reads with one handle that may not write while others come,
// write and go: what it reads is what was written last, and it makes no file.
func TestReadWithoutTheRightToWrite(t *testing.T) {
	dir := t.TempDir()
	db := ledgerDatabase(dir)
	db.readOnly = true
	reader := newLogs(db)
	t.Cleanup(func() { reader.Close() })
	c := &chain{log: "log"}
	files := func() (names []string) {
		t.Helper()
		there, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range there {
			names = append(names, f.Name())
		}
		return names
	}
	read := func(when string) {
		t.Helper()
		before := files()
		head, entries, err := reader.Read(t.Context(), "log", 0, 1000)
		if err != nil || !bytes.Equal(head, c.head) || len(entries) != int(c.next) {
			t.Errorf("%s: it reads %d entries and the head %s, %v; want %d and %s", when, len(entries), head, err, c.next, c.head)
		}
		if after := files(); !slices.Equal(after, before) {
			t.Errorf("%s: the files were %v, and after reading %v", when, before, after)
		}
	}
	read("before there is a file")
	for round := range 3 {
		writer := mustOpenLogs(t, dir)
		c.logs = writer
		read("before the writer writes")
		c.mustAppend(t, make([]byte, 20_000))
		read("beside a writer")
		c.mustAppend(t, make([]byte, 20_000))
		read("beside a writer, later")
		writer.Close()
		read(fmt.Sprint("after writer ", round))
		reader.Close()
		reader = newLogs(db)
		read(fmt.Sprint("anew after writer ", round))
		// In one process SQLite shares the index of the write-ahead log, also one that was
		// opened for reading alone.
		reader.Close()
		own := mustOpenLogs(t, dir) // whoever may write comes by, and takes away what is left
		if _, _, err := own.Read(t.Context(), "log", 0, 1); err != nil {
			t.Error(err)
		}
		own.Close()
		reader = newLogs(db)
		read("at rest")
	}
}

// What is read while the file changes is read again.
func TestReadWhileTheFileChanges(t *testing.T) {
	dir := t.TempDir()
	makeLedger(t, dir, 1)
	db := ledgerDatabase(dir)
	db.readOnly = true
	reader := newReaders(db)
	defer reader.close()
	runs, seen := 0, int64(0)
	err := reader.do(t.Context(), func(conn *sqlite.Conn) error {
		if runs++; runs == 1 {
			c := &chain{logs: mustOpenLogs(t, dir), log: "log 1"}
			for range 3 {
				c.mustAppend(t, make([]byte, 10_000))
			}
			if err := c.logs.Close(); err != nil {
				t.Error(err)
			}
		}
		_, err := first(conn, func(row *sqlite.Stmt) { seen = row.ColumnInt64(0) }, "SELECT count(*) FROM entries")
		return err
	})
	if err != nil || runs != 2 || seen != 4 {
		t.Errorf("after %d runs %d entries are seen, %v; want 2 and 4", runs, seen, err)
	}
}
