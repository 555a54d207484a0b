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

// listEngine is the engine of a shard whose units are in a list on a node. Package listengine grabs units there for
// users. The sequencer drains the list into the log, exchanges units with other shards, and rebuilds the list.
type listEngine struct {
	q     *sequencer
	list  *lists.Machine
	queue NodeQueue

	unlogged     map[int64][]*request.Ticket // tickets that got a unit that the log lacks, by unit
	drafting     bool                        // the draft has grabs of the list, or its rebuild
	draftedGrabs int                         // the number of those grabs
	sendsTaken   bool                        // the draft sends units that were taken from the list
	receiving    bool                        // units are on their way into the list, for requests that wait
	fill         uint64                      // under which the list was on at the last event
	offSince     clock.Now                   // since when the list is off; zero: it is on
	loggedUsers  []string                    // users whose grabs the log has now, for the node queue
}

// UseList makes a list of a node the engine of a shard. Requests for one unit wait in the queue. It must be
// called before the first event.
func (shard *Shard) UseList(l lists.List, sizes lists.Sizes, queue NodeQueue) {
	shard.nodeQueue = queue
	shard.Listed = true
	shard.seq.list = &listEngine{q: shard.seq, list: lists.NewMachine(l, sizes), queue: queue, unlogged: make(map[int64][]*request.Ticket)}
}

// open reports whether the list is to grant units. The list of a shard that is paused or closed is off,
// and the log has all that it granted: the generation that pauses or closes the shard is appended only then.
func (e *listEngine) open() bool { return e.q.mode == serving && e.q.state.Phase == ledger.PhaseOpen }

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
	return e == nil || len(e.unlogged) == 0 && e.queue.State(now).Idle()
}

// DrainDelay is the delay before grabs that are already answered are drained. Larger drains cost less
// per grab, and the requests that arrive meanwhile have the processors.
const DrainDelay = 250 * time.Millisecond

// happen applies the result of one batch of a call of the node. The grabs of the list are drained at once if
// requests wait until the log has their units, or g.DrainNow is set, and within DrainDelay otherwise.
func (g GrabsDone) happen(_ clock.Now, q *sequencer) {
	e := q.list
	if g.FillLost {
		e.list.Lost(g.At, g.Fill)
	}
	if g.Unanswered {
		e.list.Unanswered(g.Fill)
	}
	for _, t := range g.Unlogged {
		if a, final := e.loggedAnswer(t); final {
			q.requests.answer(t, a)
		} else {
			unit := unitOf(t.Answer)
			e.unlogged[unit] = append(e.unlogged[unit], t)
		}
	}
	within := DrainDelay
	if len(g.Unlogged) > 0 || g.DrainNow {
		within = 0
	}
	if g.Entry != 0 {
		e.list.Granted(g.At, g.Fill, g.Entry, g.Grabs, within)
	} else {
		e.list.ScheduleDrain(g.At, within)
	}
	if len(g.Short) > 0 {
		e.list.Dry(g.Fill, g.CalledAt)
	}
	q.addRequests(g.Short)
}

// decide adds to the draft what the list has to append, and the units that go to and come from other
// shards.
func (e *listEngine) decide(now clock.Now, d *ledger.Draft) error {
	q := e.q
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
		if err := e.sendUnits(d); err != nil {
			return err
		}
	}
	if !e.open() {
		q.requests.refuse(0, len(q.requests.waiting), func(t *request.Ticket) request.Answer { return e.refusalFor(t, now) })
		q.transfers.scheduleResend(now)
		return nil
	}
	// A request for more than the one unit that a list grants a user gets nothing, nor does any
	// request where no shard has a unit.
	q.requests.refuse(len(q.requests.short()), len(q.requests.waiting), func(t *request.Ticket) request.Answer {
		if t.Quantity == 1 && q.totals.forSale(-1) > 0 {
			return request.Answer{}
		}
		return e.refusalFor(t, now)
	})
	if e.receiving { // units are being added to the list, for the requests that wait
		q.transfers.scheduleResend(now)
		return nil
	}
	q.seekUnits(now, 0, q.refuseShort) // their calls found the list empty, whatever the log has
	return nil
}

// refusalFor returns the answer to a request that gets no unit: the claim that its user got meanwhile,
// the reason why no units are given now, or that there are none.
func (e *listEngine) refusalFor(t *request.Ticket, now clock.Now) request.Answer {
	q := e.q
	if v, ok := q.state.Recall(t.User, t.Key, t.Quantity, now.Wall.UnixMicro(), ledger.Demand{}); ok {
		return answerOf(q.shard, q.state, t.User, v, now)
	}
	return q.totals.noUnits(now)
}

// loggedAnswer returns the answer to a request that got a unit of the node: the node's, if the log has the claim, or
// another claim of a user who has reached the limit. final means that no later state of the log changes the answer;
// an answer that is not final is Undecided.
func (e *listEngine) loggedAnswer(t *request.Ticket) (a request.Answer, final bool) {
	if c, ok := e.q.state.Find(t.User, t.Key); ok && c.Units[0] == unitOf(t.Answer) || t.Answer.Outcome == api.LimitReached && e.q.state.UserUnits(t.User) > 0 {
		return t.Answer, true
	}
	if fill := e.list.On(); fill != 0 && fill != t.Fill { // the log has the grabs of earlier fills that survived
		return request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the node has lost it; repeat the request"}, true
	}
	a = e.q.refusal
	a.Undecide()
	return a, false
}

