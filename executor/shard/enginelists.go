package shard

import (
	"maps"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// listGives is the engine by which units lie in a list on a node. Users are given
// theirs there, by way of a NodeBatcher; the sequencer drains the list into the log, gives
// units to other shards and takes them, and rebuilds the list.
type listGives struct {
	q    *sequencer
	list *lists.Machine
	busy func() bool // requests wait for the node, or its grabs for the ledger

	owed     []*Ticket           // given something since the log was last looked at
	owedUnit map[int64][]*Ticket // by the unit that the log does not have yet
	drafting bool                // the list's grabs, or its rebuild, are in the draft
	offered  int                 // how many grabs those are
	gave     bool                // and units that were taken from the list
	waits    bool                // units came, for those who wait for some
	late     bool                // some of owed are of an earlier fill than that
	fill     uint64              // under which the list gave when it was last looked at
	offSince clock.Now           // since when the list gives nothing; zero: it does
	fills    int                 // of the list, that were counted
	voids    int
	inLedger []string // users whose grabs came into the ledger, to be told
}

// useList makes a list the engine of a sequencer, before its first event.
func (q *sequencer) useList(l lists.List, sizes lists.Sizes, busy func() bool) *listGives {
	e := &listGives{q: q, list: lists.NewMachine(l, sizes), busy: busy, owedUnit: make(map[int64][]*Ticket)}
	q.engine = e
	return e
}

// open says whether the list is to be kept. The list of a shard that is paused or
// closed is off, and all that it gave is in the log: no generation comes into it
// before.
func (e *listGives) open() bool { return e.q.mode == serving && e.q.state.Phase == ledger.PhaseOpen }

// drained says whether the list is off, and the log has all that it gave.
func (e *listGives) drained() bool { return e.q.mode == serving && !e.open() }

// certain is the fill under which the list gives: it was filled from the log.
func (e *listGives) certain() uint64 {
	if !e.open() {
		return 0
	}
	return e.list.On()
}

// target says what the list is to come to, which is off where a generation is to
// change the shard.
func (e *listGives) target(now clock.Now, changing bool) {
	e.drafting, e.offered, e.gave = false, 0, false
	switch {
	case !e.open():
	case changing:
		e.list.Aim(now, lists.Stopped)
	default:
		e.list.Aim(now, lists.On)
	}
}

func (e *listGives) quiet() bool { return !e.open() || e.list.Stopped(e.q.state) }

func (e *listGives) due(now clock.Now) bool {
	return e.open() && e.q.rights.Valid(now) && e.list.Due()
}

func (e *listGives) hurry() { e.list.Hurry() }

func (e *listGives) idle() bool { return len(e.owed) == 0 && len(e.owedUnit) == 0 && !e.busy() }

func (e *listGives) drafted() int { return e.offered }

// DrainLater is when what was answered already is drained: the more gathers, the
// less it costs, and those who grab meanwhile have the processors.
const DrainLater = 250 * time.Millisecond

// given takes in that the node gave units: to requests that are to be answered
// when the log has them too, and to others that have their answer. soon: it is to
// be drained at once.
func (e *listGives) given(now clock.Now, owed []*Ticket, soon bool) {
	e.owed = append(e.owed, owed...)
	e.late = e.late || len(owed) > 0 && owed[0].fill != e.fill
	within := DrainLater
	if len(owed) > 0 || soon {
		within = 0
	}
	e.list.ScheduleDrain(now, within)
}

// decide puts into the draft what the list has to append, and what goes to other
// shards and comes from them.
func (e *listGives) decide(now clock.Now, d *ledger.Draft) error {
	q := e.q
	e.settleOwed()
	if e.open() {
		e.drafting = true
		if e.list.Draft(d, q.requests.most) {
			return nil
		}
		e.offered = d.Ops()
	}
	if !e.open() || e.list.On() != 0 { // else the list is about to be filled from the log as it is
		if err := q.transfers.receive(d); err != nil {
			return err
		}
		if err := e.give(d); err != nil {
			return err
		}
	}
	if !e.open() {
		q.requests.refuse(func(t *Ticket) Answer { return e.withoutUnits(t, now) })
		q.transfers.remind(now)
		return nil
	}
	// Who asks for more than the one unit that a list gives a user gets nothing, nor does
	// anybody where no shard has a unit.
	q.requests.sift(func(t *Ticket) bool {
		stays := t.Quantity == 1 && q.totals.available(1)
		if !stays && t.take() {
			q.requests.answer(t, e.withoutUnits(t, now))
		}
		return stays
	})
	if e.waits { // units are on their way into the list, for those who wait
		q.transfers.remind(now)
		return nil
	}
	q.seek(now, 0, func(now clock.Now) { q.refuseShort(now, func(*Ticket) bool { return false }) }) // who waits found the list empty, whatever the log says
	return nil
}

// withoutUnits is what a request is told for which there are no units: what its user
// has got meanwhile, why there are none now, or that there are none.
func (e *listGives) withoutUnits(t *Ticket, now clock.Now) Answer {
	q := e.q
	if v, ok := q.state.Recall(t.User, t.Key, t.Quantity, now.Wall.UnixMicro()); ok {
		return answerOf(q.shard, q.state, t.User, v, now)
	}
	return q.noUnits(now)
}

// settleOwed answers those whose unit the log has by now.
func (e *listGives) settleOwed() {
	for _, t := range e.owed {
		unit := unitOf(t.answer)
		if c, ok := e.q.state.Find(t.User, t.Key); ok && c.Units[0] == unit || t.answer.Outcome == api.LimitReached && e.q.state.UserUnits(t.User) > 0 {
			e.q.requests.answer(t, t.answer)
			continue
		}
		e.owedUnit[unit] = append(e.owedUnit[unit], t)
	}
	e.owed = e.owed[:0]
}

// unitOf is the unit that an answer tells of.
func unitOf(a Answer) int64 {
	if a.Outcome == api.LimitReached {
		return a.Claims[0].Units[0]
	}
	return a.Claim.Units[0]
}

func (e *listGives) logged(now clock.Now) {
	if e.drafting {
		e.drafting = false
		for _, g := range e.list.Committed(now, e.q.state) {
			e.inLedger = append(e.inLedger, g.User)
			ts := e.owedUnit[g.Unit]
			delete(e.owedUnit, g.Unit)
			for _, t := range ts {
				e.q.requests.answer(t, e.kept(t))
			}
		}
	}
	if e.gave {
		e.gave = false
		e.list.Gave()
	}
	e.changed(now)
}

func (e *listGives) changed(now clock.Now) { e.list.Look(now, e.q.state) }

func (e *listGives) came(units []ledger.Units) {
	for _, u := range units {
		e.list.Receive(u)
		e.waits = true
	}
}

// kept is the answer to a request whose grab was to be appended: what the node
// said, if the log says so too.
func (e *listGives) kept(t *Ticket) Answer {
	if claims := e.q.state.User(t.User); len(claims) > 0 && claims[0].Units[0] == unitOf(t.answer) {
		return t.answer
	}
	return Undecided
}

// give sends units to shards that asked. They are taken out of the list first.
func (e *listGives) give(d *ledger.Draft) (failed error) {
	q, open := e.q, e.open()
	var units ledger.Units
	if open {
		units = e.list.Taken()
	}
	q.transfers.give(func(w Message) (t ledger.Transfer, later bool) {
		spare := d.Available()
		switch {
		case len(units) > 0:
			t, failed = d.OutTaken(w.From, units)
			units, e.gave = nil, true
			return t, failed != nil
		case spare == 0, open && e.list.Empty(), q.transfers.keeps(w), q.state.Phase == ledger.PhaseClosed:
			return t, false
		case !open:
			return d.Out(w.From, share(spare, w.N)), false
		}
		e.list.Take(int(share(spare, w.N)))
		return t, true
	})
	if len(units) > 0 {
		e.list.GiveBack() // nobody wants them any more
	}
	return failed
}

// act adds to what is to be done what the list wants done.
func (e *listGives) act(now clock.Now, out *Effects) {
	q := e.q
	if q.mode == stopped {
		e.giveUpOwed()
		out.answered = append(out.answered, q.requests.taken()...)
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
	if fill != 0 && (fill != e.fill || e.late) {
		e.fill, e.late = fill, false
		e.sweepOwed()
		out.answered = append(out.answered, q.requests.taken()...)
	}
	if e.waits && fill != 0 && !e.list.Receiving() {
		e.waits = false
		out.again, q.requests.waiting, q.requests.fresh = q.requests.waiting, nil, 0
	}
	out.drained, e.inLedger = e.inLedger, nil
	fills, voids := e.list.Fills(), e.list.Voids()
	q.tally.Fills, q.tally.Voids = q.tally.Fills+uint64(fills-e.fills), q.tally.Voids+uint64(voids-e.voids)
	e.fills, e.voids = fills, voids
}

func (e *listGives) stall(now clock.Now) *Stall {
	if !e.open() || e.offSince == (clock.Now{}) || now.Since(e.offSince) < StallAfter {
		return nil
	}
	s := &Stall{Since: e.offSince.Wall, Error: "its list is being rebuilt", Node: true}
	if err := e.list.Trouble(); err != nil {
		s.Error = OneLine(err)
	}
	return s
}

// sweepOwed answers those whose grabs were of an earlier fill than that under which
// the list gives: what survived of them is in the log.
func (e *listGives) sweepOwed() {
	e.settleOwed()
	for _, unit := range slices.Sorted(maps.Keys(e.owedUnit)) {
		e.owedUnit[unit] = slices.DeleteFunc(e.owedUnit[unit], func(t *Ticket) bool {
			if t.fill == e.fill {
				return false
			}
			a := e.kept(t)
			if a.Outcome == api.Unknown { // it surely is not, and will not be
				a = Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the node has lost it; ask again"}
			}
			e.q.requests.answer(t, a)
			return true
		})
		if len(e.owedUnit[unit]) == 0 {
			delete(e.owedUnit, unit)
		}
	}
}

// giveUpOwed answers those of whom this process will not know what the log says.
func (e *listGives) giveUpOwed() {
	e.settleOwed()
	for _, unit := range slices.Sorted(maps.Keys(e.owedUnit)) {
		for _, t := range e.owedUnit[unit] {
			a := Undecided
			a.Elsewhere = e.q.refusal.Elsewhere
			e.q.requests.answer(t, a)
		}
	}
	clear(e.owedUnit)
}
