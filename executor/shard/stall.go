package shard

import (
	"errors"
	"time"

	"salectl/backends/clock"
	"salectl/internal/text"
)

// Stall is why a shard takes no claims for the moment.
type Stall struct {
	Since time.Time // when its append was sent, or its log last read on
	Error string    // what the store said last, in one line

	Node bool // it is the list's node that fails, which is asked all the same
}

// How long an append may be in doubt: the shard takes no new claims after the
// first, and is given up after the second.
const (
	StallAfter  = 2 * time.Second
	GiveUpAfter = 60 * time.Second
)

// stall says since when the shard cannot go on, and why: it is not known what
// became of an append, or its log cannot be read on. Nil: it can.
func (q *sequencer) stall(now clock.Now) *Stall {
	since := q.sentAt
	switch {
	case q.stalled(now):
	case q.mode == loading && q.lastErr != nil && q.readAt != clock.Now{} && now.Since(q.readAt) >= StallAfter:
		since = q.readAt
	default:
		return q.engine.stall(now)
	}
	s := &Stall{Since: since.Wall, Error: "the outcome of an append is not known"}
	if q.lastErr != nil {
		s.Error = OneLine(q.lastErr)
	}
	return s
}

// stalled reports whether it has not been known for long what became of an append,
// or of the slot that somebody else took.
func (q *sequencer) stalled(now clock.Now) bool { return q.appendingFor(now) >= StallAfter }

// pendingFor returns for how long the commit under way has been.
func (a *appending) appendingFor(now clock.Now) time.Duration {
	if a.sent == nil {
		return 0
	}
	return now.Since(a.sentAt)
}

// lastTrouble is what the store said last.
func (a *appending) lastError() error {
	if a.lastErr == nil {
		return errors.New("the store's answers do not fit together")
	}
	return a.lastErr
}

// Tally counts what became of appends, since it was last taken.
type Tally struct {
	Committed, Taken uint64 // what they came to
	Unknown          uint64 // calls that left the outcome open
	Resent           uint64 // repetitions
	Fills, Voids     uint64 // of the list: times it was turned on, and grabs that the log could not take
}

// Add adds what was counted elsewhere, or later.
func (t *Tally) Add(other Tally) {
	t.Committed += other.Committed
	t.Taken += other.Taken
	t.Unknown += other.Unknown
	t.Resent += other.Resent
	t.Fills += other.Fills
	t.Voids += other.Voids
}

// OneLine is an error's text as it fits into a line of a log or a table.
func OneLine(err error) string { return text.Short(err.Error(), 200) }
