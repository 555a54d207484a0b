// Package embedded stores a sale on the local disk, without a server: the logs in one SQLite
// file, and the lock node in another. Several processes of one machine may use a folder at
// once.
//
// It implements ledger.Logs and quorum.Node. An acknowledged append has been synced to the
// disk. Nothing is created before the first write, not even the folder; until then all reads
// return nothing.
//
// The locks have their own file because SQLite's writers wait for each other by polling: in one
// file, a busy ledger would leave only short gaps for renewing leases. A folder on a network
// share is not supported: SQLite's write-ahead log needs memory that all its users share.
package embedded

// The files of a folder. While a file is open, SQLite keeps two more beside it, with the
// suffixes -wal and -shm; the first contains data.
const (
	ledgerFile = "ledger.db"
	locksFile  = "locks.db"
)

// handle reads and writes one file.
type handle struct {
	readers *readers
	writer  *writer
}

func open(db *database) handle { return handle{newReaders(db), newWriter(db)} }

// Close completes the calls under way and releases the files. Later calls return ErrClosed.
func (h handle) Close() error {
	h.writer.close()
	h.readers.close()
	return nil
}
