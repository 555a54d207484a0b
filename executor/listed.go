package executor

import (
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// listed is the part of a sequencer whose units lie in a list on a node. Users
// are given theirs there, by way of a grabber; the sequencer drains the list into
// the log, gives units to other shards and takes them, and rebuilds the list.
type listed struct {
	list *lists.Machine // nil: the shard has none
	busy func() bool    // requests wait for the node, or its grabs for the ledger

	owed     []*ticket           // given something since the log was last looked at
	owedUnit map[int64][]*ticket // by the unit that the log does not have yet
	drafted  bool                // the list's grabs, or its rebuild, are in the draft
	offered  int                 // how many grabs those are
	gave     bool                // and units that were taken from the list
	came     bool                // units came, for those who wait for some
	late     bool                // some of owed are of an earlier fill than that
	fill     uint64              // under which the list gave when it was last looked at
	offSince clock.Now           // since when the list gives nothing; zero: it does
	fills    int                 // of the list, that were counted
	voids    int
	inLedger []string // users whose grabs came into the ledger, to be told
}

func newListed(l lists.List, sizes lists.Sizes) listed {
	return listed{list: lists.NewMachine(l, sizes), owedUnit: make(map[int64][]*ticket)}
}

// open says whether the list is to be kept. The list of a shard that is paused or
// closed is off, and all that it gave is in the log: no generation comes into it
// before.
func (q *sequencer) open() bool {
	return q.list != nil && q.mode == serving && q.state.Phase == ledger.PhaseOpen
}

// aim begins a draft: it says what the list is to come to, which is off where a
// generation is to change the shard.
func (q *sequencer) aim(now clock.Now) {
	q.drafted, q.offered, q.gave = false, 0, false
	switch {
	case !q.open():
	case q.nextGeneration() != nil:
		q.list.Aim(now, lists.Stopped)
	default:
		q.list.Aim(now, lists.On)
	}
}

// quiet says whether a generation may be appended to the log as it is.
func (q *sequencer) quiet() bool { return !q.open() || q.list.Stopped(q.state) }

// due says whether the list has something to append.
func (q *sequencer) due(now clock.Now) bool { return q.open() && q.rights.valid(now) && q.list.Due() }

// settled says whether nobody waits for the node or for what it gave, and the log
// has all that.
func (q *sequencer) settled() bool {
	return q.list == nil || len(q.owed) == 0 && len(q.owedUnit) == 0 && !q.busy()
}

// decidedClaims returns how many claims the commit under way has.
func (q *sequencer) decidedClaims() int { return len(q.batch) + q.offered }

// drainLater is when what was answered already is drained: the more gathers, the
// less it costs, and those who grab meanwhile have the processors.
const drainLater = 250 * time.Millisecond

// given takes in that the node gave units: to requests that are to be answered
// when the log has them too, and to others that have their answer. soon: it is to
// be drained at once.
func (q *sequencer) given(now clock.Now, owed []*ticket, soon bool) {
	q.owed = append(q.owed, owed...)
	q.late = q.late || len(owed) > 0 && owed[0].fill != q.fill
	within := drainLater
	if len(owed) > 0 || soon {
		within = 0
	}
	q.list.Stir(now, within)
}

// listReplied takes in the reply to the list's call under way.
func (q *sequencer) listReplied(now clock.Now, r lists.Reply) { q.list.Done(now, r) }

// decideGrabs puts into the draft what the list has to append, and what goes to
// other shards and comes from them.
func (q *sequencer) decideGrabs(now clock.Now) {
	q.settleOwed()
	if q.open() {
		q.drafted = true
		if q.list.Draft(q.draft, q.most) {
			return
		}
		q.offered = q.draft.Ops()
	}
	if !q.open() || q.list.On() != 0 {
		q.receive() // else the list is about to be filled from the log as it is
		q.giveTaken()
	}
	if !q.open() {
		q.refuseAll(now)
		q.remind(now)
		return
	}
	q.weigh(now)
	if q.came { // units are on their way into the list, for those who wait
		q.remind(now)
		return
	}
	q.seek(now)
}

// refuseAll answers those who wait for units of a shard that is not open.
func (q *sequencer) refuseAll(now clock.Now) {
	for _, t := range q.waiting {
		if t.take() {
			q.answer(t, q.withoutUnits(t, now))
		}
	}
	q.waiting, q.fresh = nil, 0
}

// withoutUnits is what a request is told for which there are no units: what its user
// has got meanwhile, why there are none now, or that there are none.
func (q *sequencer) withoutUnits(t *ticket, now clock.Now) Answer {
	if v, ok := q.state.Recall(t.User, t.Key, t.Quantity, now.Wall.UnixMicro()); ok {
		return answerOf(q.shard, q.state, t.User, v, now)
	}
	return q.noUnits()
}

// settleOwed answers those whose unit the log has by now.
func (q *sequencer) settleOwed() {
	for _, t := range q.owed {
		unit := unitOf(t.answer)
		if c, ok := q.state.Find(t.User, t.Key); ok && c.Units[0] == unit || t.answer.Outcome == LimitReached && q.state.UserUnits(t.User) > 0 {
			q.answer(t, t.answer)
			continue
		}
		q.owedUnit[unit] = append(q.owedUnit[unit], t)
	}
	q.owed = q.owed[:0]
}

// unitOf is the unit that an answer tells of.
func unitOf(a Answer) int64 {
	if a.Outcome == LimitReached {
		return a.Claims[0].Units[0]
	}
	return a.Claim.Units[0]
}

// drainedTo takes in that the draft is in the log, or had nothing to append.
func (q *sequencer) drainedTo(now clock.Now) {
	if q.list == nil {
		return
	}
	if q.drafted {
		q.drafted = false
		for _, g := range q.list.Committed(now, q.state) {
			q.inLedger = append(q.inLedger, g.User)
			ts := q.owedUnit[g.Unit]
			delete(q.owedUnit, g.Unit)
			for _, t := range ts {
				q.answer(t, q.kept(t))
			}
		}
	}
	if q.gave {
		q.gave = false
		q.list.Gave()
	}
	q.looked(now)
}

// kept is the answer to a request whose grab was to be appended: what the node
// said, if the log says so too.
func (q *sequencer) kept(t *ticket) Answer {
	if claims := q.state.User(t.User); len(claims) > 0 && claims[0].Units[0] == unitOf(t.answer) {
		return t.answer
	}
	return undecided
}

// looked lets the list take in that the log has changed.
func (q *sequencer) looked(now clock.Now) {
	if q.list != nil {
		q.list.Look(now, q.state)
	}
}

// giveTaken sends units to shards that asked. They are taken out of the list
// first.
func (q *sequencer) giveTaken() {
	if !q.open() {
		q.give()
		return
	}
	units, later := q.list.Taken(), []message(nil)
	for _, w := range q.wants {
		to := w.from
		_, going := q.state.OpenTo(to)
		switch spare := q.draft.Available(); {
		case going:
			later = append(later, w) // once the one on its way is acknowledged
		case len(units) > 0:
			t, err := q.draft.OutTaken(to, units)
			if err != nil {
				q.abandon(err, NoQuorum)
				return
			}
			q.moving = append(q.moving, message{kind: sent, to: to, k: t.K, units: t.Units})
			units, q.gave = nil, true
		case spare == 0, q.list.Empty(), len(q.waiting) > 0 && to > q.shard:
			q.say(message{kind: none, to: to})
		default:
			q.list.Take(int(share(spare, w.n)))
			later = append(later, w)
		}
	}
	if q.wants = later; len(units) > 0 {
		q.list.GiveBack() // nobody wants them any more
	}
}

// weigh refuses those who wait for units where no shard has any, and those who ask
// for more than the one that a list gives a user.
func (q *sequencer) weigh(now clock.Now) {
	keep := q.waiting[:0]
	for i, t := range q.waiting {
		fresh := i >= len(q.waiting)-q.fresh
		if !fresh || t.Quantity == 1 && q.board.within(1) {
			keep = append(keep, t)
			continue
		}
		if !t.take() {
			continue
		}
		q.answer(t, q.withoutUnits(t, now))
	}
	clear(q.waiting[len(keep):])
	q.waiting, q.fresh = keep, 0
}

// nextOfList adds to what is to be done what the list wants done.
func (q *sequencer) nextOfList(now clock.Now, e *effects) {
	if q.list == nil {
		return
	}
	if q.mode == stopped {
		q.giveUpOwed()
		e.answered = append(e.answered, q.takeAnswers()...)
		return
	}
	if q.open() && q.rights.valid(now) {
		var wake time.Duration
		e.list, wake = q.list.Next(now, q.state)
		e.wake = soonest(e.wake, wake)
	}
	switch fill := q.list.On(); {
	case fill == 0 && q.open() && q.offSince == clock.Now{}:
		q.offSince = now
	case fill != 0 || !q.open():
		q.offSince = clock.Now{}
	}
	if fill := q.list.On(); fill != 0 && (fill != q.fill || q.late) {
		q.fill, q.late = fill, false
		q.sweepOwed()
		e.answered = append(e.answered, q.takeAnswers()...)
	}
	if q.came && q.list.On() != 0 && !q.list.Receiving() {
		q.came = false
		e.again, q.waiting, q.fresh = q.waiting, nil, 0
	}
	e.drained, q.inLedger = q.inLedger, nil
	fills, voids := q.list.Fills(), q.list.Voids()
	q.tally.fills, q.tally.voids = q.tally.fills+uint64(fills-q.fills), q.tally.voids+uint64(voids-q.voids)
	q.fills, q.voids = fills, voids
}

// listOff returns for how long the list has given nothing that should.
func (q *sequencer) listOff(now clock.Now) time.Duration {
	if !q.open() || q.offSince == (clock.Now{}) {
		return 0
	}
	return now.Since(q.offSince)
}

// sweepOwed answers those whose grabs were of an earlier fill than that under which
// the list gives: what survived of them is in the log.
func (q *sequencer) sweepOwed() {
	q.settleOwed()
	for _, unit := range slices.Sorted(maps.Keys(q.owedUnit)) {
		q.owedUnit[unit] = slices.DeleteFunc(q.owedUnit[unit], func(t *ticket) bool {
			if t.fill == q.fill {
				return false
			}
			a := q.kept(t)
			if a.Outcome == Unknown { // it surely is not, and will not be
				a = Answer{Outcome: NoQuorum, RetryAfter: time.Second, Message: "the node has lost it; ask again"}
			}
			q.answer(t, a)
			return true
		})
		if len(q.owedUnit[unit]) == 0 {
			delete(q.owedUnit, unit)
		}
	}
}

// giveUpOwed answers those of whom this process will not know what the log says.
func (q *sequencer) giveUpOwed() {
	q.settleOwed()
	for _, unit := range slices.Sorted(maps.Keys(q.owedUnit)) {
		for _, t := range q.owedUnit[unit] {
			q.answer(t, undecided)
		}
	}
	clear(q.owedUnit)
}
