package shard

import (
	"time"

	"salectl/backends/ledger"
)

// What others may see of a shard while it sells.

// Status is the state of one shard, as its owner has it.
type Status struct {
	Shard      int
	Unknown    bool   // no report of it is known: only Shard, Owner and Load are set
	Slot       uint64 // of the last commit
	Epoch      uint64
	Generation uint64
	Limit      int64 // units added minus removed; transfers do not change the sum
	Available  int64
	Held       int64
	Sold       int64
	InFlight   int64
	Bytes      int64    // size of the log
	Queue      int      // requests waiting
	Listed     bool     // its units lie in a list on a node
	ListOn     bool     // which gives them
	Undrained  int64    // grabs that the list gave and the log does not have yet
	Owned      bool     // this process may append
	NoLease    bool     // its owner, or who was that last, may not append now
	Stuck      bool     // its owner, another process, reports that its log cannot be read or written
	Owner      string   // where the process answers that owns it, as far as is known
	Load       *float64 // requests decided a second, lately; nil: it is not known

	Drawn   bool  // its claims are entries of a draw
	Entries int64 // so many

	Outcomes    ledger.Outcomes // of its claims
	Paid        bool            // claims are held until they are paid, or some were
	NextRelease time.Time       // of the holds, the earliest; zero: no claim is held

	Stall *Stall // nil: it does not
}

// StatusOf returns the status of another process's shard by its totals.
func StatusOf(shard int, next uint64, t ledger.Totals) Status {
	return Status{
		Shard: shard, Slot: max(next, 1) - 1, Epoch: t.Epoch, Generation: t.Generation, Limit: t.Limit, Available: t.Available,
		Held: t.Held, Sold: t.Sold, InFlight: t.InFlight, Entries: t.Entries, Outcomes: t.Outcomes,
	}
}

// Status returns the present status of the shard.
func (s *Shard) Status() Status {
	v := s.ledgerStatus()
	v.Queue, v.Owned, v.Stall = s.Waiting(), v.Owned && s.serving.Load(), s.stall.Load()
	s.nodeQueue.addStatus(&v)
	return v
}

// Waiting returns how many requests wait.
func (s *Shard) Waiting() int { return s.nodeQueue.waiting() + s.inbox.waiting() }

// Ready reports whether units are given, if they should be.
func (s *Shard) Ready() bool { return s.nodeQueue.ready() }

// Drain has all grabs of the list so far appended to the log, and returns a channel that is closed when
// the log has them.
func (s *Shard) Drain() <-chan struct{} { return s.nodeQueue.drain() }
