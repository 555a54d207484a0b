package shard

// What others may see of a shard while it sells.

// Status is the state of one shard, as its owner has it. Totals.Owner is the address of the process that
// answers for the shard, as far as is known.
type Status struct {
	Report
	Unknown   bool  // no report of it is known: only Shard, Owner and PerSecond are set
	Bytes     int64 // size of the log
	Listed    bool  // its units are in a list on a node
	ListOn    bool  // the list gives units
	Undrained int64 // grabs that the list gave and the log lacks
	Owned     bool  // this process may append
	NoLease   bool  // its owner, or the last one, may not append now

	Drawn bool // its claims are entries of a draw
	Paid  bool // claims are held until they are paid, or some were

	Stall *Stall // nil: it does not stall
}

// Status returns the present status of the shard.
func (s *Shard) Status() Status {
	v := s.ledgerStatus()
	v.Queue, v.Owned, v.Stall = s.Waiting(), v.Owned && s.serving.Load(), s.stall.Load()
	if v.Listed = s.Listed; v.Listed {
		list := s.nodeQueue.State(s.Clock())
		v.ListOn, v.Undrained = list.On, list.Unlogged
	}
	return v
}

// Waiting returns how many requests wait.
func (s *Shard) Waiting() int {
	if s.Listed {
		return s.nodeQueue.State(s.Clock()).Waiting + s.inbox.waiting()
	}
	return s.inbox.waiting()
}

// Ready reports whether units are given, if they should be.
func (s *Shard) Ready() bool { return !s.Listed || s.listReady.Load() }

// Drain has all grabs of the list so far appended to the log, and returns a channel that is closed when
// the log has them. It must not be called without a list.
func (s *Shard) Drain() <-chan struct{} { return s.nodeQueue.Drain() }
