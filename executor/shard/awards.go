package shard

import (
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// A draw, as the owner of a shard has a part in it. At the close it says in the log which
// entries the shard has. Once the ranks are published it gives the entries that have one
// their units, in the order of their ranks, and as far as ranks may be awarded by now: how
// far that is nobody decides, it follows from the totals of all shards. A shard that lacks
// units for that asks others for them, as for claims.

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

func (a *awards) set(all []Award) {
	if len(a.all) == 0 {
		a.all = all
	}
}

// open reports whether there are entries that may be given units, now or later.
func (a *awards) hasMore() bool { return a.next < len(a.all) }

// award gives entries their units. What does not fit into the draft, or has no unit here,
// waits for the next.
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

// awardsAt is when to look again whether entries may be given units: other shards may have
// lost some, or have some to spare. And it is when the sale closes, if this shard is to say
// then which entries it has. It is monotonic; 0: there is no need.
func (q *sequencer) nextAward(now clock.Now) time.Duration {
	if q.mode != serving || q.sent != nil || q.returnAt != 0 || !q.rights.Valid(now) {
		return 0
	}
	settings := q.state.Settings()
	if _, closed := q.state.Entries(); settings.GetDraw() && !closed {
		return now.Mono + max(time.UnixMicro(settings.GetClosesAtUs()).Sub(now.Wall), 0) + time.Microsecond
	}
	if q.awards.hasMore() && q.state.Phase != ledger.PhaseClosed {
		return now.Mono + RepeatAfter
	}
	return 0
}

// Drawn says in which generation the order of a draw was revealed.
func (b *SaleTotals) Drawn(since uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drawnSince = since
}

// mayBeAwarded returns the last rank that may be awarded by now, as far as the sale's totals show:
// what it does not know of other shards yet can only raise it.
func (b *SaleTotals) mayBeAwarded() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	totals := make([]ledger.Totals, len(b.shards))
	for i := range b.shards {
		totals[i] = b.shards[i].Totals
	}
	return ledger.MayBeAwarded(totals, b.drawnSince)
}
