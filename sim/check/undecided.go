package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"salectl/api"
)

// mostUndecided is how long after the faults stopped a request that came before may keep
// others of its identity undecided.
const mostUndecided = 30 * time.Second

// undecided judges answers of unknown. Something must have left the request open: its client
// stopped waiting while it was being decided; an append, or a call for units of a list, lost its
// reply while it ran, or while an earlier request of its identity ran; it was forwarded and there was
// no reply; a list gave its user a unit that the log of its shard lacked, or may have given it in an
// earlier session of a process; or another request of the same identity was open, for one of these
// reasons or since it was being decided; or its identity has a hold or an entry, of which only who
// reads the log to its end knows what became. When the faults have stopped for a while nothing of
// before counts any more.
func undecided(e *evidence, bad fault) {
	if len(e.h.Requests) == 0 {
		return // nobody knows who had which request
	}
	open := newIdentities(e)
	for i, o := range e.all(ClaimInvoked) {
		if o.returned == nil || o.returned.Answer.Outcome != api.Unknown || e.h.Withdrawn[i] {
			continue
		}
		if !open.broke(i, o) && !open.forwarded(o) && !open.other(i, o) && !open.undrained(o) && !open.given(i, o) && !open.changes(o) {
			bad("operation %d (user %q, key %q) was answered %q between %v and %v, and nothing left it open",
				i, o.invoked.User, o.invoked.Key, api.Unknown, o.invoked.At, o.returned.At)
		}
	}
}

// identities are requests as the processes have them, by operation and by what makes two of
// them one.
type identities struct {
	*evidence
	byOp     map[int][]*Received
	byKey    map[request][]*Received
	users    map[string][]*Received // of a sale with lists, which give a user one unit whatever the key
	forwards map[string][]*Forward
}

func newIdentities(e *evidence) *identities {
	x := &identities{e, make(map[int][]*Received), make(map[request][]*Received), make(map[string][]*Received), make(map[string][]*Forward)}
	for i := range e.h.Requests {
		v := &e.h.Requests[i]
		q := e.ops[v.Op].invoked
		x.byOp[v.Op] = append(x.byOp[v.Op], v)
		if q.Key != "" {
			x.byKey[request{q.User, q.Key}] = append(x.byKey[request{q.User, q.Key}], v)
		}
		x.users[q.User] = append(x.users[q.User], v)
	}
	for i := range e.h.Forwards {
		f := &e.h.Forwards[i]
		x.forwards[f.User] = append(x.forwards[f.User], f)
	}
	return x
}

// broke reports whether a reply was lost, while an operation ran, by a process that had it: the one
// that got the request, or one that owned the shard of its user.
func (x *identities) broke(i int, o *operation) bool {
	from, _ := slices.BinarySearchFunc(x.h.Breaks, o.invoked.Seq, func(b Break, seq uint64) int { return cmp.Compare(b.Seq, seq) })
	for _, b := range x.h.Breaks[from:] {
		if b.Seq > o.returned.Seq {
			return false
		}
		toProcess := func(v *Received) bool { return strings.HasPrefix(v.Process, b.Process+",") }
		owned := func(s *slot) bool { return s.after.owner == b.Process }
		if slices.ContainsFunc(x.byOp[i], toProcess) || slices.ContainsFunc(x.runs, func(r *run) bool {
			return slices.ContainsFunc(r.homeOf(o.invoked.User).during(o.invoked.Place, o.returned.Seq), owned)
		}) {
			return true
		}
	}
	return false
}

// forwarded reports whether an operation, or one of the same identity, was with another process when
// it was answered, or was lost there.
func (x *identities) forwarded(o *operation) bool {
	return slices.ContainsFunc(x.forwards[o.invoked.User], func(f *Forward) bool {
		return (o.invoked.Key == "" || f.Key == o.invoked.Key || x.listed()) && f.Seq < o.returned.Seq &&
			(f.Ended == 0 || f.Ended > o.invoked.Seq) && !x.longBefore(f.Place, o)
	})
}

