package shard

import (
	"maps"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/executor/request"
)

// listEngine is the engine of a shard whose units are in a list on a node. Package
// listengine grabs units there for users. The sequencer drains the list into the log, exchanges units with other shards, and
// rebuilds the list.
type listEngine struct {
	q     *sequencer
	list  *lists.Machine
	queue NodeQueue

	unlogged       []*request.Ticket           // tickets that got a unit since the log was last compared
	unloggedByUnit map[int64][]*request.Ticket // tickets by the unit that the log lacks
	drafting       bool                        // the draft has grabs of the list, or its rebuild
	draftedGrabs   int                         // the number of those grabs
	sendsTaken     bool                        // the draft sends units that were taken from the list
	receiving      bool                        // units are on their way into the list, for requests that wait
	earlierFill    bool                        // some of unlogged are of an earlier fill
	fill           uint64                      // under which the list gave at the last event
	offSince       clock.Now                   // since when the list gives nothing; zero: it does
	fills          int                         // list.Fills and list.Voids, as far as q.tally includes them
	voids          int
	loggedUsers    []string // users whose grabs the log has now, for the node queue
}

// UseList makes a list of a node the engine of a shard. Requests for one unit wait in the queue. It must be
// called before the first event.
func (s *Shard) UseList(l lists.List, sizes lists.Sizes, queue NodeQueue) {
	s.nodeQueue = queue
	s.Listed = true
	s.seq.list = &listEngine{q: s.seq, list: lists.NewMachine(l, sizes), queue: queue, unloggedByUnit: make(map[int64][]*request.Ticket)}
}

// effects returns the condition of the list, and the effects of the sequencer on the node queue.
func (e *listEngine) effects(now clock.Now, of Effects) ListEffects {
	effects := ListEffects{Fill: e.period(), Drained: e.drained(), LoggedUsers: of.loggedUsers, Requeued: of.requeued}
	if effects.Drained {
		effects.Refusal = func(t *request.Ticket) request.Answer { return e.refusalFor(t, now) }
	}
	return effects
}

// open reports whether the list is to give units. The list of a shard that is paused or closed is off,
// and the log has all that it gave: the generation that pauses or closes the shard is appended only then.
func (e *listEngine) open() bool { return e.q.mode == serving && e.q.state.Phase == ledger.PhaseOpen }

// drained reports whether the list is off, and the log has all that it gave.
func (e *listEngine) drained() bool { return e.q.mode == serving && !e.open() }

// period returns the fill under which the list gives units; 0: it gives none. The list was filled from the
// log, which had all grabs of earlier fills that survived.
func (e *listEngine) period() uint64 {
	if !e.open() {
		return 0
	}
	return e.list.On()
}

// setTarget begins a draft, and sets the state that the list is to reach: off if a generation is to change the
// shard before anything else is appended.
func (e *listEngine) setTarget(now clock.Now, changing bool) {
	e.drafting, e.draftedGrabs, e.sendsTaken = false, 0, false
	switch {
	case !e.open():
	case changing:
		e.list.SetTarget(now, lists.Stopped)
	default:
		e.list.SetTarget(now, lists.On)
	}
}

// quiescent reports whether a generation may be appended to the log now.
func (e *listEngine) quiescent() bool { return e == nil || !e.open() || e.list.Stopped(e.q.state) }

// due reports whether there is something to append beside the requests.
func (e *listEngine) due(now clock.Now) bool {
	return e != nil && e.open() && e.q.rights.Valid(now) && e.list.Due(now)
}

// idle reports whether no request waits for units that the log lacks.
func (e *listEngine) idle(now clock.Now) bool {
	return e == nil || len(e.unlogged) == 0 && len(e.unloggedByUnit) == 0 && e.queue.State(now).Idle()
}

// DrainDelay is the delay before grabs that are already answered are drained. Larger drains cost less
// per grab, and the requests that arrive meanwhile have the processors.
const DrainDelay = 250 * time.Millisecond

