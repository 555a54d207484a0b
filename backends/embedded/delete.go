package embedded

import (
	"context"
	"errors"
	"math"

	"zombiezen.com/go/sqlite"
)

// The limits of one step of Delete. Appends queued meanwhile are made in the same transaction
// as the next step, so they wait for no more than this.
const (
	deleteRows  = 256
	deleteBytes = 1 << 20
)

// Delete implements ledger.Logs. A log that is deleted entirely disappears in one transaction,
// with all its slots; further transactions free the space. If the process dies between them,
// the next Delete of any log frees the rest. The file itself does not shrink: later entries use
// the space.
func (l *Logs) Delete(ctx context.Context, log string, upTo uint64) error {
	d := deletion{log: log, upTo: int64(min(upTo, math.MaxInt64))}
	for !d.done {
		err := l.writer.do(ctx, &change{step: d.step, ifAbsent: errAbsent})
		if errors.Is(err, errAbsent) {
			return nil // nothing to be removed, or removed with its file
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// deletion is one call of Delete, over several transactions. Only the first looks up the log by
// name: later the name may be that of a new log.
type deletion struct {
	log  string
	upTo int64

	begun bool
	id    int64 // id of the log whose first entries are removed; 0 if there is none
	done  bool
}

// step makes the changes of one transaction. If the transaction fails, Delete returns its
// error, and the fields of d are not used again.
func (d *deletion) step(conn *sqlite.Conn) (answer, failed error) {
	if !d.begun {
		if failed := d.begin(conn); failed != nil {
			return nil, failed
		}
		d.begun = true
	}
	if d.id != 0 {
		more, err := removeEntries(conn, d.id, d.upTo)
		if err != nil || more {
			return nil, err
		}
		d.id = 0
	}
	more, err := sweep(conn)
	d.done = err == nil && !more
	return nil, err
}

// begin looks up the log, and removes its row if all entries are to be deleted.
func (d *deletion) begin(conn *sqlite.Conn) error {
	found, err := findLog(conn, d.log)
	if err != nil || found.id == 0 {
		return err
	}
	if found.slot > d.upTo {
		d.id = found.id
		return nil
	}
	for _, query := range []string{"INSERT INTO garbage (log) VALUES (?)", "DELETE FROM logs WHERE id = ?"} {
		if err := execute(conn, query, found.id); err != nil {
			return err
		}
	}
	return nil
}

// sweep frees some of the space of deleted logs. more reports whether some is left.
func sweep(conn *sqlite.Conn) (more bool, err error) {
	var id int64
	found, err := first(conn, func(row *sqlite.Stmt) { id = row.ColumnInt64(0) }, "SELECT log FROM garbage LIMIT 1")
	if err != nil || !found {
		return false, err
	}
	if more, err := removeEntries(conn, id, math.MaxInt64); err != nil || more {
		return more, err
	}
	return true, execute(conn, "DELETE FROM garbage WHERE log = ?", id)
}

// removeEntries removes the first entries of a log, up to a slot and the limits of a step. more
// reports whether entries up to that slot are left.
func removeEntries(conn *sqlite.Conn, id, upTo int64) (more bool, err error) {
	last, rows, bytes := int64(-1), 0, int64(0)
	// length reads the entry's header, not its pages.
	err = query(conn, func(row *sqlite.Stmt) bool {
		if more = rows == deleteRows || bytes >= deleteBytes; more {
			return false
		}
		rows, bytes, last = rows+1, bytes+row.ColumnInt64(1), row.ColumnInt64(0)
		return true
	}, "SELECT slot, length(entry) FROM entries WHERE log = ? AND slot <= ? ORDER BY slot", id, upTo)
	if err != nil {
		return false, err
	}
	return more, execute(conn, "DELETE FROM entries WHERE log = ? AND slot <= ?", id, last)
}
