package ledger

import (
	"context"
	"errors"
)

// Table is implemented by Logs that live in something that has to be made
// before the first log and may have been made wrongly: a table on a server. On
// a table that does not exist Read and Heads find no log, Append fails and
// Delete has nothing to do.
type Table interface {
	// Table is its name, as the sale's file gives it.
	Table() string

	// CheckTable returns nil if the table is there and fit to hold logs, and
	// ErrNoTable if it is not there. ErrTableUnfit, wrapped with what is wrong
	// and the remedy, says that logs kept in it would lose or repeat entries.
	// Any other error: it could not be asked.
	CheckTable(ctx context.Context) error

	// CreateTable makes the table, split so that the shards of a sale spread
	// over it. One that is there already is no error, whatever it is like.
	CreateTable(ctx context.Context) error
}

// What CheckTable says of a table.
var (
	ErrNoTable    = errors.New("the table does not exist")
	ErrTableUnfit = errors.New("the table cannot hold a ledger")
)