// addGrabs applies the reply to one batch of a call of the node. The grabs of the list are drained at once if
// requests wait until the log has their units, or g.DrainNow is set, and within DrainDelay otherwise.
func (e *listEngine) addGrabs(g GrabsDone) {
	e.unlogged = append(e.unlogged, g.Unlogged...)
	e.earlierFill = e.earlierFill || len(g.Unlogged) > 0 && g.Unlogged[0].Fill != e.fill
	within := DrainDelay
	if len(g.Unlogged) > 0 || g.DrainNow {
		within = 0
	}
	if g.Entry != 0 {
		e.list.Granted(g.At, g.Fill, g.Entry, g.Grabs, within)
	} else {
		e.list.ScheduleDrain(g.At, within)
	}
}

// decide adds to the draft what the list has to append, and the units that go to and come from other
// shards.
func (e *listEngine) decide(now clock.Now, d *ledger.Draft) error {
	q := e.q
	e.answerLogged()
	if e.open() {
		e.drafting = true
		if e.list.Draft(now, d, q.requests.maxBatch) {
			return nil
		}
		e.draftedGrabs = d.Ops()
	}
	if !e.open() || e.list.On() != 0 { // else the list is about to be filled from the log as it is
		if err := q.transfers.draftIns(d); err != nil {
			return err
		}
		if err := e.giveUnits(d); err != nil {
			return err
		}
	}
	if !e.open() {
		q.requests.refuse(func(t *request.Ticket) request.Answer { return e.refusalFor(t, now) })
		q.transfers.scheduleResend(now)
		return nil
	}
	// A request for more than the one unit that a list gives a user gets nothing, nor does any
	// request where no shard has a unit.
	q.requests.filterDue(func(t *request.Ticket) bool {
		stays := t.Quantity == 1 && q.totals.available(1)
		if !stays && t.Take() {
			q.requests.answer(t, e.refusalFor(t, now))
		}
		return stays
	})
	if e.receiving { // units are being added to the list, for the requests that wait
		q.transfers.scheduleResend(now)
		return nil
	}
	q.seekUnits(now, 0, q.refuseUnserved) // their calls found the list empty, whatever the log has
	return nil
}

// refusalFor returns the answer to a request that gets no unit: the claim that its user got meanwhile,
// the reason why no units are given now, or that there are none.
func (e *listEngine) refusalFor(t *request.Ticket, now clock.Now) request.Answer {
	q := e.q
	if v, ok := q.state.Recall(t.User, t.Key, t.Quantity, now.Wall.UnixMicro(), ledger.Demand{}); ok {
		return answerOf(q.shard, q.state, t.User, v, now)
	}
	return q.noUnits(now)
}

// answerLogged answers the requests whose units the log has.
func (e *listEngine) answerLogged() {
	for _, t := range e.unlogged {
		unit := unitOf(t.Answer)
		if c, ok := e.q.state.Find(t.User, t.Key); ok && c.Units[0] == unit || t.Answer.Outcome == api.LimitReached && e.q.state.UserUnits(t.User) > 0 {
			e.q.requests.answer(t, t.Answer)
			continue
		}
		e.unloggedByUnit[unit] = append(e.unloggedByUnit[unit], t)
	}
	e.unlogged = e.unlogged[:0]
}

// unitOf returns the unit of an answer.
func unitOf(a request.Answer) int64 {
	if a.Outcome == api.LimitReached {
		return a.Claims[0].Units[0]
	}
	return a.Claim.Units[0]
}

// draftLogged is called when the draft is in the log, or had nothing to append. came are the units of other
// shards that the log has received.
func (e *listEngine) draftLogged(now clock.Now, came []ledger.Units) {
	if e.drafting {
		e.drafting = false
		for _, g := range e.list.Committed(now, e.q.state) {
			e.loggedUsers = append(e.loggedUsers, g.User)
			ts := e.unloggedByUnit[g.Unit]
			delete(e.unloggedByUnit, g.Unit)
			for _, t := range ts {
				e.q.requests.answer(t, e.loggedAnswer(t))
			}
		}
	}
	if e.sendsTaken {
		e.sendsTaken = false
		e.list.Gave()
	}
	e.list.Observe(now, e.q.state)
	for _, u := range came {
		e.list.Receive(u)
		e.receiving = true
	}
}

// loggedAnswer returns the answer to a request whose grab was drafted: the node's, if the log agrees.
func (e *listEngine) loggedAnswer(t *request.Ticket) request.Answer {
	if claims := e.q.state.User(t.User); len(claims) > 0 && claims[0].Units[0] == unitOf(t.Answer) {
		return t.Answer
	}
	return request.Undecided
}

