package check

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
)

// chooses reports whether a request is for particular units, or for adjacent ones.
func (q *Event) chooses() bool { return q.Adjacent || q.Units != nil }

// suits reports whether a claim is what a request has chosen, if it chooses.
func (c *claim) suits(q *Event) bool {
	switch {
	case !q.chooses():
		return true
	case !c.settings.GetChoose():
		return false
	case q.Units != nil:
		return slices.Equal(c.first, q.Units)
	}
	return slices.ContainsFunc(c.settings.GetRows(), func(row *pb.Range) bool { return sideBySide(c.first, row) })
}

// repeated reports whether a request may be one of those that a claim was made for: it requests
// so many units and, if it chooses, for those that the claim was given or, since its row may
// have lost a unit, for adjacent ones whose numbers follow each other.
func (c *claim) repeated(q *Event) bool {
	switch {
	case c.quantity() != q.Quantity:
		return false
	case q.Units != nil:
		return slices.Equal(c.first, q.Units)
	case q.Adjacent:
		return c.requested == 0 && sideBySide(c.first, &pb.Range{Count: math.MaxInt64})
	}
	return true
}

// sideBySide reports whether units follow each other within a row.
func sideBySide(units []int64, row *pb.Range) bool {
	for i, unit := range units {
		if unit != units[0]+int64(i) || unit < row.GetFirst() || unit >= row.GetFirst()+row.GetCount() {
			return false
		}
	}
	return true
}

// chosen judges claims whose buyers chose: each has the units that a request for it names, or
// adjacent ones, and answers with new units have such as the request chose.
func chosen(e *evidence, bad fault) {
	requested := make(map[request][]*operation)
	for i, o := range e.all(ClaimInvoked) {
		id := request{o.invoked.User, o.invoked.Key}
		requested[id] = append(requested[id], o)
		if c := e.granted(o); c != nil && !o.returned.Answer.Replayed && !c.suits(o.invoked) {
			bad("operation %d chose units %v, adjacent ones: %v, and was given %v of %v", i, o.invoked.Units, o.invoked.Adjacent, c.first, c)
		} else if c != nil && !c.repeated(o.invoked) {
			bad("operation %d asked for units %v, adjacent ones: %v, under a key of other units, and was told of %v", i, o.invoked.Units, o.invoked.Adjacent, c)
		}
	}
	for _, c := range e.claims {
		under := requested[request{c.user, c.key}]
		if len(under) == 0 {
			under = requested[request{c.user, ""}] // whose keys nobody knows
		}
		before := func(o *operation) bool { return o.invoked.Seq < c.at.Seq && o.invoked.Quantity == c.quantity() }
		if !c.again && slices.ContainsFunc(under, before) &&
			!slices.ContainsFunc(under, func(o *operation) bool { return before(o) && c.suits(o.invoked) }) {
			bad("%v has units %v, which nobody chose who asked for it", c, c.first)
		}
	}
}

// silence is how long a shard may take to answer another that requests units, before that
// takes it that there are none: 500 ms by the clock of a host, which may run fast by 0.4 %.
const silence = 498 * time.Millisecond

