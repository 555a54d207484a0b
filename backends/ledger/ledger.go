// Package ledger implements the ledger of a sale: append-only logs, the pure reducers
// that fold them into state, and the append protocol by which several processes write
// to one log without losing or repeating an entry.
//
// Its guarantees rest on one atomic operation of a backend: store an entry and replace
// the head if the head is still the one that the writer read (Logs.Append). They do not
// depend on a clock, a lock or a fencing token. Package quorum decides who may write,
// which matters only for progress.
//
// States, drafts and writers use no I/O, goroutines or clocks. Functions that read
// whole logs (Load, LoadShards) take the Logs to read from. The packages audit, export
// and payload recount a sale, export it, and read what its units are; this package does
// not import them.
package ledger

import (
	"context"
	"errors"
)

// Logs is a set of append-only logs, each with one small head that every append
// replaces. All methods are safe for concurrent use. When Append returns nil the entry
// is durable and visible to every later Append, on any handle of the store. Read and
// Heads may lag behind; only Append decides. Implementations do not retry, unless a
// repetition is indistinguishable from a single try. They return fs.ErrPermission for
// what the store does not permit.
type Logs interface {
	// Append stores entry in slot and replaces the head, if the head still is
	// prev (nil: no log yet) and slot follows that of prev (0 if there is no log
	// yet). Every head contains its slot, as HeadSlot reads it. ErrTaken: the head
	// or slot did not match, perhaps because the same entry is there already: read
	// back. ErrTooLarge: the entry was refused for its size and will never be
	// stored. After any other error the outcome is unknown: the entry may be stored
	// now or later, even after ctx has ended.
	Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error

	// Read returns the head and up to max entries from a slot on: entries[i] is
	// slot from+i. There are none if slot from was deleted. A nil head means that
	// the log does not exist (any more).
	Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error)

	// Heads returns the heads of logs, in their order; nil for a log that does
	// not exist.
	Heads(ctx context.Context, logs []string) ([][]byte, error)

	// Delete removes the slots up to and including upTo, and the head if its
	// slot is not beyond it. Deleting an absent log or slot is not an error.
	Delete(ctx context.Context, log string, upTo uint64) error
}

// Scanner is a Logs that reads many whole logs faster than Read does, where their entries
// are interleaved in the store.
type Scanner interface {
	Logs

	// Scan calls each for the entries of logs; log is an index in logs. The entries of a log
	// come from slot 0 on, in order, without gaps or repetitions. Scan may omit any number of
	// entries at the end of a log, or all: the caller reads on from there. each may retain
	// its entry. An error of each ends the scan, and Scan returns it.
	Scan(ctx context.Context, logs []string, each func(log int, entry []byte) error) error
}

// Lister is a Logs that can list its logs.
type Lister interface {
	Logs

	// List returns the names of the logs that begin with prefix, in byte order. prefix must
	// not be empty. A log that is created or deleted meanwhile may be listed or not.
	List(ctx context.Context, prefix string) (names []string, err error)
}

// ErrTaken reports that the head of a log was not the one that an append expected,
// or that the slot did not follow it. It does not reveal whose entry is in the slot.
var ErrTaken = errors.New("the slot is taken")

// ErrTooLarge reports that a store refuses an entry for its size, permanently.
var ErrTooLarge = errors.New("the entry is too large for the store")

// Table is implemented by Logs whose logs are in a table on a server, which must be
// created before the first log and may have been created wrongly. If the table does
// not exist, Read and Heads find no log, Append fails and Delete has no effect.
type Table interface {
	// Table returns the name of the table, as in the sale's file.
	Table() string

	// CheckTable returns nil if the table exists and is fit for logs, and ErrNoTable
	// if it does not exist. An *UnfitError means that logs in the table would lose
	// or repeat entries. Any other error means that the table could not be checked.
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

// UnfitError is ErrTableUnfit with the reason.
type UnfitError struct {
	Faults string // one or more clauses
	Remedy string // one sentence without a full stop
}

func (e *UnfitError) Error() string { return ErrTableUnfit.Error() + ": " + e.Faults }
func (e *UnfitError) Unwrap() error { return ErrTableUnfit }
