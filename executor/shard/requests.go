package shard

import (
	"slices"

	"salectl/api"
	"salectl/executor/request"
	"salectl/rules"
)

// requests are the unanswered requests that a sequencer has: the undecided ones in the order of their
// arrival, and the batch of the commit under way.
type requests struct {
	waiting      []*request.Ticket // undecided: those that are short of units, then new ones
	due          int               // number of requests at the end of waiting that are due for a decision
	prioritized  bool              // some have priorities
	earlierShort bool              // an earlier request than the one being decided waits for units that it does not choose
	batch        []*request.Ticket // decided in the commit under way
	maxBatch     int               // maximum claims of a commit, after a commit was too large; 0: any number
	awardsShort  int64             // units that awards of a draw wait for
	answered     []*request.Ticket // with an answer, until takeAnswered returns them
}

// add adds new requests.
func (r *requests) add(ts []*request.Ticket) {
	for _, t := range ts {
		t.Search, t.FirstRequest = nil, 0 // an earlier owner may have begun a search
	}
	r.waiting = append(r.waiting, ts...)
	r.due += len(ts)
	r.prioritized = r.prioritized || slices.ContainsFunc(ts, func(t *request.Ticket) bool { return t.Admittance != nil && t.Admittance.Priority != rules.Priority{} })
}

// retryAll makes all undecided requests due for a decision: units may have come, or be gone for good.
func (r *requests) retryAll() { r.due = len(r.waiting) }

// short returns the requests that wait for units.
func (r *requests) short() []*request.Ticket { return r.waiting[:len(r.waiting)-r.due] }

// answer sets the answer to a request.
func (r *requests) answer(t *request.Ticket, a request.Answer) {
	t.Answer = t.ForRequester(a)
	r.answered = append(r.answered, t)
}

// takeAnswered returns the requests that were answered since its last call.
func (r *requests) takeAnswered() []*request.Ticket {
	done := r.answered
	r.answered = nil
	return done
}

// refuse answers the undecided requests from the from-th to the one before the to-th with what why returns for
// each. Those for which it returns no outcome wait for units.
func (r *requests) refuse(from, to int, why func(*request.Ticket) request.Answer) {
	if to == len(r.waiting) {
		r.due = 0
	}
	stay := slices.DeleteFunc(r.waiting[from:to], func(t *request.Ticket) bool {
		a := why(t)
		if a.Outcome != "" && t.Take() {
			r.answer(t, a)
		}
		return a.Outcome != ""
	})
	r.waiting = slices.Delete(r.waiting, from+len(stay), to)
}

// refuseAll answers all undecided requests with a.
func (r *requests) refuseAll(a request.Answer) {
	r.refuse(0, len(r.waiting), func(*request.Ticket) request.Answer { return a })
}

// waitForUnits reports whether awards, or requests that do not choose their units, wait for units.
func (r *requests) waitForUnits() bool {
	return r.awardsShort > 0 || slices.ContainsFunc(r.waiting, func(t *request.Ticket) bool { return !t.Chooses() })
}

// decision is the result of a decision on one request.
type decision int

const (
	decided decision = iota
	short            // it waits for units
	full             // it waits for the next commit
)

// decide calls decideOne for the requests that are due, in the order of priority and then of arrival, until the
// commit is full. Decided requests join the batch; requests that are short of units keep waiting.
func (r *requests) decide(decideOne func(*request.Ticket) decision) {
	if r.prioritized {
		slices.SortStableFunc(r.waiting[len(r.short()):], func(a, b *request.Ticket) int { return b.Priority().Compare(a.Priority()) })
		r.prioritized = len(r.waiting) > 0
	}
	keep := len(r.waiting) - r.due
	r.earlierShort = slices.ContainsFunc(r.short(), func(t *request.Ticket) bool { return !t.Chooses() })
	r.due = 0
	for i := keep; i < len(r.waiting); i++ {
		t := r.waiting[i]
		if !t.Take() {
			continue // it was withdrawn
		}
		if t.IsSuperseded() {
			r.answer(t, request.Refusal(api.NoQuorum))
			continue
		}
		d := full
		if r.maxBatch == 0 || len(r.batch) < r.maxBatch {
			d = decideOne(t)
		}
		if d == decided {
			r.batch = append(r.batch, t)
			continue
		}
		t.PutBack()
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
		t.PutBack()
	}
	r.waiting = append(r.batch, r.waiting...)
	r.batch = nil
	r.retryAll()
}

// answerBatch answers the batch with what final returns for each request.
func (r *requests) answerBatch(final func(*request.Ticket) request.Answer) {
	for _, t := range r.batch {
		r.answer(t, final(t))
	}
	r.batch = r.batch[:0]
}
