package shard

import (
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/request"
)

// engine assigns the units of a shard to users. There are two implementations. With ownerEngine the
// owner decides, and appends before it answers. With listEngine a node gives the units of a list, and
// the owner drains the list into the log. A sequencer keeps one engine for its life.
//
// A commit is made in this order: setTarget; then a generation, if quiescent allows it, or decide; then
// draftLogged, once the commit is in the log or there was nothing to append.
type engine interface {
	// setTarget begins a draft. changing means that a generation is to change the shard before
	// anything else is appended.
	setTarget(now clock.Now, changing bool)
	// quiescent reports whether a generation may be appended to the log now.
	quiescent() bool
	// decide adds the decisions on requests to the draft. An error ends the sequencer.
	decide(now clock.Now, d *ledger.Draft) error
	// draftLogged is called when the draft is in the log, or had nothing to append.
	draftLogged(now clock.Now)
	// logChanged is called when other processes have appended to the log.
	logChanged(now clock.Now)
	// unitsReceived is called with units of other shards that the log has received.
	unitsReceived(units []ledger.Units)

	// due reports whether there is something to append beside the requests.
	due(now clock.Now) bool
	// draftedClaims returns how many claims the draft has beside those of the batch.
	draftedClaims() int
	// drainNow has everything appended at once that the log lacks.
	drainNow()
	// idle reports whether no request waits for units that the log lacks.
	idle() bool
	// addEffects adds the engine's effects, after each event.
	addEffects(now clock.Now, e *Effects)
	// stall returns since when and why the engine gives no units; nil: it gives them.
	stall(now clock.Now) *Stall
	// logCompletePeriod returns the number of the present period in which the log has the outcome of every
	// request of earlier periods: 1 with ownerEngine, the fill of the list with listEngine. Doubts of an
	// earlier period end when it changes. 0: the log is not complete yet.
	logCompletePeriod() uint64
	// drained reports whether the engine gives no units now, and the log has all that it gave.
	drained() bool
}

// ownerEngine is the engine of a shard whose owner decides its claims.
type ownerEngine struct{ q *sequencer }

func (e ownerEngine) setTarget(clock.Now, bool)    {}
func (e ownerEngine) quiescent() bool              { return true }
func (e ownerEngine) draftLogged(clock.Now)        {}
func (e ownerEngine) logChanged(clock.Now)         {}
func (e ownerEngine) unitsReceived([]ledger.Units) {}
func (e ownerEngine) due(clock.Now) bool           { return false }
func (e ownerEngine) draftedClaims() int           { return 0 }
func (e ownerEngine) drainNow()                    {}
func (e ownerEngine) idle() bool                   { return true }
func (e ownerEngine) stall(clock.Now) *Stall       { return nil }
func (e ownerEngine) drained() bool                { return false }

func (e ownerEngine) addEffects(now clock.Now, effects *Effects) {
	effects.Wake = clock.Soonest(effects.Wake, clock.Soonest(e.q.nextRelease(now), e.q.nextAward(now)))
}

func (e ownerEngine) logCompletePeriod() uint64 {
	if e.q.mode == serving {
		return 1
	}
	return 0
}

func (e ownerEngine) decide(now clock.Now, d *ledger.Draft) error {
	q := e.q
	if q.state.MayCloseEntries(d.TimeUs()) {
		d.Entries() // alone in its commit: later requests are decided after it
		return nil
	}
	if err := q.transfers.draftIns(d); err != nil {
		return err
	}
	q.expire(d)
	q.draftAwards(d)
	q.requests.decide(func(t *request.Ticket) decision { return e.decideOne(now, d, t, false) })
	if q.totals.AllSold(now) {
		q.refuseShort(now, func(*request.Ticket) bool { return false }) // all of them, so that no user gets sold_out while an earlier request of the user waits
	}
	var failed error
	q.transfers.draftOuts(func(w Message) (t ledger.Transfer, later bool) {
		if failed == nil && d.Available() > 0 && q.state.Phase != ledger.PhaseClosed {
			t, failed = q.transfers.draftOut(d, w)
		}
		return t, false
	})
	q.seekUnits(now, d.Available(), func(now clock.Now) { e.endWaiting(now, d) })
	return failed
}

// endWaiting decides the requests that wait although no shard has units to spare. Where the sale allows
// partial claims, the first get what is here, and the others are decided again once that is in the log.
// If none gets a unit, all are refused.
func (e ownerEngine) endWaiting(now clock.Now, d *ledger.Draft) {
	if e.partial() {
		e.q.requests.retryAll()
		e.q.requests.decide(func(t *request.Ticket) decision { return e.decideOne(now, d, t, true) })
		if d.Ops() > 0 {
			e.q.transfers.clearDenials()
			return
		}
	}
	e.q.refuseUnserved(now)
}

// partial reports whether a claim that is short may get a part.
func (e ownerEngine) partial() bool { return e.q.state.Settings().GetPartial() }

// decideOne decides one request. last means that there are no units to wait for.
func (e ownerEngine) decideOne(now clock.Now, d *ledger.Draft, t *request.Ticket, last bool) decision {
	if t.Settle != nil {
		return e.q.settle(d, t)
	}
	if e.partial() && !last && e.q.requests.earlierShort && !t.Chooses() {
		t.Want = 0 // earlier requests get what is here if no other shard has units
		return short
	}
	accepted := initialState(e.q.state.Settings())
	var by ledger.Ruling
	if t.Admittance != nil {
		by = t.Admittance.Ruling
	}
	v := d.DecideClaim(by, t.User, t.Key, t.Quantity, t.Demand())
	if v.Kind == ledger.Short && !t.Chooses() && e.partial() && (last || !e.q.totals.anyElsewhere(e.q.shard)) {
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
		if e.partial() && !t.Chooses() {
			least = 1
		}
		within := e.q.totals.available(least)
		if within && (!t.Chooses() || e.q.transfers.mayFind(t)) {
			return short
		}
		t.Answer = e.q.noUnits(now)
		if within && t.Chooses() {
			t.Answer = notFound(t)
		}
	default:
		t.Answer = answerOf(e.q.shard, e.q.state, t.User, v, now)
	}
	return decided
}
