// Package embedded keeps a sale on the local disk, with no server to install:
// the logs in one SQLite file, the lock node in another beside it. Several
// processes of one machine may use a folder at once.
//
// It promises what ledger.Logs and quorum.Node promise. An append that was
// acknowledged has been synced to the disk. Nothing is created, not even the
// folder, before the first write; until then everything reads as empty.
//
// The locks have a file of their own because SQLite's writers wait for each
// other by polling: in one file, a lease would have to be renewed in the gaps
// of a busy ledger. A folder on a network share is not supported: SQLite's
// write-ahead log needs memory that all its users share.
package embedded

// The files of a folder. SQLite keeps two more beside each while it is open,
// with the endings -wal and -shm; the first belongs to the data.
const (
	ledgerFile = "ledger.db"
	locksFile  = "locks.db"
)
