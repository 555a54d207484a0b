package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/api"
)

// promptly is how long after all was sold, and the faults had stopped, a request may still be
// told that units may come back: the processes look at the shards of others every 100 ms.
const promptly = 5 * time.Second

// spared says why an operation that was answered none_now should have been given units, or
// should have been told that all is sold. "" if that is not so, or nobody can tell.
func (e *evidence) spared(r *run, o *operation, outcome api.Outcome) string {
	if r == nil || outcome != api.NoneNow || len(r.shards) == 0 {
		return ""
	}
	if why := e.longSold(r, o); why != "" {
		return why
	}
	if r.listed || o.invoked.chooses() || len(e.h.Requests) == 0 {
		return ""
	}
	return e.idle(r, o)
}

// longSold says since when all has been sold, if a request that was answered none_now came long
// after that and after the faults had stopped. It may be the first for a while that the owner of
// its shard was asked: then that looks at the shards of others, and knows for whoever asks again.
func (e *evidence) longSold(r *run, o *operation) string {
	at, s := r.homeOf(o.invoked.User).at(o.invoked.Seq), e.h.undisturbed()
	if s == 0 || at == nil || slices.ContainsFunc(r.shards, func(l *log) bool { return l.fresh(o.returned.Place) }) {
		return "" // or a shard has a new owner
	}
	for _, c := range e.all(CommandInvoked) {
		ended := c.invoked.At // if it was killed
		if c.returned != nil {
			ended = c.returned.At
		}
		if c.invoked.Seq < o.returned.Seq && ended+promptly > o.invoked.At {
			return "" // or a command, such as resume, has owners query the other shards anew
		}
	}
	for _, sold := range r.soldOut {
		began := max(e.timeOf(sold.from), s) + promptly
		if sold.from < o.invoked.Seq && sold.to > o.returned.Seq && o.invoked.At > began && e.refusedBefore(r, o, at.after.owner, began) {
			return fmt.Sprintf("all had been sold since %v", began-promptly)
		}
	}
	return ""
}

// undisturbed is from when on nothing befalls the processes; 0: they are never left alone. Planned
// work ends links, as faults do.
func (h *History) undisturbed() time.Duration {
	since := h.Stopped
	for _, c := range h.Calm {
		if c.To == 0 {
			return 0
		}
		since = max(since, c.To)
	}
	for _, x := range h.Isolations {
		since = max(since, x.To)
	}
	return since
}

// refusedBefore reports whether an owner answered none_now a while before an operation came.
func (e *evidence) refusedBefore(r *run, o *operation, owner string, since time.Duration) bool {
	return slices.ContainsFunc(e.h.Requests, func(v Received) bool {
		ago := o.invoked.At - v.At
		at := r.homeOf(e.ops[v.Op].invoked.User).at(v.Seq)
		return v.Outcome == api.NoneNow && v.At > since && ago > lookTime && ago < keepsLooking && at != nil && at.after.owner == owner
	})
}

// A process that was asked looks at the shards of others in so much time, and goes on doing so
// for a while.
const (
	lookTime     = 500 * time.Millisecond
	keepsLooking = 1900 * time.Millisecond
)

// timeOf returns when something was stored.
func (e *evidence) timeOf(seq uint64) time.Duration {
	i, _ := slices.BinarySearchFunc(e.slots, seq, func(s *slot, seq uint64) int {
		if s.Seq < seq {
			return -1
		}
		return 1
	})
	if i == len(e.slots) {
		return 0
	}
	return e.slots[i].At
}

// replyLasts is how long the reply to an append may be on its way: then the call has failed.
const replyLasts = 2 * time.Second

// idle says how many units lay on other shards the whole time that an operation took, could be had
// from there, and were as many as it lacked.
//
// A shard that is short asks those that have units, and takes it that one has none which is
// silent. So nothing is said of a request that took so long, or of shards that changed their
// owner or generation meanwhile. Other requests that waited get all that they ask for first, and a
// shard that is asked by another sends half of what it has, at least.
func (e *evidence) idle(r *run, o *operation) string {
	home, from, to := r.homeOf(o.invoked.User), o.invoked.Place, o.returned.Seq
	here := home.at(from.Seq)
	if here == nil || o.returned.At-from.At >= silence || home.turned(from.Seq, to) || !home.served(from.Seq) || !e.decidedBy(o, here.after.owner) {
		return ""
	}
	waiting := e.waiting(r, o)
	least, spare := here.after.least(o), home.leastAvailable(from.Seq, to)
	elsewhere := int64(0)
	for _, l := range r.shards {
		if n := l.leastAvailable(l.known(l.storedBy(from.At-replyLasts)), to); l != home && n > 0 && !e.unreached(home, l, o) {
			for other, lacks := range waiting {
				if other != l && other != home && lacks > 0 {
					n /= 2
					break
				}
			}
			elsewhere += n
		}
	}
	spare += elsewhere
	for _, lacks := range waiting {
		spare -= lacks
	}
	if elsewhere == 0 || spare < least {
		return ""
	}
	return fmt.Sprintf("%d units lay available on other shards", elsewhere)
}

