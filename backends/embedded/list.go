package embedded

import (
	"context"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

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