// other reports whether another request of the same identity was open when an operation was
// answered, or was left open before.
func (x *identities) other(i int, o *operation) bool {
	return slices.ContainsFunc(x.same(o), func(v *Received) bool {
		open := v.Ended == 0 || v.Ended > o.invoked.Seq || v.Outcome == api.Unknown || x.h.Withdrawn[v.Op]
		return open && v.Op != i && v.Seq < o.returned.Seq && !x.longBefore(v.Place, o)
	})
}

// same returns the received requests of an operation's identity: its key, or its user in a sale with lists.
func (x *identities) same(o *operation) []*Received {
	if x.listed() {
		return x.users[o.invoked.User]
	}
	return x.byKey[request{o.invoked.User, o.invoked.Key}]
}

// undrained reports whether a list had given the user of an operation a unit of which the owner of the
// shard may not have known that the log has it.
func (x *identities) undrained(o *operation) bool {
	return slices.ContainsFunc(x.grants, func(g *grant) bool {
		return g.User == o.invoked.User && g.run != nil && g.Seq < o.returned.Seq && g.ended >= g.run.homeOf(g.User).known(o.invoked.Seq)
	})
}

// given reports whether an earlier request of the identity may have been granted without the
// knowledge of a process that answers the operation: the process lost a reply while that request
// waited, or a list had given the user a unit, whether or not its node lost it. The process learns
// the result when it reads the log.
func (x *identities) given(i int, o *operation) bool {
	return slices.ContainsFunc(x.same(o), func(v *Received) bool {
		return v.Ended != 0 && v.Ended < o.returned.Seq && !x.longBefore(v.Place, o) && (x.listed() && v.Outcome.Accepted() || x.lost(i, v) || x.forgotten(i, o, v))
	})
}

// forgotten reports whether a list gave the user a unit during an earlier request to a process that
// answers the operation and no longer owns the shard, and the node lost the unit before the log had
// it. The next owner finds nothing and refuses that request.
func (x *identities) forgotten(i int, o *operation, earlier *Received) bool {
	return slices.ContainsFunc(x.grants, func(g *grant) bool {
		if g.User != o.invoked.User || g.run == nil || g.stored != nil || g.Seq < earlier.Seq || g.Seq > earlier.Ended {
			return false
		}
		last := g.run.homeOf(g.User).at(o.invoked.Seq)
		return last != nil && !strings.HasPrefix(earlier.Process, last.after.owner+",") && slices.ContainsFunc(x.byOp[i], func(v *Received) bool { return v.Process == earlier.Process })
	})
}

// lost reports whether a process that has an operation lost a reply to an earlier request.
func (x *identities) lost(i int, earlier *Received) bool {
	return slices.ContainsFunc(x.h.Breaks, func(b Break) bool {
		return earlier.Seq < b.Seq && b.Seq < earlier.Ended && slices.ContainsFunc(x.byOp[i], func(v *Received) bool {
			return strings.HasPrefix(v.Process, b.Process+",")
		})
	})
}

// changes reports whether an identity had a claim, when an operation was answered, that does not stay
// as it was made.
func (x *identities) changes(o *operation) bool {
	return slices.ContainsFunc(x.claims, func(c *claim) bool {
		return (c.entry || c.deadline != 0) && c.user == o.invoked.User && c.key == o.invoked.Key && o.invoked.Key != "" && c.at.Seq < o.returned.Seq
	})
}

func (x *identities) listed() bool { return len(x.runs) > 0 && x.runs[0].listed }

// longBefore reports whether the faults stopped after a place, and long before an operation.
func (x *identities) longBefore(at Place, o *operation) bool {
	stopped := x.h.Stopped
	return stopped != 0 && at.At < stopped && o.invoked.At > stopped+mostUndecided
}