// waiting returns how many units others were asking for while an operation ran, by shard.
func (e *evidence) waiting(r *run, o *operation) map[*log]int64 {
	all := make(map[*log]int64)
	for _, v := range e.h.Requests {
		if other := e.ops[v.Op]; other != o && v.Seq < o.returned.Seq && (v.Ended == 0 && v.At+grace > o.invoked.At || v.Ended > o.invoked.Seq) {
			all[r.homeOf(other.invoked.User)] += other.invoked.Quantity
		}
	}
	return all
}

// decidedBy reports whether the process at an address gave the answer to an operation, to its client
// or to the process that was asked.
func (e *evidence) decidedBy(o *operation, owner string) bool {
	return e.answeredByOwner(o, owner) || slices.ContainsFunc(e.h.Forwards, func(f Forward) bool {
		return f.To == owner && f.User == o.invoked.User && f.Key == o.invoked.Key && f.Seq > o.invoked.Seq && f.Ended != 0 && f.Ended < o.returned.Seq
	})
}

// storedBy is the place of the last slot of a log that was stored by a time. The owner of the shard
// learns a while later that it was.
func (l *log) storedBy(at time.Duration) (seq uint64) {
	for _, s := range l.slots {
		if s.At <= at {
			seq = s.Seq
		}
	}
	return seq
}

// leastAvailable is how many units a log had available between two places, at least.
func (l *log) leastAvailable(from, to uint64) int64 {
	last := l.at(from)
	if last == nil {
		return 0
	}
	least := last.after.available
	for i := slices.Index(l.slots, last); i < len(l.slots) && l.slots[i].Seq < to; i++ {
		least = min(least, l.slots[i].after.available)
	}
	return least
}

// unreached reports whether a shard may not have given units to another while an operation ran. Where
// another process has it, the one that lacks units may not know yet that it has some.
func (e *evidence) unreached(home, l *log, o *operation) bool {
	from, to := o.invoked.Place, o.returned.Seq
	a, b := home.at(from.Seq), l.at(from.Seq)
	return l.turned(from.Seq, to) || !l.served(from.Seq) || e.replyLost(b, o) || e.ownerKilled(b, to) || a.after.generation != b.after.generation ||
		b.after.settings.GetPhase() == phaseClosed || len(e.h.Leases) > 0 && !e.serves(b, from.At) ||
		a.after.writer != b.after.writer && (l.emptied(o) || l.fresh(from) || home.fresh(from) || e.isolated(o, a.after.owner, b.after.owner))
}

// replyLost reports whether the owner of a shard may not know of its last slot when an operation
// came: a call of the owner failed later, since its reply was lost.
func (e *evidence) replyLost(last *slot, o *operation) bool {
	return slices.ContainsFunc(e.h.Breaks, func(b Break) bool {
		return b.Process == last.after.owner && b.Seq > o.invoked.Seq && b.At < last.At+grace
	})
}

// ownerKilled reports whether the process that had taken a shard over by its last slot was killed
// before a place. Nobody gives the shard's units until the lease has run out. A shard that lacks
// units learns of that when its request for units has been unanswered for long: it may have made
// that for an earlier claim, which has got a unit of a release since.
func (e *evidence) ownerKilled(last *slot, before uint64) bool {
	return slices.ContainsFunc(e.h.Kills, func(k Kill) bool {
		return k.Process == last.after.owner && k.Seq > last.epochBegan().Seq && k.Seq < before
	})
}

// isolated reports whether one of the processes at some addresses reached none of the others during
// an operation.
func (e *evidence) isolated(o *operation, addresses ...string) bool {
	return slices.ContainsFunc(e.h.Isolations, func(x Isolation) bool {
		address, _, _ := strings.Cut(x.Process, ",")
		return slices.Contains(addresses, address) && x.From < o.returned.At && (x.To == 0 || x.To > o.invoked.At)
	})
}
