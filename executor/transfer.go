package executor

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// A transfer moves units from a shard that has some to one that is short: the
// source appends Out, the destination In, the source Ack. Who is short plans for
// all that its claims lack, and asks as few shards for that as have it, each for
// its part (want). The source sends that much, and at least half of what it can
// spare, for those who come next; or it says that it has none. A shard that is
// short itself gives only to a lower-numbered one, or two of them would swap for
// ever.
//
// However much moves at a time, it comes to an end: units go from shards that are
// not short to such that are, and among these to lower numbers. They go nowhere
// else until a claim that waits is granted or refused.
//
// A sent transfer is never taken back. If a message is lost, or a process dies
// between Out and In, the source sends the same transfer again.

// message is what shards tell each other.
type message struct {
	kind     messageKind
	from, to int
	n        int64        // for want: how many units from lacks
	k        uint64       // for sent and received
	units    ledger.Units // for sent, and for received before it is told
}

type messageKind int

const (
	want     messageKind = iota // from is short of units
	none                        // from has none to spare for to
	sent                        // from's log has Out k
	received                    // from's log has In k
)

// transfers is the part of a sequencer that gives and takes units.
type transfers struct {
	outbox []message

	wants   []message // of shards that asked for units, in order
	arrived []message // sent to this shard and not in its log yet
	acks    []message // received elsewhere and not acknowledged here yet
	moving  []message // to be told once the commit under way is in the log

	short  bool         // the board says that claims wait here for units
	asked  []request    // for units, and not answered
	denied map[int]bool // shards that had none to spare, since units last came

	// Monotonic; 0: not waiting. Traffic does not put it off, nor requests' end.
	resendAt time.Duration // when to tell of transfers again
}

// repeatAfter is how long a message may stay unanswered.
const repeatAfter = 500 * time.Millisecond

func newTransfers() transfers { return transfers{denied: make(map[int]bool)} }

// hear takes in a message from another shard.
func (q *sequencer) hear(m message) {
	switch m.kind {
	case want:
		if i := slices.IndexFunc(q.wants, func(w message) bool { return w.from == m.from }); i >= 0 {
			q.wants[i] = m
		} else {
			q.wants = append(q.wants, m)
		}
	case none:
		q.denied[m.from] = true
		q.answeredBy(m.from)
		q.fresh = len(q.waiting)
	case sent:
		if m.k <= q.state.Received(m.from) {
			q.say(message{kind: received, to: m.from, k: m.k})
			return
		}
		q.arrived = append(q.arrived, m)
	case received:
		q.acks = append(q.acks, m)
	}
}

// answeredBy says that a shard has answered what it was asked, if it was.
func (q *sequencer) answeredBy(shard int) {
	if i := slices.IndexFunc(q.asked, func(r request) bool { return r.shard == shard }); i >= 0 {
		q.board.answered(q.asked[i])
		q.asked = slices.Delete(q.asked, i, i+1)
	}
}

func (q *sequencer) say(m message) {
	m.from = q.shard
	q.outbox = append(q.outbox, m)
}

// receive puts what came from other shards into the draft, for all who wait.
// Whatever does not fit the log comes again.
func (q *sequencer) receive() {
	for _, m := range q.arrived {
		if m.k == q.state.Received(m.from)+1 && !q.receiving(m.from) {
			if err := q.draft.In(m.from, m.k, m.units); err != nil {
				q.abandon(err, NoQuorum)
				return
			}
			q.moving = append(q.moving, message{kind: received, to: m.from, k: m.k, units: m.units})
			q.fresh = len(q.waiting)
		}
	}
	for _, m := range q.acks {
		if t, ok := q.state.OpenTo(m.from); ok && t.K == m.k {
			q.draft.Ack(m.from, m.k)
		}
	}
	q.arrived, q.acks = nil, nil
}

// receiving says whether the draft has units from a shard. It has none yet for others.
func (q *sequencer) receiving(from int) bool {
	return slices.ContainsFunc(q.moving, func(m message) bool { return m.to == from })
}

// give sends units to shards that asked.
func (q *sequencer) give() {
	var later []message
	for _, w := range q.wants {
		to := w.from
		if _, open := q.state.OpenTo(to); open {
			later = append(later, w) // once the one on its way is acknowledged
			continue
		}
		spare := q.draft.Available()
		if spare == 0 || len(q.waiting) > 0 && to > q.shard || q.state.Phase == ledger.PhaseClosed {
			q.say(message{kind: none, to: to})
			continue
		}
		t := q.draft.Out(to, share(spare, w.n))
		q.moving = append(q.moving, message{kind: sent, to: to, k: t.K, units: t.Units})
	}
	q.wants = later
}

