package shard

import (
	"errors"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/request"
	"salectl/internal/text"
)

// What others may see of a shard while it sells.

// Status is the state of one shard, as its owner has it. Totals.Owner is the address of the process that
// answers for the shard, as far as is known.
type Status struct {
	Report
	Unknown   bool  // no report of it is known: only Shard, Owner and PerSecond are set
	Bytes     int64 // size of the log
	Listed    bool  // its units are in a list on a node
	ListOn    bool  // the list grants units
	Undrained int64 // grabs that the list granted and the log lacks
	Owned     bool  // this process may append
	NoLease   bool  // its owner, or the last one, may not append now
	Paid      bool  // claims are held until they are paid, or some were

	Stall *Stall // nil: it does not stall
}

// Status returns the present status of the shard.
func (shard *Shard) Status() Status {
	v := shard.ledgerStatus()
	v.Queue, v.Owned, v.Stall = shard.Waiting(), v.Owned && shard.serving.Load(), shard.stall.Load()
	if v.Listed = shard.Listed; v.Listed {
		list := shard.nodeQueue.State(shard.Clock())
		v.ListOn, v.Undrained = list.On, list.Unlogged
	}
	return v
}

// Waiting returns how many requests wait.
func (shard *Shard) Waiting() int {
	if shard.Listed {
		return shard.nodeQueue.State(shard.Clock()).Waiting + shard.inbox.waiting()
	}
	return shard.inbox.waiting()
}

// Ready reports whether units are given, if they should be.
func (shard *Shard) Ready() bool { return !shard.Listed || shard.listReady.Load() }

// Drain has all grabs of the list so far appended to the log, and returns a channel that is closed when
// the log has them. It must not be called without a list.
func (shard *Shard) Drain() <-chan struct{} { return shard.nodeQueue.Drain() }

// published is the condition of a shard, as the goroutine that runs it has published it for all
// others.
type published struct {
	serving atomic.Bool
	follows atomic.Bool            // it has read its log to the end, and reads it on
	rights  atomic.Pointer[Rights] // nil: there never were any
	stall   atomic.Pointer[Stall]  // nil: it does not stall
	setBack atomic.Int64           // see sequencer

	listReady atomic.Bool // its list grants units, or is off as it should be
}

// May reports whether this process may append to the shard.
func (p *published) May(now clock.Now) bool {
	r := p.rights.Load()
	return r != nil && r.Valid(now)
}

// Leased reports whether this process has the shard's lease, and until when by its
// monotonic clock.
func (p *published) Leased(now clock.Now) (until time.Duration, ok bool) {
	if r := p.rights.Load(); r != nil && r.Lease.At(now) {
		return r.Lease.Until(), true
	}
	return 0, false
}

// Serves reports whether this process has taken the shard over, and serves it.
func (p *published) Serves() bool { return p.serving.Load() }

// Follows reports whether the shard has read its log to the end, and reads it on until there
// are rights to append.
func (p *published) Follows() bool { return p.follows.Load() }

// Stalled returns why the shard takes no claims for the moment; nil: it does.
func (p *published) Stalled() *Stall { return p.stall.Load() }

// WasSetBack returns by how much the time of the log was set back last; 0: it never was.
func (p *published) WasSetBack() time.Duration { return time.Duration(p.setBack.Load()) }

// Stall is why a shard takes no claims for the moment.
type Stall struct {
	Since time.Time // when its append was sent, or its log last read on
	Error string    // the store's last error, in one line

	Node bool // the list's node fails; requests are still sent to it
}

// How long an append may be in doubt: the shard takes no new claims after the
// first, and ends after the second.
const (
	StallAfter = 2 * time.Second
	EndAfter   = 60 * time.Second
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
func (a *appending) stalled(now clock.Now) bool { return a.appendingFor(now) >= StallAfter }

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
		return errors.New("the store's answers contradict each other")
	}
	return a.lastErr
}

// Tally counts the outcomes of appends, since the last call of TakeTally.
type Tally struct {
	Committed, Taken uint64 // what they came to
	Unknown          uint64 // calls that left the outcome open
	Resent           uint64 // repetitions
	Fills, Voids     uint64 // of the list: times it was turned on, and grabs that the log could not take
}

// OneLine returns an error's text, shortened to fit a line of a log or a table.
func OneLine(err error) string { return text.Short(err.Error(), 200) }

// Hold is a claim that is held, or that was and has not been paid.
type Hold struct {
	request.Claim
	Release time.Time // when it expires, or would have: its deadline and the grace
}

// HoldsFrom reads up to most claims from the from-th on, in the order of their acceptance, or for a draw
// of their awards. It returns those that are held, and those that have expired or were cancelled and whose
// release is after since. next is the position of the next call; it equals from if there were no claims.
// Claims before it need not be read again: a claim is held from the moment at which it got its units, or
// never.
func (shard *Shard) HoldsFrom(from, most int, since time.Time) (holds []Hold, next int) {
	shard.state.RLock()
	defer shard.state.RUnlock()
	state := shard.seq.state
	end := min(from+most, state.ClaimsWithUnits())
	for ; from < end; from++ {
		if h, ok := shard.unpaid(state.ClaimWithUnits(from)); ok && (h.State == api.Held || h.Release.After(since)) {
			holds = append(holds, h)
		}
	}
	return holds, from
}

// Unpaid returns the present state of a claim, if it is held, has expired or was cancelled.
func (shard *Shard) Unpaid(id request.ClaimID) (Hold, bool) {
	shard.state.RLock()
	defer shard.state.RUnlock()
	c, ok := shard.seq.state.ClaimAt(id.Slot, id.Index)
	if !ok {
		return Hold{}, false
	}
	return shard.unpaid(c)
}

func (shard *Shard) unpaid(c ledger.Claim) (Hold, bool) {
	switch c.State {
	case ledger.StateHeld, ledger.StateExpired, ledger.StateCancelled:
		return Hold{claimOf(shard.seq.shard, c), ledger.Time(c.ReleaseUs())}, true
	}
	return Hold{}, false
}
