package shard

import (
	"slices"

	"salectl/api"
	"salectl/rules"
)

// requests are the unanswered requests that a sequencer has: the undecided ones in the order of their
// arrival, and the batch of the commit under way.
type requests struct {
	waiting      []*Ticket // undecided: those that are short of units, then new ones
	due          int       // number of requests at the end of waiting that are due for a decision
	prioritized  bool      // some have priorities
	earlierShort bool      // a request before the one being decided waits for units, without choosing them
	batch        []*Ticket // decided in the commit under way
	maxBatch     int       // claims a commit may have, after one was too large; 0: any number
	awardsShort  int64     // units that awards of a draw wait for
	answered     []*Ticket // answered, to be handed back
}

// add adds new requests.
func (r *requests) add(ts []*Ticket) {
	for _, t := range ts {
		t.search, t.firstRequest = nil, 0 // an earlier owner may have begun one
	}
	r.waiting = append(r.waiting, ts...)
	r.due += len(ts)
	r.prioritized = r.prioritized || slices.ContainsFunc(ts, func(t *Ticket) bool { return t.admittance != nil && t.admittance.Priority != rules.Priority{} })
}

// sortDue sorts the requests that are due by priority, those of one priority by arrival.
func (r *requests) sortDue() {
	if r.prioritized {
		slices.SortStableFunc(r.waiting[len(r.short()):], func(a, b *Ticket) int { return b.priority().Compare(a.priority()) })
		r.prioritized = len(r.waiting) > 0
	}
}

// retryAll makes all undecided requests due for a decision: units may have come, or be gone for good.
func (r *requests) retryAll() { r.due = len(r.waiting) }

// short returns the requests that wait for units.
func (r *requests) short() []*Ticket { return r.waiting[:len(r.waiting)-r.due] }

// answer sets the answer to a request.
func (r *requests) answer(t *Ticket, a Answer) {
	t.answer = t.forRequester(a)
	r.answered = append(r.answered, t)
}

// takeAnswered returns the requests that were answered since its last call.
func (r *requests) takeAnswered() []*Ticket {
	done := r.answered
	r.answered = nil
	return done
}

// refuse answers all undecided requests.
func (r *requests) refuse(why func(*Ticket) Answer) {
	r.retryAll()
	r.filterDue(func(t *Ticket) bool {
		if t.take() {
			r.answer(t, why(t))
		}
		return false
	})
}

// refuseShort answers the requests that wait for units, except those for which stays returns true.
func (r *requests) refuseShort(stays func(*Ticket) bool, why func(*Ticket) Answer) {
	short := r.short()
	n := 0
	for _, t := range short {
		switch {
		case stays(t):
			short[n] = t
			n++
		case t.take():
			r.answer(t, why(t))
		}
	}
	r.waiting = slices.Delete(r.waiting, n, len(short))
}

// waitForUnits reports whether awards, or requests that do not choose their units, wait for units.
func (r *requests) waitForUnits() bool {
	return r.awardsShort > 0 || slices.ContainsFunc(r.waiting, func(t *Ticket) bool { return !t.Chooses() })
}

// filterDue calls stays for each request that is due. Those for which it returns true wait for units
// from now on; the others are removed.
func (r *requests) filterDue(stays func(*Ticket) bool) {
	from := len(r.short())
	rest := slices.DeleteFunc(r.waiting[from:], func(t *Ticket) bool { return !stays(t) })
	r.waiting, r.due = r.waiting[:from+len(rest)], 0
}

// decision is the result of a decision on one request.
type decision int

const (
	decided decision = iota
	short            // it waits for units
	full             // it waits for the next commit
)

// decide calls look for the requests that are due, by priority, until the commit is full. Decided
// requests join the batch; requests that are short of units keep waiting.
func (r *requests) decide(look func(*Ticket) decision) {
	r.sortDue()
	keep := len(r.waiting) - r.due
	r.earlierShort = slices.ContainsFunc(r.short(), func(t *Ticket) bool { return !t.Chooses() })
	r.due = 0
	for i := keep; i < len(r.waiting); i++ {
		t := r.waiting[i]
		if !t.take() {
			continue // it was withdrawn
		}
		if t.isSuperseded() {
			r.answer(t, refuseHere(api.NoQuorum))
			continue
		}
		d := full
		if r.maxBatch == 0 || len(r.batch) < r.maxBatch {
			d = look(t)
		}
		if d == decided {
			r.batch = append(r.batch, t)
			continue
		}
		t.putBack()
		if d == full {
			r.due = len(r.waiting) - i
			keep += copy(r.waiting[keep:], r.waiting[i:])
			break
		}
		r.earlierShort = r.earlierShort || !t.Chooses()
		r.waiting[keep] = t
		keep++
	}
	clear(r.waiting[keep:])
	r.waiting = r.waiting[:keep]
}

// restoreBatch puts the batch back before all other requests, for another decision.
func (r *requests) restoreBatch() {
	for _, t := range r.batch {
		t.putBack()
	}
	r.waiting = append(r.batch, r.waiting...)
	r.batch = nil
	r.retryAll()
}

// answerBatch answers the batch with what final returns for each request.
func (r *requests) answerBatch(final func(*Ticket) Answer) {
	for _, t := range r.batch {
		r.answer(t, final(t))
	}
	r.batch = r.batch[:0]
}
