package check

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"salectl/api"
)

// byPriority reports whether a run's shards decide on the requests that wait by the priority of their
// users, in a generation. Of those of one priority the first that came goes first.
func (r *run) byPriority(generation uint64) bool {
	if generation == 0 || generation > uint64(len(r.planned)) {
		return false
	}
	var declaration struct {
		Queue struct{ Order string }
	}
	p := r.planned[generation-1]
	return len(p.GetSpec()) > 0 && json.Unmarshal(p.GetSpec(), &declaration) == nil && declaration.Queue.Order == "priority"
}

// order judges in which order requests that waited together were given units: by priority where
// the sale declares that, and else as they came. One that came to the owner before its third last
// commit was stored is in the batch of the last, if it has no answer by then. The commit between
// may pass it over: a process that doubts its lease queues a request without a ruling, the next
// commit refuses it for other rules, and the process admits it again.
func order(e *evidence, bad fault) {
	requested := e.arrivals()
	for _, l := range e.logs {
		if l.run.listed || l.run.isDraw() {
			continue
		}
		e.orderOf(l, requested, bad)
	}
}

// arrival is how a request came to a process.
type arrival struct {
	op       *operation
	received *Received
	once     bool // to one process, once
}

// arrivals returns how the requests came that have a key.
func (e *evidence) arrivals() map[request]*arrival {
	all := make(map[request]*arrival)
	for i := range e.h.Requests {
		v := &e.h.Requests[i]
		q := e.ops[v.Op].invoked
		id := request{q.User, q.Key}
		if a := all[id]; a != nil {
			a.once = false
		} else if q.Key != "" {
			all[id] = &arrival{op: e.ops[v.Op], received: v, once: true}
		}
	}
	return all
}

// orderOf judges the commits of one shard.
func (e *evidence) orderOf(l *log, requested map[request]*arrival, bad fault) {
	granted := make(map[request]*claim)
	for _, c := range e.claims {
		if c.at.log == l && !c.again {
			granted[request{c.user, c.key}] = c
		}
	}
	var waiters []*arrival
	for id, a := range requested {
		if a.once && l.run.homeOf(id.user) == l && !a.op.invoked.chooses() && !e.h.Withdrawn[a.received.Op] {
			waiters = append(waiters, a)
		}
	}
	slices.SortFunc(waiters, func(a, b *arrival) int { return cmp.Compare(a.received.Seq, b.received.Seq) })
	for _, c := range e.claims {
		if c.at.log != l || c.again || c.at.n < 2 || len(c.units) == 0 {
			continue
		}
		collected := l.slots[c.at.n-2].Seq
		for _, w := range waiters {
			if w.received.Seq > collected {
				break
			}
			if w.received.Ended != 0 && w.received.Ended < c.at.Seq || granted[w.id()] == c {
				continue
			}
			if e.goesFirst(c, requested[request{c.user, c.key}], w, granted[w.id()]) {
				bad("%v was given %d units before operation %d (user %q, key %q), which waited for %d with it and comes first",
					c, len(c.units), w.received.Op, w.op.invoked.User, w.op.invoked.Key, w.op.invoked.Quantity)
			}
		}
	}
}

func (a *arrival) id() request { return request{a.op.invoked.User, a.op.invoked.Key} }

// settling is how long after a shard was taken over its requests may still wait for somebody
// else's answer first.
const settling = 2 * time.Second

// goesFirst reports whether a request that waited when a claim's commit was decided was to be given
// units before it, and was not. by is how the request of the claim came, nil if that is not
// known; got is the claim of the request that waited, nil: it has none.
func (e *evidence) goesFirst(c *claim, by *arrival, w *arrival, got *claim) bool {
	s, l := c.at, c.at.log
	switch {
	case got != nil && (got.at.n < s.n || got.at == s && got.index < c.index):
		return false
	case got == nil && w.received.Outcome != api.NoneNow && w.received.Outcome != api.SoldOut:
		return false // there was another reason
	case s.after.least(w.op) > int64(len(c.units)), !strings.HasPrefix(w.received.Process, s.after.owner+","), l.turned(w.received.Seq, s.Seq):
		return false
	case w.received.At < l.owned(s)+settling:
		return false
	}
	if l.run.byPriority(s.after.generation) {
		theirs, ok := e.levelOf(w, got, s)
		mine := e.levelBy(c)
		switch {
		case !ok, theirs < mine:
			return false
		case theirs > mine:
			return true
		}
	}
	return by != nil && by.once && by.received.Seq > w.received.Seq && strings.HasPrefix(by.received.Process, s.after.owner+",")
}

// owned returns when the owner of a slot took the shard over.
func (l *log) owned(s *slot) time.Duration {
	i := int(s.n)
	for i > 0 && l.slots[i-1].after.epoch == s.after.epoch {
		i--
	}
	return l.slots[i].At
}

// levelBy returns the level by which a claim was let in, -1 if nothing was known.
func (e *evidence) levelBy(c *claim) int64 {
	for level, digest := range e.levels(c.at, c.user) {
		if digest == string(c.attributes) {
			return level
		}
	}
	return -1
}

// levelOf returns the level of a request that waited for a slot; false: it has changed. got is the
// claim of the request, nil: it has none.
func (e *evidence) levelOf(w *arrival, got *claim, s *slot) (level int64, ok bool) {
	if got != nil {
		return e.levelBy(got), true
	}
	level = -1
	known := false
	for other := range e.levels(s, w.op.invoked.User) {
		if known && other != level {
			return 0, false
		}
		level, known = other, true
	}
	return level, true
}

// levels yields what a user's level was up to a slot, by the sources of its generation, and what
// names that in a claim.
func (e *evidence) levels(s *slot, user string) func(yield func(level int64, digest string) bool) {
	return func(yield func(int64, string) bool) {
		t, err := s.log.run.planned[s.after.generation-1].terms()
		if e.h.Users == nil || err != nil {
			return
		}
		for _, users := range e.h.Users.versions(0, s.At) {
			for _, purchases := range e.h.Users.versions(0, s.At) {
				level, _, digest := e.h.Users.Known(user, t.from, users, purchases)
				if !yield(level, digest) {
					return
				}
			}
		}
	}
}
