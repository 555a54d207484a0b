package shard

import (
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// The owner of a shard takes part in a draw as follows. At the close it records in the log
// which entries the shard has. Once the ranks are published it awards the entries that have one
// their units, in the order of their ranks, and as far as ranks may be awarded by now. That
// limit follows from the totals of all shards; no process decides it. A shard that lacks units
// for its entries requests them of other shards, as for claims.

// Award is an entry that has a rank.
type Award struct {
	Rank  int64 // from 1
	Slot  uint64
	Index int // among the ops of its commit
}

// awards are the entries of a shard that have a rank.
type awards struct {
	all  []Award // the lowest rank first
	next int     // those before were given their units
}

// hasMore reports whether there are entries that may be given units, now or later.
func (a *awards) hasMore() bool { return a.next < len(a.all) }

// draftAwards awards entries their units. An entry that does not fit into the draft, or for which no unit
// is here, waits for the next commit.
func (q *sequencer) draftAwards(d *ledger.Draft) {
	q.requests.awardsShort = 0
	a := &q.awards
	if !a.hasMore() || q.state.Phase == ledger.PhaseClosed {
		return
	}
	last := q.totals.mayBeAwarded()
	for i := a.next; i < len(a.all) && a.all[i].Rank <= last; i++ {
		claim, ok := q.state.ClaimAt(a.all[i].Slot, a.all[i].Index)
		if !ok || claim.State != ledger.StateEntered {
			if i == a.next {
				a.next++
			}
			continue
		}
		if q.requests.awardsShort > 0 {
			q.requests.awardsShort++
			continue
		}
		switch d.Award(claim).Kind {
		case ledger.SettleShort:
			q.requests.awardsShort++
		case ledger.SettleFull:
			return
		}
	}
}

// nextDecision returns the monotonic time of the next decision that no event causes: the release of a hold, the
// record of the entries when the sale closes, and the next check whether entries may be given units, since other
// shards may have lost some, or have some to spare. 0: none is due, or another event comes first.
func (q *sequencer) nextDecision(now clock.Now) (at time.Duration) {
	if q.mode != serving || q.sent != nil || q.returnBlockedUntil != 0 || !q.rights.Valid(now) {
		return 0
	}
	behind := func(us int64) time.Duration {
		return now.Mono + max(time.UnixMicro(us).Sub(now.Wall), 0) + time.Microsecond
	}
	if release, ok := q.state.NextDue(); ok {
		at = behind(release)
	}
	settings := q.state.Settings()
	_, closed := q.state.Entries()
	switch {
	case settings.GetDraw() && !closed:
		at = clock.Soonest(at, behind(settings.GetClosesAtUs()))
	case q.awards.hasMore() && q.state.Phase != ledger.PhaseClosed:
		at = clock.Soonest(at, now.Mono+ReplyTimeout)
	}
	return at
}

// SetDrawn sets the generation in which the order of a draw was revealed.
func (b *SaleTotals) SetDrawn(since uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drawnSince = since
}

// mayBeAwarded returns the last rank that may be awarded by now, as far as the sale's totals show:
// later reports of other shards can only raise it.
func (b *SaleTotals) mayBeAwarded() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	totals := make([]ledger.Totals, len(b.shards))
	for i := range b.shards {
		totals[i] = b.shards[i].Totals
	}
	return ledger.MayBeAwarded(totals, b.drawnSince)
}
