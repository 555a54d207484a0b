package check

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
)

const (
	phaseOpen   = pb.Phase_OPEN
	phasePaused = pb.Phase_PAUSED
	phaseClosed = pb.Phase_CLOSED
)

// grace is how long an owner may go on refusing by the settings of a generation
// that is not the shard's newest any more, as long as it has appended nothing
// since: what it appends shows that it knows all that was stored before. Of a
// planner's generation it learns when it reads the sale's log. Without having read
// that for a ttl it answers nothing; but a read may lag, and while it does not know
// what became of an append, it answers by what it knew before. Neither has a
// bound in what salectl promises, so this is what the simulation does at most:
// 3 s of ttl, 3 s in which reads are answered from the past, and 2 s for a call
// that is lost, three times.
const grace = 12 * time.Second

// refusals judges every claim that was refused: its reason must have been
// so at some time between the request and the answer. What a process answers about
// itself (standby, overloaded, no_quorum, draining, not_checked) and what it may answer from an
// old read of the sale's log (no_such_sale, not_open) is not judged.
func refusals(e *evidence, bad fault) {
	for i, o := range e.all(ClaimInvoked) {
		if !o.answered() || accepted(o.returned.Answer.Outcome) {
			continue
		}
		q := o.invoked
		switch outcome := o.returned.Answer.Outcome; outcome {
		case api.Standby, api.Overloaded, api.NoQuorum, api.Draining, api.NotChecked, api.NoSuchSale, api.NotOpen:
		case api.NotEligible:
			if !e.ineligible(o) {
				bad("operation %d: no rules refuse user %q", i, q.User)
			}
		case api.BadRequest:
			if n := len(q.User); n > 0 && n <= 255 && len(q.Key) <= 255 && q.Quantity >= 1 && q.Quantity <= 1000 {
				bad("operation %d was a bad request: user %q, key %q, %d units", i, q.User, q.Key, q.Quantity)
			}
		case api.KeyReused:
			other := func(c *claim) bool {
				return c.user == q.User && c.key == q.Key && !c.repeated(q) && c.at.Seq < o.returned.Seq
			}
			if q.Key == "" || !slices.ContainsFunc(e.claims, other) {
				bad("operation %d: user %q has no claim under key %q but for %d units, those named %v, adjacent: %v", i, q.User, q.Key, q.Quantity, q.Units, q.Adjacent)
			}
		case api.NotDrawn:
			if !slices.ContainsFunc(e.claims, func(c *claim) bool { return c.user == q.User && e.keyed(c, q) && c.lost(o.returned.Seq) }) {
				bad("operation %d: user %q has no entry under key %q that was drawn and has no rank", i, q.User, q.Key)
			}
		case api.Expired, api.Cancelled, api.Refunded:
			if !slices.ContainsFunc(e.claims, func(c *claim) bool {
				return c.user == q.User && e.keyed(c, q) && c.was(string(outcome), q.Seq, o.returned.Seq)
			}) {
				bad("operation %d: no claim of user %q under key %q was %s then", i, q.User, q.Key, outcome)
			}
		case api.UnitsTaken, api.NotAdjacent:
			if why := e.withheld(o); why != "" {
				bad("operation %d (user %q, %d units of %v) was answered %q between %v and %v, and %s",
					i, q.User, q.Quantity, q.Units, outcome, q.At, o.returned.At, why)
			}
		case api.SoldOut, api.NoneNow, api.LimitReached, api.Paused, api.Closed:
			if r := e.runOf(o); r != nil && !e.holds(r, o, outcome) {
				bad("operation %d (user %q, %d units) was answered %q, which was at no time true between its begin at %v and its end at %v",
					i, q.User, q.Quantity, outcome, q.At, o.returned.At)
			} else if why := e.spared(r, o, outcome); why != "" {
				bad("operation %d (user %q, %d units) was answered %q between %v and %v, and %s", i, q.User, q.Quantity, outcome, q.At, o.returned.At, why)
			}
		default:
			bad("operation %d was answered %q, which is no outcome", i, outcome)
		}
	}
}

// holds reports whether a refusal was true at some time while the operation ran.
func (e *evidence) holds(r *run, o *operation, outcome api.Outcome) bool {
	if r.isDraw() && (outcome == api.SoldOut || outcome == api.NoneNow) {
		return false // entries need no units
	}
	if outcome == api.SoldOut {
		return r.soldOutToOwner(o) || slices.ContainsFunc(r.soldOut, func(s span) bool {
			return s.from < o.returned.Seq && (s.to > o.invoked.Seq || s.endedBy.unknown(o.invoked.Place) || s.endedBy.unheard(o.invoked.Place))
		})
	}
	if len(r.shards) == 0 {
		return true
	}
	home := r.shards[xxhash.Sum64String(o.invoked.User)%uint64(len(r.shards))]
	if outcome == api.NoneNow && e.emptied(home, o) {
		return true
	}
	during := home.during(o.invoked.Place, o.returned.Seq)
	return len(during) == 0 || slices.ContainsFunc(during, func(s *slot) bool {
		m := &s.after
		switch outcome {
		case api.NoneNow:
			return m.available < m.least(o)
		case api.LimitReached:
			most := m.settings.GetPayment().GetUnpaidPerUser()
			return e.has(home, o)+m.least(o) > m.settings.GetPerUserLimit() || most > 0 && e.unpaid(home, o) >= most
		case api.Paused:
			return m.settings.GetPhase() == phasePaused
		}
		return m.settings.GetPhase() == phaseClosed || m.settings.GetClosesAtUs() != 0
	})
}

