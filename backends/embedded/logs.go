package embedded

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

// maxEntry is the maximum size of an append. A commit has at most 1 MB; the rest is for its
// head, and for other definitions of a megabyte.
const maxEntry = 1<<20 + 64<<10

// Entries of all logs are stored in order of arrival, so that each is added at the end of the
// table and no page is split. With one table sorted by log and slot, appends were a third
// slower. With AUTOINCREMENT, no log gets the number of a deleted log whose entries are still
// being removed.
const ledgerTables = `
CREATE TABLE logs (
	id   INTEGER PRIMARY KEY AUTOINCREMENT,
	name TEXT    NOT NULL UNIQUE,
	slot INTEGER NOT NULL,            -- of the last entry
	head BLOB    NOT NULL
);
CREATE TABLE entries (
	n     INTEGER PRIMARY KEY,
	log   INTEGER NOT NULL,
	slot  INTEGER NOT NULL,
	entry BLOB    NOT NULL
);
CREATE UNIQUE INDEX entries_by_slot ON entries (log, slot);
CREATE TABLE garbage (log INTEGER PRIMARY KEY) -- deleted logs that may still have entries
`

// Logs implements ledger.Logs on one SQLite file.
type Logs struct{ handle }

var _ ledger.Logs = (*Logs)(nil)

// OpenLogs returns a handle on the logs in dir. Neither OpenLogs nor reading creates anything.
// Close releases the files.
func OpenLogs(dir string) (*Logs, error) {
	dir, err := folder(dir)
	if err != nil {
		return nil, err
	}
	return newLogs(ledgerDatabase(dir)), nil
}

func ledgerDatabase(dir string) *database {
	return &database{
		path:        filepath.Join(dir, ledgerFile),
		appID:       0x73616c65, // "sale"
		version:     1,
		tables:      ledgerTables,
		synchronous: "FULL", // in this mode every commit syncs the write-ahead log
	}
}

func newLogs(db *database) *Logs { return &Logs{open(db)} }

// Append implements ledger.Logs. It syncs to the disk before it returns nil. The caller must
// not change the slices afterwards, even when Append has returned because ctx ended: the append
// may still be under way.
func (l *Logs) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	switch {
	case len(head)+len(entry) > maxEntry:
		return fmt.Errorf("%s, slot %d: %d bytes: %w, which takes %d", log, slot, len(head)+len(entry), ledger.ErrTooLarge, maxEntry)
	case len(head) == 0:
		return fmt.Errorf("%s, slot %d: an empty head would mean that there is no log", log, slot)
	case slot > math.MaxInt64:
		return fmt.Errorf("%s: slot %d is beyond what the store can number", log, slot)
	}
	return l.writer.do(ctx, &change{
		step: func(conn *sqlite.Conn) (answer, failed error) {
			return appendEntry(conn, log, int64(slot), prev, head, entry)
		},
		size:     len(entry),
		creates:  len(prev) == 0,
		ifAbsent: ledger.ErrTaken,
	})
}

// appendEntry decides which writer gets a slot, and stores the entry.
func appendEntry(conn *sqlite.Conn, log string, slot int64, prev, head, entry []byte) (answer, failed error) {
	found, err := findLog(conn, log)
	if err != nil {
		return nil, err
	}
	next := int64(0)
	if found.id != 0 {
		next = found.slot + 1
	}
	if !bytes.Equal(found.head, prev) || slot != next {
		return ledger.ErrTaken, nil
	}
	id := found.id
	if id == 0 {
		err = execute(conn, "INSERT INTO logs (name, slot, head) VALUES (?, ?, ?)", log, slot, head)
		id = conn.LastInsertRowID()
	} else {
		err = execute(conn, "UPDATE logs SET slot = ?, head = ? WHERE id = ?", slot, head, id)
	}
	if err != nil {
		return nil, err
	}
	return nil, execute(conn, "INSERT INTO entries (log, slot, entry) VALUES (?, ?, ?)", id, slot, entry)
}

// logRow is a row of the table logs; zero if the log does not exist.
type logRow struct {
	id, slot int64
	head     []byte
}

func findLog(conn *sqlite.Conn, name string) (row logRow, err error) {
	_, err = first(conn, func(s *sqlite.Stmt) {
		row = logRow{id: s.ColumnInt64(0), slot: s.ColumnInt64(1), head: columnBytes(s, 2)}
	}, "SELECT id, slot, head FROM logs WHERE name = ?", name)
	return row, err
}

// Read implements ledger.Logs. Head and entries are of one moment, and entries[i] is slot
// from+i: if slot from was deleted there are no entries.
func (l *Logs) Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	err = l.readers.do(ctx, func(conn *sqlite.Conn) error {
		head, entries = nil, nil
		found, err := findLog(conn, log)
		if err != nil || found.id == 0 {
			return err
		}
		head = found.head
		entries, err = readEntries(conn, found.id, from, max)
		return err
	})
	return head, entries, err
}

func readEntries(conn *sqlite.Conn, log int64, from uint64, max int) (entries [][]byte, err error) {
	if from > math.MaxInt64 || max <= 0 {
		return nil, nil
	}
	err = query(conn, func(row *sqlite.Stmt) (more bool) {
		if row.ColumnInt64(0) != int64(from)+int64(len(entries)) {
			return false
		}
		entries = append(entries, columnBytes(row, 1))
		return true
	}, "SELECT slot, entry FROM entries WHERE log = ? AND slot >= ? ORDER BY slot LIMIT ?", log, int64(from), int64(max))
	return entries, err
}

// columnBytes returns a copy of a blob, empty but never nil.
func columnBytes(stmt *sqlite.Stmt, col int) []byte {
	b := make([]byte, stmt.ColumnLen(col))
	stmt.ColumnBytes(col, b)
	return b
}

// Heads implements ledger.Logs. All heads are of one moment.
func (l *Logs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	heads := make([][]byte, len(logs))
	err := l.readers.do(ctx, func(conn *sqlite.Conn) error {
		for i, name := range logs {
			found, err := findLog(conn, name)
			if err != nil {
				return err
			}
			heads[i] = found.head
		}
		return nil
	})
	return heads, err
}
