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
	Error string    // the store's last error, in one line

	Node bool // the list's node fails; requests are still sent to it
}

// How long an append may be in doubt: the shard takes no new claims after the
// first, and is given up after the second.
const (
	StallAfter  = 2 * time.Second
	GiveUpAfter = 60 * time.Second
)

// stall returns since when and why the shard cannot continue: the outcome of an append is unknown, or its
// log cannot be read further. nil: it can.
func (q *sequencer) stall(now clock.Now) *Stall {
	since := q.sentAt
	switch {
	case q.stalled(now):
	case q.mode == loading && q.lastErr != nil && q.progressAt != clock.Now{} && now.Since(q.progressAt) >= StallAfter:
		since = q.progressAt
	default:
		return q.list.stall(now)
	}
	s := &Stall{Since: since.Wall, Error: "the outcome of an append is not known"}
	if q.lastErr != nil {
		s.Error = OneLine(q.lastErr)
	}
	return s
}

// stalled reports whether the outcome of an append, or of the slot that another process took, has been
// unknown for StallAfter.
func (q *sequencer) stalled(now clock.Now) bool { return q.appendingFor(now) >= StallAfter }

// appendingFor returns how long the commit under way has taken.
func (a *appending) appendingFor(now clock.Now) time.Duration {
	if a.sent == nil {
		return 0
	}
	return now.Since(a.sentAt)
}

// lastError returns the store's last error.
func (a *appending) lastError() error {
	if a.lastErr == nil {
		return errors.New("the store's answers do not fit together")
	}
	return a.lastErr
}

// Tally counts the outcomes of appends, since the last call of Counted.
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

// OneLine returns an error's text, shortened to fit a line of a log or a table.
func OneLine(err error) string { return text.Short(err.Error(), 200) }