// has returns how many units an operation's user had on a shard when it ended.
func (e *evidence) has(home *log, o *operation) (units int64) {
	for _, c := range e.claims {
		if c.entry && c.user == o.invoked.User && c.at.log == home && c.at.Seq < o.returned.Seq {
			return 1 // whatever became of it
		}
		if c.user == o.invoked.User && c.at.log == home && c.at.Seq < o.returned.Seq && !c.again &&
			(c.was("sold", o.invoked.Seq, o.returned.Seq) || c.was("held", o.invoked.Seq, o.returned.Seq)) {
			units += int64(len(c.units))
		}
	}
	for _, g := range e.grants {
		if r := home.run; r.ackRedis && g.run == r && g.User == o.invoked.User && g.Seq < o.returned.Seq {
			units++ // its node answered so
		}
	}
	return units
}

// unpaid returns how many claims of an operation's user on a shard were cancelled or had expired
// when the operation ended.
func (e *evidence) unpaid(home *log, o *operation) (n int64) {
	for _, c := range e.claims {
		if c.user == o.invoked.User && c.at.log == home && !c.again &&
			(c.was("cancelled", o.invoked.Seq, o.returned.Seq) || c.was("expired", o.invoked.Seq, o.returned.Seq)) {
			n++
		}
	}
	return n
}

// soldOutToOwner reports whether all was sold for an owner who did not know of the
// generations that planners had just appended when an operation ended.
func (r *run) soldOutToOwner(o *operation) bool {
	var unsold int64
	generations := make(map[uint64]struct{})
	for _, l := range r.shards {
		last := len(l.slots) - 1
		for last >= 0 && (l.slots[last].Seq > o.returned.Seq || l.slots[last].unknown(o.returned.Place)) {
			last--
		}
		if last < 0 {
			return false
		}
		known := l.slots[last].after
		unsold += known.limit - known.sold
		generations[known.generation] = struct{}{}
	}
	return unsold == 0 && len(generations) == 1
}

// during returns the slots after which the log stood at some time in a span, as
// its owner may have seen it: the last one before, back to the generation before
// if that changed a short while ago and the owner has not shown that it knows,
// and all that were stored within.
func (l *log) during(from Place, to uint64) []*slot {
	i, _ := slices.BinarySearchFunc(l.slots, from.Seq, func(s *slot, seq uint64) int {
		if s.Seq < seq {
			return -1
		}
		return 1
	})
	first := max(i-1, 0)
	for j := first; j > 0 && l.slots[j].At+grace > from.At; j-- {
		if l.slots[j].after.generation > l.slots[j].before {
			first = j - 1
		}
		if l.slots[j].byOwner() && !l.taken(j, from) {
			break // it knew all before this one
		}
	}
	for ; i < len(l.slots) && l.slots[i].Seq < to; i++ {
	}
	return l.slots[first:i]
}

// known returns the place of the oldest slot before another place of which the owner may
// not have known: of its own last one the reply may be on its way, and of those that a
// planner stored since it learns when it reads the log, or appends.
func (l *log) known(seq uint64) uint64 {
	last := l.at(seq)
	if last == nil {
		return seq
	}
	for j := slices.Index(l.slots, last); j >= 0 && l.slots[j].At+grace > last.At; j-- {
		seq = l.slots[j].Seq
		if l.slots[j].byOwner() && !l.taken(j, last.Place) {
			break
		}
	}
	return seq
}

// taken reports whether the shard was taken over a short while before a time, at a slot
// or before it: the owner before may not know of that, and still answer.
func (l *log) taken(slot int, at Place) bool {
	for k := slot; k > 0 && l.slots[k].At+grace > at.At; k-- {
		if before := l.slots[k-1].after.writer; before != "" && before != l.slots[k].after.writer {
			return true
		}
	}
	return false
}

// byOwner reports whether the shard's owner appended a slot.
func (s *slot) byOwner() bool { return string(s.commit.GetWriter()) == s.after.writer }

// unknown reports whether a slot brought a generation that the owner, who did not append it,
// may not have known at a time. What the owner appended since shows that it knew, unless
// that is a new owner: the one before may have stood still since before the generation,
// and find its lease valid by its own clock, though a lock node whose clock was set has
// given it away.
func (s *slot) unknown(at Place) bool {
	if s.after.generation == s.before || s.byOwner() || s.At+grace <= at.At {
		return false
	}
	l := s.log
	for j := slices.Index(l.slots, s) + 1; j < len(l.slots) && l.slots[j].Seq < at.Seq; j++ {
		if l.slots[j].byOwner() && !l.taken(j, at) {
			return false
		}
	}
	return true
}

// unheard reports whether an owner may not know at a time that a slot of its own is
// stored, which brought units back: it has appended nothing since.
func (s *slot) unheard(at Place) bool {
	return s.byOwner() && s.after.generation == s.before && s.At+grace > at.At && s.log.at(at.Seq) == s
}

// keyed reports whether a claim of the same user may be the requested one: it has the
// key, or there was none, and it was stored since under one that nobody gave.
func (e *evidence) keyed(c *claim, invoked *Event) bool {
	if invoked.Key != "" {
		return c.key == invoked.Key
	}
	return c.at.Seq > invoked.Seq && !slices.ContainsFunc(e.ops, func(o *operation) bool {
		return o != nil && o.invoked != nil && o.invoked.Kind == ClaimInvoked && o.invoked.User == c.user && o.invoked.Key == c.key
	})
}
