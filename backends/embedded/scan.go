package embedded

import (
	"context"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

var _ ledger.Scanner = (*Logs)(nil)

// scanBytes limits the entries that one transaction of a scan reads. While one is open, a
// writer cannot restart its write-ahead log.
const scanBytes = 8 << 20

// Scan implements ledger.Scanner. It reads the entries in order of arrival, so the file from
// front to back: reading log by log would seek to the page of each entry, between the entries
// of all other logs. If most of the file belongs to other logs, Scan passes on nothing.
func (l *Logs) Scan(ctx context.Context, logs []string, each func(log int, entry []byte) error) error {
	s := scan{of: make(map[int64]int), next: make([]int64, len(logs)), each: each}
	if err := l.readers.do(ctx, func(conn *sqlite.Conn) error { return s.begin(conn, logs) }); err != nil {
		return err
	}
	for s.at < s.last {
		if err := l.readers.do(ctx, s.read); err != nil {
			return err
		}
		if err := s.hand(); err != nil {
			return err
		}
	}
	return nil
}

// scan is one call of Scan, over several transactions.
type scan struct {
	of       map[int64]int // index in logs, by a log's number in the file
	next     []int64       // next slot, by log
	at, last int64         // entries up to at were passed on; last is the end of the scan
	each     func(log int, entry []byte) error

	// Results of the last transaction.
	some []scanned
	upTo int64 // value of at after some was passed on
}

// scanned is an entry of a log.
type scanned struct {
	log   int
	slot  int64
	entry []byte
}

// begin looks up the logs and the end of the scan.
func (s *scan) begin(conn *sqlite.Conn, logs []string) error {
	mine := int64(0)
	clear(s.of)
	for i, name := range logs {
		found, err := findLog(conn, name)
		if err != nil {
			return err
		}
		if found.id != 0 {
			s.of[found.id] = i
			mine += found.slot + 1
		}
	}
	all := int64(0)
	_, err := first(conn, func(row *sqlite.Stmt) { all, s.last = row.ColumnInt64(0), row.ColumnInt64(1) },
		"SELECT (SELECT sum(slot + 1) FROM logs), (SELECT max(n) FROM entries)")
	if 2*mine < all {
		s.last = 0
	}
	return err
}

// read reads some entries.
func (s *scan) read(conn *sqlite.Conn) error {
	size := 0
	s.some, s.upTo = s.some[:0], s.last
	return query(conn, func(row *sqlite.Stmt) (more bool) {
		if log, wanted := s.of[row.ColumnInt64(1)]; wanted {
			s.some = append(s.some, scanned{log, row.ColumnInt64(2), columnBytes(row, 3)})
			size += row.ColumnLen(3)
		}
		full := size >= scanBytes
		if full {
			s.upTo = row.ColumnInt64(0)
		}
		return !full
	}, "SELECT n, log, slot, entry FROM entries WHERE n > ? AND n <= ? ORDER BY n", s.at, s.last)
}

// hand passes on what was read. From a deleted front or a missing slot on, a log is left to
// Read.
func (s *scan) hand() error {
	for _, e := range s.some {
		if e.slot != s.next[e.log] {
			continue
		}
		s.next[e.log]++
		if err := s.each(e.log, e.entry); err != nil {
			return err
		}
	}
	s.at = s.upTo
	return nil
}

var _ ledger.Lister = (*Logs)(nil)

// List implements ledger.Lister. All names are of one moment.
func (l *Logs) List(ctx context.Context, prefix string) (names []string, err error) {
	err = l.readers.do(ctx, func(conn *sqlite.Conn) error {
		names = nil
		return query(conn, func(row *sqlite.Stmt) (more bool) {
			names = append(names, row.ColumnText(0))
			return true
		}, "SELECT name FROM logs WHERE substr(CAST(name AS BLOB), 1, ?) = CAST(? AS BLOB) ORDER BY name", int64(len(prefix)), prefix)
	})
	return names, err
}
