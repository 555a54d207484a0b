package executor

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// A transfer moves units from a shard that has some to one that is short: the
// source appends Out, the destination In, the source Ack. Who is short asks the
// richest shard for some (want). The source sends half of what it can spare, or
// says that it has none; a shard that is short itself gives only to a
// lower-numbered one, or two of them would swap for ever.
//
// A sent transfer is never taken back. If a message is lost, or a process dies
// between Out and In, the source sends the same transfer again.

// message is what shards tell each other.
type message struct {
	kind     messageKind
	from, to int
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

	wants   []int     // shards that asked for units, in order
	arrived []message // sent to this shard and not in its log yet
	acks    []message // received elsewhere and not acknowledged here yet
	moving  []message // to be told once the commit under way is in the log

	asked  int          // the shard that was asked for units, -1: none
	denied map[int]bool // shards that had none to spare, since units last came

	// Monotonic; 0: not waiting. Traffic does not put them off.
	askedUntil time.Duration // when to take silence for a no
	resendAt   time.Duration // when to tell of transfers again
}

// repeatAfter is how long a message may stay unanswered.
const repeatAfter = 500 * time.Millisecond

func newTransfers() transfers { return transfers{asked: -1, denied: make(map[int]bool)} }

// hear takes in a message from another shard.
func (q *sequencer) hear(m message) {
	switch m.kind {
	case want:
		if !slices.Contains(q.wants, m.from) {
			q.wants = append(q.wants, m.from)
		}
	case none:
		q.denied[m.from] = true
		if q.asked == m.from {
			q.asked, q.askedUntil = -1, 0
			q.fresh = len(q.waiting)
		}
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

func (q *sequencer) say(m message) {
	m.from = q.shard
	q.outbox = append(q.outbox, m)
}

// receive puts what came from other shards into the draft. Whatever does not
// fit the log comes again.
func (q *sequencer) receive() {
	for _, m := range q.arrived {
		if m.k == q.state.Received(m.from)+1 && !q.movingAlready(received, m.from) {
			if err := q.draft.In(m.from, m.k, m.units); err != nil {
				q.abandon(err, NoQuorum)
				return
			}
			q.moving = append(q.moving, message{kind: received, to: m.from, k: m.k, units: m.units})
		}
	}
	for _, m := range q.acks {
		if t, ok := q.state.OpenTo(m.from); ok && t.K == m.k {
			q.draft.Ack(m.from, m.k)
		}
	}
	q.arrived, q.acks = nil, nil
}

func (q *sequencer) movingAlready(kind messageKind, to int) bool {
	return slices.ContainsFunc(q.moving, func(m message) bool { return m.kind == kind && m.to == to })
}

// give sends units to shards that asked: half of what is left, rounded up.
func (q *sequencer) give() {
	var later []int
	for _, to := range q.wants {
		if _, open := q.state.OpenTo(to); open {
			later = append(later, to) // once the one on its way is acknowledged
			continue
		}
		spare := q.draft.Available()
		if spare == 0 || len(q.waiting) > 0 && to > q.shard || q.state.Phase == ledger.PhaseClosed {
			q.say(message{kind: none, to: to})
			continue
		}
		t := q.draft.Out(to, (spare+1)/2)
		q.moving = append(q.moving, message{kind: sent, to: to, k: t.K, units: t.Units})
	}
	q.wants = later
}

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
			if q.asked == m.to {
				q.asked, q.askedUntil = -1, 0
			}
		}
	}
	q.moving = nil
}

// seek asks for units when claims wait for some. When nobody has any, and this
// commit changes nothing about that, the claims are refused.
func (q *sequencer) seek(now clock.Now) {
	if len(q.waiting) > q.fresh && q.asked < 0 {
		source, ok := q.board.richest(func(shard int) bool { return shard == q.shard || q.denied[shard] })
		switch {
		case ok:
			q.asked, q.askedUntil = source, now.Mono+repeatAfter
			q.say(message{kind: want, to: source})
		case q.draft.Ops() == 0:
			q.refuseWaiting()
		}
	}
	q.remind(now)
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
	if !q.board.within(t.Quantity) {
		t.answer = q.noUnits()
		return decided
	}
	return short
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
	if q.mode != serving {
		return
	}
	if q.askedUntil != 0 && now.Mono >= q.askedUntil {
		q.denied[q.asked] = true
		q.asked, q.askedUntil = -1, 0
		q.fresh = len(q.waiting)
	}
	if q.resendAt != 0 && now.Mono >= q.resendAt {
		q.resendAt = 0
		q.resend()
		q.remind(now)
	}
}

// resend tells the destinations of all transfers that are not acknowledged.
func (q *sequencer) resend() {
	for _, t := range q.state.Open() {
		q.say(message{kind: sent, to: t.To, k: t.K, units: t.Units})
	}
}
