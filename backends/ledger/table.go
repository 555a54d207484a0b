package ledger

import (
	"context"
	"errors"
)

// Table is implemented by Logs whose logs are in a table on a server, which must be
// created before the first log and may have been created wrongly. If the table does
// not exist, Read and Heads find no log, Append fails and Delete has no effect.
type Table interface {
	// Table returns the name of the table, as in the sale's file.
	Table() string

	// CheckTable returns nil if the table exists and is fit for logs, and ErrNoTable
	// if it does not exist. ErrTableUnfit, wrapped with the fault and its remedy,
	// means that logs in the table would lose or repeat entries. Any other error
	// means that the table could not be checked.
	CheckTable(ctx context.Context) error

	// CreateTable creates the table, split so that the shards of a sale spread over
	// it. A table that exists already is not an error, whatever its properties.
	CreateTable(ctx context.Context) error
}

// Errors of CheckTable.
var (
	ErrNoTable    = errors.New("the table does not exist")
	ErrTableUnfit = errors.New("the table cannot hold a ledger")
)
