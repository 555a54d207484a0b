package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
)

// Requests that wait for units, while the shard has too few.

// seekUnits requests units of other shards: as many as waiting claims and awards lack beyond the number
// here that this shard has available, and those that claims choose. If no request for units that claims do
// not choose is unanswered, and this commit has no ops, seekUnits calls end, which answers claims that
// still wait.
func (q *sequencer) seekUnits(now clock.Now, here int64, end func(clock.Now)) {
	lack := q.requests.awardsShort - here
	for _, t := range q.requests.short() {
		if !t.Withdrawn() && !t.Chooses() {
			if t.FirstRequest == 0 {
				t.FirstRequest = q.transfers.lastRequest + 1
			}
			lack += t.Want
		}
	}
	q.transfers.requestUnits(now, lack, q.draft)
	if !q.transfers.awaitsAnyUnits() && q.draft.Ops() == 0 {
		end(now)
	}
	q.transfers.updateShort(now)
}

// refuseShort answers the requests that wait for units, except those for which stays returns true: there
// are no units.
func (q *sequencer) refuseShort(now clock.Now, stays func(*request.Ticket) bool) {
	q.requests.refuseShort(stays, func(t *request.Ticket) request.Answer {
		if a := q.noUnits(now); a.Outcome == api.SoldOut || !t.Chooses() {
			return a
		}
		return notFound(t)
	})
	q.transfers.clearDenials()
}

// refuseUnserved answers the requests that wait for units, except those that still wait for replies of
// other shards. Units are requested again for the latter.
func (q *sequencer) refuseUnserved(now clock.Now) {
	q.refuseShort(now, q.transfers.awaitsReply)
	if slices.ContainsFunc(q.requests.short(), func(t *request.Ticket) bool { return !t.Chooses() }) {
		q.requests.retryAll()
	}
}

// noUnits returns the answer to a request when no shard has units.
func (q *sequencer) noUnits(now clock.Now) request.Answer {
	if q.totals.AllSold(now) {
		return request.Answer{Outcome: api.SoldOut}
	}
	return request.Answer{Outcome: api.NoneNow, RetryAfter: max(q.totals.release().Sub(now.Wall), time.Second)}
}
