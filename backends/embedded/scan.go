package embedded

import (
	"context"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

var _ ledger.Scanner = (*Logs)(nil)

// scanBytes is how much of the entries one transaction of a scan reads. A writer cannot
// begin its write-ahead log anew while one is open.
const scanBytes = 8 << 20

// Scan is ledger.Scanner's. It reads the entries in the order in which they came, and so the
// file from front to back: to read one log after another would look for the page of each
// entry, and find the entries of all others there. Where most of what is in the file is of
// other logs it hands out nothing.
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

// scan is one call of Scan on its way through several transactions.
type scan struct {
	of       map[int64]int // the log that a number of the file is of
	next     []int64       // the next slot of each log
	at, last int64         // entries up to at are handed out, and last is the last to be
	each     func(log int, entry []byte) error

	// Of the last transaction.
	some []scanned
	upTo int64 // in place of at, once some is handed out
}

// scanned is an entry of a log.
type scanned struct {
	log   int
	slot  int64
	entry []byte
}

// begin finds out what is to be read.
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

// hand hands out what was read. A log whose front was deleted, or that lacks a slot, is left
// to Read from there.
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
