package shard

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/request"
)

// An engine assigns the units of a shard to users. Without a list the owner decides, and appends before it
// answers. With a list (enginelists.go) its node grants the units, and the owner drains the list into the log. A
// sequencer keeps one engine for its life.
//
// A commit is made in this order: listEngine.setTarget; then a generation, if listEngine.quiescent allows it, or
// decide; then listEngine.draftLogged, once the commit is in the log or there was nothing to append.

// decide adds the owner's decisions on requests to the draft. An error ends the sequencer.
func (q *sequencer) decide(now clock.Now, d *ledger.Draft) error {
	if q.state.MayCloseEntries(d.TimeUs()) {
		d.Entries() // alone in its commit: later requests are decided after it
		return nil
	}
	if err := q.transfers.draftIns(d); err != nil {
		return err
	}
	expire(q.state, d)
	q.draftAwards(d)
	q.requests.decide(func(t *request.Ticket) decision { return q.decideOne(now, d, t, false) })
	if q.totals.AllSold(now) {
		q.refuseShort(now) // all of them, so that no user gets sold_out while an earlier request of the user waits
	}
	var failed error
	q.transfers.draftOuts(func(w Message) (t ledger.Transfer, later bool) {
		if failed == nil && d.Available() > 0 && q.state.Phase != ledger.PhaseClosed {
			t, failed = q.transfers.draftOut(d, w)
		}
		return t, false
	})
	q.seekUnits(now, d.Available(), func(now clock.Now) { q.endWaiting(now, d) })
	return failed
}

// endWaiting decides the requests that wait although no shard has units to spare. Where the sale allows
// partial claims, the first get what is here, and the others are decided again once that is in the log.
// If none gets a unit, all are refused.
func (q *sequencer) endWaiting(now clock.Now, d *ledger.Draft) {
	if q.partial() {
		q.requests.retryAll()
		q.requests.decide(func(t *request.Ticket) decision { return q.decideOne(now, d, t, true) })
		if d.Ops() > 0 {
			q.transfers.clearDenials()
			return
		}
	}
	q.refuseShort(now)
}

// partial reports whether a claim that is short may get a part.
func (q *sequencer) partial() bool { return q.state.Settings().GetPartial() }

// decideOne decides one request. last means that there are no units to wait for.
func (q *sequencer) decideOne(now clock.Now, d *ledger.Draft, t *request.Ticket, last bool) decision {
	if t.Settle != nil {
		return settle(q.shard, d, t)
	}
	if q.partial() && !last && q.requests.earlierShort && !t.Chooses() {
		t.Want = 0 // earlier requests get what is here if no other shard has units
		return short
	}
	accepted := initialState(q.state.Settings())
	var by ledger.Ruling
	if t.Admittance != nil {
		by = t.Admittance.Ruling
	}
	v := d.DecideClaim(by, t.User, t.Key, t.Quantity, t.Demand())
	if v.Kind == ledger.Short && !t.Chooses() && q.partial() && (last || q.totals.forSale(q.shard) == 0) {
		v = d.DecideClaim(by, t.User, t.Key, t.Quantity, ledger.Demand{Partial: true})
	}
	switch v.Kind {
	case ledger.Granted:
		t.Op, t.Answer = v.Op, request.Answer{Outcome: accepted}
	case ledger.ReplayHere:
		t.Op, t.Answer = v.Op, request.Answer{Outcome: accepted, Replayed: true}
	case ledger.OtherRules:
		t.Answer = request.Answer{Outcome: api.NotChecked, OtherRules: true, RetryAfter: time.Second}
	case ledger.Full:
		return full
	case ledger.Short:
		t.Want = v.Want
		least := v.Want
		if q.partial() && !t.Chooses() {
			least = 1
		}
		within := q.totals.forSale(-1) >= least
		if within && (!t.Chooses() || q.transfers.mayFind(t)) {
			return short
		}
		t.Answer = q.totals.noUnits(now)
		if within && t.Chooses() {
			t.Answer = notFound(t)
		}
	default:
		t.Answer = answerOf(q.shard, q.state, t.User, v, now)
	}
	return decided
}

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
	awaited := slices.ContainsFunc(q.transfers.unitRequests, func(r unitRequest) bool { return r.units > 0 })
	if !awaited && q.draft.Ops() == 0 {
		end(now)
	}
	short := q.requests.waitForUnits()
	q.totals.update(q.shard, func(s *shardEntry) { s.short = short })
	q.transfers.scheduleResend(now)
}

// refuseShort answers the requests that wait for units: there are none. Unless all is sold, those stay that
// still wait for replies of other shards, and units are requested again for them.
func (q *sequencer) refuseShort(now clock.Now) {
	q.requests.refuse(0, len(q.requests.short()), func(t *request.Ticket) request.Answer {
		switch answer := q.totals.noUnits(now); {
		case answer.Outcome == api.SoldOut:
			return answer
		case q.transfers.awaitsReply(t):
			return request.Answer{}
		case t.Chooses():
			return notFound(t)
		default:
			return answer
		}
	})
	q.transfers.clearDenials()
	if slices.ContainsFunc(q.requests.short(), func(t *request.Ticket) bool { return !t.Chooses() }) {
		q.requests.retryAll()
	}
}