// giveUnits drafts transfers to the shards that have requested units. While the list is on, giveUnits first
// has units taken out of the list, and a later commit has the transfer.
func (e *listEngine) giveUnits(d *ledger.Draft) (failed error) {
	q, open := e.q, e.open()
	var units ledger.Units
	if open {
		units = e.list.Taken()
	}
	q.transfers.draftOuts(func(w Message) (t ledger.Transfer, later bool) {
		spare := d.Available()
		switch {
		case len(units) > 0:
			t, failed = d.OutTaken(w.From, units)
			units, e.sendsTaken = nil, true
			return t, failed != nil
		case spare == 0, open && e.list.Empty(), q.transfers.withholds(w), q.state.Phase == ledger.PhaseClosed:
			return t, false
		case !open:
			return d.Out(w.From, share(spare, w.Lacks)), false
		}
		e.list.Take(int(share(spare, w.Lacks)))
		return t, true
	})
	if len(units) > 0 {
		e.list.GiveBack() // no shard lacks them any more
	}
	return failed
}

// addEffects adds the effects of the list, after each event.
func (e *listEngine) addEffects(now clock.Now, out *Effects) {
	q := e.q
	if q.mode == stopped {
		e.giveUpUnlogged()
		out.answered = append(out.answered, q.requests.takeAnswered()...)
		return
	}
	if e.open() && q.rights.Valid(now) {
		var wake time.Duration
		out.List, wake = e.list.Next(now, q.state)
		out.Wake = clock.Soonest(out.Wake, wake)
	}
	fill := e.list.On()
	switch {
	case fill == 0 && e.open() && e.offSince == clock.Now{}:
		e.offSince = now
	case fill != 0 || !e.open():
		e.offSince = clock.Now{}
	}
	if fill != 0 && (fill != e.fill || e.earlierFill) {
		e.fill, e.earlierFill = fill, false
		e.answerEarlierFills()
		out.answered = append(out.answered, q.requests.takeAnswered()...)
	}
	if e.receiving && fill != 0 && !e.list.Receiving() {
		e.receiving = false
		out.requeued, q.requests.waiting, q.requests.due = q.requests.waiting, nil, 0
	}
	out.loggedUsers, e.loggedUsers = e.loggedUsers, nil
	fills, voids := e.list.Fills(), e.list.Voids()
	q.tally.Fills, q.tally.Voids = q.tally.Fills+uint64(fills-e.fills), q.tally.Voids+uint64(voids-e.voids)
	e.fills, e.voids = fills, voids
}

// stall returns since when and why the list gives no units; nil: it gives them.
func (e *listEngine) stall(now clock.Now) *Stall {
	if e == nil || !e.open() || e.offSince == (clock.Now{}) || now.Since(e.offSince) < StallAfter {
		return nil
	}
	s := &Stall{Since: e.offSince.Wall, Error: "its list is being rebuilt", Node: true}
	if err := e.list.Trouble(); err != nil {
		s.Error = OneLine(err)
	}
	return s
}

// answerEarlierFills answers the requests whose grabs belong to an earlier fill than the present one: the
// log has those grabs that survived.
func (e *listEngine) answerEarlierFills() {
	e.answerLogged()
	for _, unit := range slices.Sorted(maps.Keys(e.unloggedByUnit)) {
		e.unloggedByUnit[unit] = slices.DeleteFunc(e.unloggedByUnit[unit], func(t *request.Ticket) bool {
			if t.Fill == e.fill {
				return false
			}
			a := e.loggedAnswer(t)
			if a.Outcome == api.Unknown { // the log lacks it, and always will
				a = request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the node has lost it; ask again"}
			}
			e.q.requests.answer(t, a)
			return true
		})
		if len(e.unloggedByUnit[unit]) == 0 {
			delete(e.unloggedByUnit, unit)
		}
	}
}

// giveUpUnlogged answers the requests whose outcome this process will not read in the log.
func (e *listEngine) giveUpUnlogged() {
	e.answerLogged()
	for _, unit := range slices.Sorted(maps.Keys(e.unloggedByUnit)) {
		for _, t := range e.unloggedByUnit[unit] {
			a := request.Undecided
			a.Elsewhere = e.q.refusal.Elsewhere
			e.q.requests.answer(t, a)
		}
	}
	clear(e.unloggedByUnit)
}
