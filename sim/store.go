package sim

import (
	"bytes"
	"context"
	"errors"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/memory"
)

// store is the one store of the logs: in memory, with every promise kept, and
// all that is allowed besides. Of an append it holds the head's bytes alone against
// what they are to be, as HBase does: that nobody relies on more is not for the
// driver alone to see to. It writes down every slot that became durable.
type store struct {
	w      *world
	memory *memory.Store
	logs   *memory.Logs
	frozen bool          // reads are answered from the past
	thawed time.Duration // when they last were
	down   bool
	slow   time.Duration // at most, that owners' appends take longer
	fault  memory.Fault  // of the next call
	sent   time.Duration // when the present call was sent
}

var _ ledger.Logs = (*store)(nil)

var errDown = errors.New("connection refused")

func newStore(w *world) *store {
	s := &store{w: w, memory: memory.NewStore()}
	s.memory.CompareHeadsOnly(true)
	s.memory.SetPage(w.scenario.page)
	s.logs = s.memory.Handle(func(memory.Call) memory.Fault {
		fault := s.fault
		s.fault = memory.Fault{}
		return fault
	})
	return s
}

// Append is ledger.Logs's. One that has won may return that the slot is taken,
// as by a client library that sent it twice.
func (s *store) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	if s.down {
		return errDown
	}
	err := s.logs.Append(ctx, log, slot, prev, head, entry)
	s.w.note("store", "append", log, entry)
	if err != nil {
		s.w.hit("append refused")
		return err
	}
	s.w.hit("append stored")
	s.w.history.Stored(s.w.now, s.sent, log, slot, bytes.Clone(entry), bytes.Clone(head))
	s.w.service.stored(log, slot, entry)
	if s.w.random.store.chance(ownTaken) && s.w.fault("store", "own append told taken") {
		return ledger.ErrTaken
	}
	return nil
}

// slowDown makes owners' appends slower by up to most, for a while: the shards'
// logs are elsewhere than the sale's.
func (s *store) slowDown(most, d time.Duration) {
	s.slow = most
	s.w.after(d, func() { s.slow = 0 })
}

// freeze answers reads from the past for a while.
func (s *store) freeze(d time.Duration) {
	s.frozen = true
	s.thawed = max(s.thawed, s.w.now+d)
	s.w.after(d, func() { s.frozen = false })
}

// How often an append that won returns that it did not, and how often a read
// lags.
const (
	ownTaken = 0.01
	lagging  = 0.01
)

// lag decides whether a read is answered from the past.
func (s *store) lag() {
	if !s.frozen && !s.w.random.store.chance(lagging) {
		return
	}
	back := 1 + s.w.random.store.IntN(4)
	if s.w.fault("store", "stale read") {
		s.fault = memory.Fault{Kind: memory.Stale, N: back}
	}
}

// Read is ledger.Logs's.
func (s *store) Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	if s.down {
		return nil, nil, errDown
	}
	s.lag()
	head, entries, err = s.logs.Read(ctx, log, from, max)
	s.w.note("store", "read", log, head)
	return head, entries, err
}

// Heads is ledger.Logs's.
func (s *store) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if s.down {
		return nil, errDown
	}
	s.lag()
	heads, err := s.logs.Heads(ctx, logs)
	s.w.note("store", "heads", "", bytes.Join(heads, nil))
	return heads, err
}

// Delete is ledger.Logs's.
func (s *store) Delete(ctx context.Context, log string, upTo uint64) error {
	if s.down {
		return errDown
	}
	s.w.note("store", "delete", log, nil)
	s.w.hit("log deleted")
	if head, _, _ := s.logs.Read(ctx, log, 0, 0); head != nil {
		s.w.history.Deleted(s.w.now, log, upTo)
	}
	return s.logs.Delete(ctx, log, upTo)
}