// answerUnlogged answers the requests whose answer is final, or all of them with last.
func (e *listEngine) answerUnlogged(last bool) {
	for _, unit := range slices.Sorted(maps.Keys(e.unlogged)) {
		e.unlogged[unit] = slices.DeleteFunc(e.unlogged[unit], func(t *request.Ticket) bool {
			a, final := e.loggedAnswer(t)
			if final || last {
				e.q.requests.answer(t, a)
			}
			return final || last
		})
		if len(e.unlogged[unit]) == 0 {
			delete(e.unlogged, unit)
		}
	}
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
			for _, t := range e.unlogged[g.Unit] {
				a, _ := e.loggedAnswer(t) // Undecided: the log could not take the grab
				e.q.requests.answer(t, a)
			}
			delete(e.unlogged, g.Unit)
		}
	}
	if e.sendsTaken {
		e.sendsTaken = false
		e.list.Sent()
	}
	e.list.Observe(now, e.q.state)
	for _, u := range came {
		e.list.Receive(u)
		e.receiving = true
	}
}

// sendUnits drafts transfers to the shards that have requested units. While the list is on, sendUnits first
// has units taken out of the list, and a later commit has the transfer.
func (e *listEngine) sendUnits(d *ledger.Draft) (failed error) {
	q, open := e.q, e.open()
	var units ledger.Units
	if open {
		units = e.list.Taken()
	}
	q.transfers.draftOuts(func(w Message) (t ledger.Transfer, later bool) {
		spare := d.Available()
		switch {
		case len(units) > 0:
			t, failed = d.OutUnits(w.From, units)
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
		e.list.PutBack() // no shard lacks them any more
	}
	return failed
}

// addEffects adds the effects of the list, after each event.
func (e *listEngine) addEffects(now clock.Now, out *Effects) {
	q := e.q
	if q.mode == stopped {
		e.answerUnlogged(true)
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
	case e.open(): // the list was filled from the log, which had all grabs of earlier fills that survived
		out.list.Fill = fill
	case q.mode == serving:
		out.list.Refusal = func(t *request.Ticket) request.Answer { return e.refusalFor(t, now) }
	}
	switch {
	case fill != 0 || !e.open():
		e.offSince = clock.Now{}
	case e.offSince == clock.Now{}:
		e.offSince = now
	}
	if fill != 0 && fill != e.fill {
		e.fill = fill
		e.answerUnlogged(false)
		out.answered = append(out.answered, q.requests.takeAnswered()...)
	}
	if e.receiving && fill != 0 && !e.list.Receiving() {
		e.receiving = false
		out.list.Requeued, q.requests.waiting, q.requests.due = q.requests.waiting, nil, 0
	}
	out.list.LoggedUsers, e.loggedUsers = e.loggedUsers, nil
	q.tally.Fills, q.tally.Voids = q.tally.Fills+e.list.Fills, q.tally.Voids+e.list.Voids
	e.list.Fills, e.list.Voids = 0, 0
}

// stall returns since when and why the list grants no units; nil: it grants them.
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

// NodeQueue is the queue of the requests that a shard's list node serves without the sequencer. Package
// listengine implements it. All its methods but ApplyEffects are safe for concurrent use.
type NodeQueue interface {
	// Offer queues a ticket, or returns why it cannot.
	Offer(now clock.Now, t *request.Ticket) api.Outcome
	// ApplyEffects applies the condition of the list, and the effects of the sequencer on the queue. The
	// goroutine that runs the shard calls it within each Act.
	ApplyEffects(now clock.Now, e ListEffects)
	// ShutDown refuses all requests from now on.
	ShutDown(refusal request.Answer)

	// MayHave reports whether a user has, or may have, a unit that the log lacks.
	MayHave(user string) bool
	// Drain has all grabs so far appended to the log, and returns a channel that is closed when
	// the log has them.
	Drain() <-chan struct{}
	// State returns the present state.
	State(now clock.Now) NodeState
}

// NodeState is the state of a NodeQueue.
type NodeState struct {
	Waiting  int    // requests
	On       bool   // the list grants units
	Unlogged int64  // grabs that the log lacks
	Stall    *Stall // since when and why no units are given although they should be; nil: they are
}

// Idle reports whether no request waits for the node, and the log has all grabs.
func (s NodeState) Idle() bool { return s.Waiting == 0 && s.Unlogged == 0 }

// ListEffects is the condition of a shard's list, and the effects of the sequencer on the requests that
// wait for it.
type ListEffects struct {
	Fill        uint64            // under which the list grants units; 0: it grants none
	LoggedUsers []string          // users whose grabs the log has now
	Requeued    []*request.Ticket // tickets that got no unit before, after units have been added to the list

	// Refusal answers a request with its claim, or the reason why it has none. nil: the list is on, or the log may
	// lack some of its grabs.
	Refusal func(*request.Ticket) request.Answer
}