// share is how many of the units that a shard can spare it gives to one that lacks
// n: that many, or half of them, rounded up, if that is more.
func share(spare, n int64) int64 { return max((spare+1)/2, min(spare, n)) }

// moved tells the other shards what the log has now.
func (q *sequencer) moved() {
	for _, m := range q.moving {
		q.say(m)
		if m.kind == received {
			if q.list != nil {
				q.list.Receive(m.units)
				q.came = true
			}
			clear(q.denied)
			q.answeredBy(m.to)
		}
	}
	q.moving = nil
}

// seek asks for units when claims wait for some. When nobody has any, and this
// commit changes nothing about that, the claims are refused.
func (q *sequencer) seek(now clock.Now) {
	if missing := q.missing(); missing > 0 {
		for _, r := range q.board.ask(q.shard, missing, func(shard int) bool { return q.denied[shard] || q.asks(shard) }) {
			r.until = now.Mono + repeatAfter
			q.asked = append(q.asked, r)
			q.say(message{kind: want, to: r.shard, n: r.units})
		}
	}
	if len(q.asked) == 0 && q.draft.Ops() == 0 {
		q.refuseWaiting()
	}
	if short := len(q.waiting) > 0; short != q.short {
		q.short = short
		q.board.need(q.shard, short)
	}
	q.remind(now)
}

// missing returns how many units the claims that wait for some lack, without those
// that others were asked for.
func (q *sequencer) missing() (n int64) {
	for _, t := range q.waiting[:len(q.waiting)-q.fresh] {
		if !t.withdrawn() {
			n += t.Quantity
		}
	}
	for _, r := range q.asked {
		n -= r.units
	}
	if q.list == nil { // else who waits found the list empty, whatever the log says
		n -= q.draft.Available()
	}
	return n
}

func (q *sequencer) asks(shard int) bool {
	return slices.ContainsFunc(q.asked, func(r request) bool { return r.shard == shard })
}

// remind sets when to tell again of transfers that are not acknowledged.
func (q *sequencer) remind(now clock.Now) {
	switch open := len(q.state.Open()) > 0; {
	case !open:
		q.resendAt = 0
	case q.resendAt == 0:
		q.resendAt = now.Mono + repeatAfter
	}
}

func (q *sequencer) refuseWaiting() {
	short := len(q.waiting) - q.fresh
	for _, t := range q.waiting[:short] {
		if t.take() {
			q.answer(t, q.noUnits())
		}
	}
	q.waiting = q.waiting[short:]
	clear(q.denied)
}

// shortOf decides on a claim that needs more units than the shard has.
func (q *sequencer) shortOf(t *ticket) decision {
	if q.board.within(t.Quantity) || q.board.soldOut.Load() { // of which decideClaims tells all at once
		return short
	}
	t.answer = q.noUnits()
	return decided
}

func (q *sequencer) noUnits() Answer {
	if q.board.soldOut.Load() {
		return Answer{Outcome: SoldOut}
	}
	return Answer{Outcome: NoneNow, RetryAfter: time.Second}
}

// repeat says again what may have been lost, and asks somebody else for units
// if the one asked stays silent.
func (q *sequencer) repeat(now clock.Now) {
	for _, r := range slices.Clone(q.asked) {
		if now.Mono >= r.until {
			q.denied[r.shard] = true
			q.answeredBy(r.shard)
			q.fresh = len(q.waiting)
		}
	}
	if q.resendAt != 0 && now.Mono >= q.resendAt {
		q.resendAt = 0 // until the next decision, which sets it again
		q.resend()
	}
}

// repeatAt is when repeat has something to say, 0 if it has not.
func (q *sequencer) repeatAt() time.Duration {
	at := q.resendAt
	for _, r := range q.asked {
		at = soonest(at, r.until)
	}
	return at
}

// resend tells the destinations of all transfers that are not acknowledged.
func (q *sequencer) resend() {
	for _, t := range q.state.Open() {
		q.say(message{kind: sent, to: t.To, k: t.K, units: t.Units})
	}
}