// withheld returns why somebody should have been given the units that were chosen: all of them
// lay the whole time where they could be had. "" if that is not so, or it is not known.
//
// Units on the home shard can be had. Those of another can while neither shard gets another
// owner or generation; if the answer comes before silence counts; and if nobody requests there
// whom that shard puts first. Where another process serves that shard, it must have had
// something available for a while, or the requester may not know of it.
func (e *evidence) withheld(o *operation) string {
	r, q := e.runOf(o), o.invoked
	if r == nil || len(r.shards) == 0 {
		return ""
	}
	home := r.homeOf(q.User)
	switch last := home.at(q.Seq); {
	case o.returned.Answer.Outcome == api.UnitsTaken && q.Units == nil:
		return "it names no units"
	case o.returned.Answer.Outcome == api.NotAdjacent && !q.Adjacent:
		return "it does not ask for adjacent ones"
	case last == nil:
		return ""
	case q.Adjacent && slices.ContainsFunc(home.during(q.Place, o.returned.Seq), func(s *slot) bool {
		return !slices.EqualFunc(s.after.settings.GetRows(), last.after.settings.GetRows(), func(x, y *pb.Range) bool { return proto.Equal(x, y) })
	}):
		return ""
	case !e.answeredByOwner(o, last.after.owner):
		return "" // it was another's by then
	case q.Units != nil:
		if at, ok := e.rested(home, o, q.Units); ok {
			return fmt.Sprintf("all of them lay available on the shards %v", at)
		}
		return ""
	default:
		for _, row := range last.after.settings.GetRows() {
			for first := row.GetFirst(); first+q.Quantity <= row.GetFirst()+row.GetCount(); first++ {
				run := make([]int64, q.Quantity)
				for i := range run {
					run[i] = first + int64(i)
				}
				if at, ok := e.rested(home, o, run); ok && !slices.ContainsFunc(at, func(shard int) bool { return shard != at[0] }) {
					return fmt.Sprintf("units %v lay available on shard %d", run, at[0])
				}
			}
		}
	}
	return ""
}

// answeredByOwner reports whether the process at an address gave the answer that a client received,
// by itself or to another. Without received requests nobody knows of another.
func (e *evidence) answeredByOwner(o *operation, owner string) bool {
	return len(e.h.Requests) == 0 || slices.ContainsFunc(e.h.Requests, func(v Received) bool {
		return e.ops[v.Op] == o && v.Outcome == o.returned.Answer.Outcome && strings.HasPrefix(v.Process, owner+",")
	})
}

func (r *run) homeOf(user string) *log {
	return r.shards[xxhash.Sum64String(user)%uint64(len(r.shards))]
}

// rested returns the shards on which units lay available while an operation ran, by unit;
// false: one of them did not, or could not be had from there.
func (e *evidence) rested(home *log, o *operation, units []int64) (at []int, ok bool) {
	r := home.run
	since := home.known(o.invoked.Seq)
	for _, unit := range units {
		shard, ok := r.rests(unit, since, o.returned.Seq)
		if !ok {
			return nil, false
		}
		l := r.shards[shard]
		if _, ok := r.rests(unit, min(since, l.known(o.invoked.Seq)), o.returned.Seq); !ok || l != home && e.outOfReach(home, l, o, units) {
			return nil, false
		}
		at = append(at, shard)
	}
	return at, true
}

// rests returns the shard on which a unit was available from one place on, and to another.
func (r *run) rests(unit int64, from, to uint64) (shard int, ok bool) {
	var last place
	for _, m := range r.moves[unit] {
		switch {
		case m.seq <= from:
			last = m.to
		case m.seq < to:
			return 0, false
		}
	}
	return last.shard, last.kind == free
}

// outOfReach reports whether a shard may not have given units to the home shard of an operation.
func (e *evidence) outOfReach(home, l *log, o *operation, units []int64) bool {
	from, to := o.invoked.Place, o.returned.Seq
	a, b := home.at(from.Seq), l.at(from.Seq)
	switch {
	case o.returned.At-from.At >= silence, b == nil, home.turned(from.Seq, to), l.turned(from.Seq, to):
		return true
	case slices.ContainsFunc(l.during(from, to), func(s *slot) bool { return s.after.settings.GetPhase() == phaseClosed }):
		return true // and it gives nothing
	case a.after.writer == b.after.writer && !l.served(from.Seq):
		return true // it may not have come to answer yet
	case len(e.h.Leases) > 0 && !e.serves(b, from.At):
		return true // nobody answers for it at the time
	case b.after.writer == "", a.after.writer != b.after.writer && (l.emptied(o) || l.fresh(from) || home.fresh(from)):
		return true // what one process knows of the other's shards may be old, or nothing
	}
	// The other shard keeps units that claims of its own wait for, from higher numbers, and
	// may just have found them for a third one with an earlier request. A claim for any units that
	// has come to it may have got some in a commit that is under way, and perhaps never stored.
	return slices.ContainsFunc(e.ops, func(other *operation) bool {
		if other == nil || other.invoked == nil || other.invoked.Kind != ClaimInvoked || other == o {
			return false
		}
		at := home.run.homeOf(other.invoked.User)
		if at == l && !other.invoked.chooses() && other.invoked.Seq > l.collects(to) && other.invoked.Seq < to && (!other.answered() || other.returned.Seq > to) {
			return true
		}
		return (at != home && at != l || at == l && l.shard < home.shard) && other.invoked.Seq < to &&
			(!other.answered() || other.returned.Seq > from.Seq) && other.mayWantOneOf(units, o.invoked.Adjacent)
	})
}

