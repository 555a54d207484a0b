package shard

import (
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// What others may see of a shard while it sells.

// Status is one shard as its owner has it.
type Status struct {
	Shard      int
	Unknown    bool   // nobody has told of it: only Shard, Owner and Load are set
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
	Stuck      bool     // its owner, another process, says that its log cannot be read or written
	Owner      string   // where the process answers that owns it, as far as is known
	Load       *float64 // requests decided a second, lately; nil: it is not known

	Drawn   bool  // its claims are entries of a draw
	Entries int64 // so many

	Outcomes    ledger.Outcomes // of its claims
	Paid        bool            // claims are held until they are paid, or some were
	NextRelease time.Time       // of the holds, the earliest; zero: no claim is held

	Stall *Stall // nil: it does not
}

// StatusOf is what is known of a shard of another process by its totals.
func StatusOf(shard int, next uint64, t ledger.Totals) Status {
	return Status{
		Shard: shard, Slot: max(next, 1) - 1, Epoch: t.Epoch, Generation: t.Generation, Limit: t.Limit, Available: t.Available,
		Held: t.Held, Sold: t.Sold, InFlight: t.InFlight, Entries: t.Entries, Outcomes: t.Outcomes,
	}
}

// Recall answers a request from memory, if what is in the ledger decides it.
func (s *Shard) Recall(now clock.Now, r Request) (Answer, bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	state := s.seq.state
	if state.Settings() == nil {
		return Answer{}, false
	}
	var v ledger.Decision
	var ok bool
	switch timeUs := now.Wall.UnixMicro(); {
	case r.Adjacent:
		v, ok = state.RecallAdjacent(r.User, r.Key, r.Quantity, timeUs)
	case r.Units != nil:
		v, ok = state.RecallUnits(r.User, r.Key, r.Units, timeUs)
	default:
		v, ok = state.Recall(r.User, r.Key, r.Quantity, timeUs)
	}
	if !ok {
		return Answer{}, false
	}
	return answerOf(s.seq.shard, state, r.User, v, now), true
}

// Status returns the shard as it stands.
func (s *Shard) Status() Status {
	v := s.ledgerStatus()
	v.Queue, v.Owned, v.Stall = s.waiting(), v.Owned && s.serving.Load(), s.stall.Load()
	s.front.show(&v)
	return v
}

// ledgerStatus is the part of Status that follows from the log. The front is not part
// of it: the front of a list calls Recall under its own lock, so that whoever locked
// the state first and the front then would deadlock with it.
func (s *Shard) ledgerStatus() Status {
	s.state.RLock()
	defer s.state.RUnlock()
	st := s.seq.state
	v := Status{
		Shard: s.seq.shard, Epoch: st.Epoch, Generation: st.Generation, Limit: st.Limit,
		Available: st.Available, Held: st.Held, Sold: st.Sold, InFlight: st.InFlight, Bytes: st.Bytes(),
	}
	if st.Next() > 0 {
		v.Slot = st.Next() - 1
	}
	v.Owned = st.IsOwner(s.seq.me) // false while this process reads that another has taken the shard over
	v.Outcomes, v.Entries, v.Drawn = st.Outcomes, st.Totals.Entries, st.Settings().GetDraw()
	v.Paid = st.Settings().GetPayment() != nil || st.HoldRecords() > 0 && !v.Drawn
	v.NextRelease = released(st)
	return v
}

// UnderWay is how many requests that came with a key wait for their answer.
func (s *Shard) UnderWay() int { return int(s.underway.n.Load()) }

// IsUnderWay reports whether a request of that user and key waits for its answer.
func (s *Shard) IsUnderWay(r Request) bool { return s.underway.has(&r) }

// Decided is how many requests the shard has answered since this process has it, but for
// those that were answered from memory.
func (s *Shard) Decided() uint64 { return s.decided.Load() }

// Waiting is how many requests wait.
func (s *Shard) Waiting() int { return s.waiting() }

// Serves reports whether this process has taken the shard over, and serves it.
func (s *Shard) Serves() bool { return s.serving.Load() }

// Follows reports whether the shard has read its log to the end, and reads it on until there
// are rights to append.
func (s *Shard) Follows() bool { return s.follows.Load() }

// Ready reports whether units are given, if they should be.
func (s *Shard) Ready() bool { return s.front.ready() }

// Stalled says since when and why the shard takes no claims; nil: it does.
func (s *Shard) Stalled() *Stall { return s.stall.Load() }

// WasSetBack is by how much the time of the log was set back last; 0: it never was.
func (s *Shard) WasSetBack() time.Duration { return time.Duration(s.setBack.Load()) }

// Drain has all that a list gave so far come into the log, and returns a channel that
// is closed when it is there.
func (s *Shard) Drain() <-chan struct{} { return s.front.drain() }

// Terms returns the phase of the sale and its settings, as the shard's log has them.
func (s *Shard) Terms() (phase string, settings *pb.Settings) {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.seq.state.Phase, s.seq.state.Settings()
}

// Epoch is that of the shard's log: it grows whenever a process takes the shard over.
func (s *Shard) Epoch() uint64 {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.seq.state.Epoch
}

// Bytes returns the size of the shard's log.
func (s *Shard) Bytes() int64 {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.seq.state.Bytes()
}

// waiting returns how many requests wait.
func (s *Shard) waiting() int {
	n := s.front.waiting()
	s.mu.Lock()
	defer s.mu.Unlock()
	return n + len(s.queue) + s.inside
}
