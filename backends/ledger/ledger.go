// Package ledger is the truth of a sale: append-only logs, the pure reducers
// that fold them into state, and the append protocol by which several
// processes write to one log without ever losing or repeating an entry.
//
// What it promises rests on one thing that a backend must do atomically: store
// an entry and replace the head if the head is still the one that the writer
// saw (Logs.Append). No clock, lock or fencing token takes part in that. Who
// may write is the business of package quorum, and only a matter of progress.
//
// States, drafts and writers are free of I/O, goroutines and clocks. What reads
// whole logs (Load, LoadShards) takes the Logs to read from. What recounts a
// sale, exports it or reads what its units are lies in the packages below, which
// this one does not know: audit, export and payload.
package ledger

import (
	"context"
	"errors"
)

// Logs is a set of append-only logs, each with one small head that is replaced
// by every append. All methods are safe for concurrent use. When Append
// returns nil the entry is durable and visible to every later Append, on any
// handle of the store. Read and Heads may lag behind; only Append decides.
// Nothing is retried by whoever implements this, unless the repetition cannot
// be told from a single try. What the store does not permit is fs.ErrPermission.
type Logs interface {
	// Append stores entry in slot and replaces the head, if the head still is
	// prev (nil: no log yet) and slot is the one behind prev's (0 if there is no
	// log yet). Every head names its slot, as HeadSlot reads it. ErrTaken: it was
	// not, perhaps because this very entry is there already: read back.
	// ErrTooLarge: refused for its size, not stored and never will be. Any other
	// error: nobody knows yet whether it was or will be stored, not even when ctx
	// has ended.
	Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error

	// Read returns the head and up to max entries from a slot on: entries[i] is
	// slot from+i, and there are none where from was deleted. A nil head: the log
	// does not exist (any more).
	Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error)

	// Heads returns the head of each log, in the order asked, nil where there
	// is no such log.
	Heads(ctx context.Context, logs []string) ([][]byte, error)

	// Delete removes the slots up to and including upTo, and the head if its
	// slot is not beyond it. Deleting what is not there is no error.
	Delete(ctx context.Context, log string, upTo uint64) error
}

// Scanner is a Logs that hands out whole logs faster than Read does, where they are many and
// lie among each other in the store.
type Scanner interface {
	Logs

	// Scan calls each with the entries of the logs, a log being its index in logs: of each
	// log from slot 0 on, in order, none left out between, and none twice. It may leave out
	// as many as it likes at the end of a log, or hand out nothing at all: read on from
	// there. The entries are each's to keep. An error of each ends the scan, and Scan
	// returns it.
	Scan(ctx context.Context, logs []string, each func(log int, entry []byte) error) error
}

// Lister is a Logs that can name the logs that it has.
type Lister interface {
	Logs

	// List returns the names of the logs that begin with a prefix, which is not empty, in the
	// order of their bytes. A log that begins or goes away meanwhile may be named or not.
	List(ctx context.Context, prefix string) (names []string, err error)
}

// ErrTaken says that the head of the log was not the one that an append
// expected, or that the slot was not the one behind it. It does not say whose
// entry is in the slot.
var ErrTaken = errors.New("the slot is taken")

// ErrTooLarge says that a store refused an entry for its size, for good.
var ErrTooLarge = errors.New("the entry is too large for the store")