// collects returns the place at which the slot before the newest was stored: requests that came
// later may be in the commit that the shard's owner makes next. 0: there is no such slot.
func (l *log) collects(at uint64) uint64 {
	if last := l.at(at); last != nil {
		if i := slices.Index(l.slots, last); i > 0 {
			return l.slots[i-1].Seq
		}
	}
	return 0
}

// serves reports whether the owner that a shard has by its last slot had the lease at a time, and
// has not lost and won it again since it took the shard over.
func (e *evidence) serves(last *slot, at time.Duration) bool {
	l, began := last.log, last.epochBegan().At
	return slices.ContainsFunc(e.h.Leases, func(has Lease) bool {
		return has.UID == l.run.uid && has.Shard == l.shard && has.From <= began && at < has.To && strings.HasPrefix(has.Process, last.after.owner+",")
	})
}

// epochBegan returns where the owner that a shard has by a slot took it over.
func (s *slot) epochBegan() Place {
	began := s.Place
	for i := slices.Index(s.log.slots, s); i >= 0 && s.log.slots[i].after.epoch == s.after.epoch; i-- {
		began = s.log.slots[i].Place
	}
	return began
}

// turned reports whether a log got another owner or generation between two places.
func (l *log) turned(from, to uint64) bool {
	for i, s := range l.slots {
		if s.Seq > from && s.Seq < to && (s.after.generation != s.before || i > 0 && s.after.epoch != l.slots[i-1].after.epoch) {
			return true
		}
	}
	return false
}

// fresh reports whether a log's owner has taken it over a short while before a place.
func (l *log) fresh(at Place) bool {
	for i, s := range l.slots {
		if i > 0 && s.Seq < at.Seq && s.At+grace > at.At && s.after.epoch != l.slots[i-1].after.epoch {
			return true
		}
	}
	return false
}

// served reports whether a shard's owner had appended something by a place since it took the
// shard over.
func (l *log) served(seq uint64) bool {
	last := l.at(seq)
	i := slices.Index(l.slots, last)
	for ; i > 0 && l.slots[i-1].after.epoch == last.after.epoch; i-- {
		if l.slots[i].byOwner() {
			return true
		}
	}
	return false
}

// mayWantOneOf reports whether an operation is put first, on its shard, when another requests
// units that lie there: for those named where it names one of them too, for adjacent ones also
// where it requests any.
func (o *operation) mayWantOneOf(units []int64, adjacent bool) bool {
	if !o.invoked.chooses() {
		return adjacent
	}
	return slices.ContainsFunc(o.invoked.Units, func(unit int64) bool { return slices.Contains(units, unit) })
}

// emptied reports whether a shard had nothing available shortly before an operation or while it
// ran: another process may not know that it has some since, and requests none.
func (l *log) emptied(o *operation) bool {
	return slices.ContainsFunc(l.slots, func(s *slot) bool {
		return s.At+grace > o.invoked.At && s.Seq < o.returned.Seq && s.after.available == 0
	})
}
