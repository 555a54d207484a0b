package shard

import (
	"fmt"
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
// A claim may choose its units: by their numbers, or so many that lie side by side; see
// choose.go.
//
// A sent transfer is never taken back. If a message is lost, or a process dies
// between Out and In, the source sends the same transfer again.

// Message is what shards tell each other.
type Message struct {
	Kind     MessageKind
	From, To int
	N        int64        // for want: how many units from lacks, whichever they are
	K        uint64       // for sent and received
	Units    ledger.Units `json:",omitempty"` // for sent, and for received before it is told; for want: the units named that from lacks
	Run      int64        `json:",omitempty"` // for want: how many adjacent units from lacks; 0: none
	Ask      uint64       `json:",omitempty"` // the number of a want, and for none and sent of that which they answer; 0: of none, or nobody knows
}

// Valid reports whether a message can be between two of so many shards, as it may not be where it
// comes from another process.
func (m Message) Valid(shards int) bool {
	return m.From >= 0 && m.From < shards && m.To >= 0 && m.To < shards && m.From != m.To &&
		m.N >= 0 && m.Run >= 0 && m.Units.Valid()
}

// MessageKind is what a message says.
type MessageKind int

const (
	Want     MessageKind = iota // from is short of units
	none                        // from has none to spare for to
	Sent                        // from's log has Out k
	received                    // from's log has In k
)

func (k MessageKind) String() string { return [...]string{"want", "none", "sent", "received"}[k] }

func (m Message) String() string {
	switch m.Kind {
	case Want:
		s := fmt.Sprintf("want %d for shard %d", m.N, m.From)
		if m.Run > 0 || len(m.Units) > 0 {
			s += fmt.Sprintf(", %d adjacent, and of %v", m.Run, m.Units)
		}
		return s
	case none:
		return fmt.Sprintf("none from shard %d", m.From)
	}
	return fmt.Sprintf("%s %d of shard %d", m.Kind, m.K, m.From)
}

// transfers gives units to other shards and takes them, for one shard.
type transfers struct {
	shard    int
	totals   *SaleTotals
	state    *ledger.State
	requests *requests

	outbox []Message // to other shards

	wants     []Message // of shards that asked for units, in order
	arrived   []Message // sent to this shard and not in its log yet
	acks      []Message // received elsewhere and not acknowledged here yet
	drafted   []Message // to be told once the commit under way is in the log
	answering []Message // those of wants and arrived that the commit under way answers

	short     bool         // the sale's totals have it that claims wait here for any units
	number    uint64       // of the last request for units
	requested []request    // for units, and not answered
	denied    map[int]bool // shards that had none to spare, since units last came
	maxNamed  int          // units that others are asked for by their numbers, at most

	// Monotonic; 0: not waiting. Traffic does not put it off, nor requests' end.
	resendAt time.Duration // when to tell of transfers again
}

// RepeatAfter is how long a message may stay unanswered.
const RepeatAfter = 500 * time.Millisecond

func newTransfers(shard int, b *SaleTotals, s *ledger.State, r *requests) transfers {
	return transfers{shard: shard, totals: b, state: s, requests: r, denied: make(map[int]bool), maxNamed: maxNamedUnits}
}

// hear takes in a message from another shard.
func (x *transfers) handle(m Message) {
	switch m.Kind {
	case Want:
		if i := slices.IndexFunc(x.wants, func(w Message) bool { return w.From == m.From }); i >= 0 {
			x.wants[i] = m
		} else {
			x.wants = append(x.wants, m)
		}
	case none:
		x.recordDenial(m.From, m.Ask)
	case Sent:
		if m.K <= x.state.Received(m.From) {
			x.send(Message{Kind: received, To: m.From, K: m.K})
			return
		}
		x.arrived = append(x.arrived, m)
	case received:
		x.acks = append(x.acks, m)
	}
}

// deny takes in that a shard has no units to spare, or does not answer.
func (x *transfers) recordDenial(shard int, number uint64) {
	r, asked := x.takeRequest(shard, number)
	switch {
	case asked:
		x.recordSearch(r, nil)
	case number != 0:
		return // it was asked again since, or has sent some
	}
	if !asked || r.units > 0 {
		x.denied[shard] = true
	}
	x.requests.retryAll()
}

// answeredBy says that a shard has answered what it was asked by a request of that number, if
// it was; 0: by any.
func (x *transfers) takeRequest(shard int, number uint64) (r request, asked bool) {
	i := slices.IndexFunc(x.requested, func(r request) bool { return r.shard == shard && (number == 0 || r.number == number) })
	if i < 0 {
		return request{}, false
	}
	r = x.requested[i]
	x.totals.requestEnded(r)
	x.requested = slices.Delete(x.requested, i, i+1)
	return r, true
}

// end takes back what the shard has noted in the sale's totals, when its process releases it.
func (x *transfers) release() {
	x.cancelRequests()
	if x.short {
		x.short = false
		x.totals.setShort(x.shard, false)
	}
}

func (x *transfers) send(m Message) {
	m.From = x.shard
	x.outbox = append(x.outbox, m)
}

// said returns the messages since it was last called.
func (x *transfers) takeOutbox() []Message {
	said := x.outbox
	x.outbox = nil
	return said
}

// receive puts what came from other shards into the draft, for all who wait.
// Whatever does not fit the log comes again.
func (x *transfers) draftIns(d *ledger.Draft) error {
	for _, m := range x.arrived {
		if m.K == x.state.Received(m.From)+1 && !x.receiving(m.From) {
			if err := d.In(m.From, m.K, m.Units); err != nil {
				return err
			}
			x.drafted = append(x.drafted, Message{Kind: received, To: m.From, K: m.K, Units: m.Units, Ask: m.Ask})
			x.answering = append(x.answering, m)
			x.requests.retryAll()
		}
	}
	for _, m := range x.acks {
		if t, ok := x.state.OpenTo(m.From); ok && t.K == m.K {
			d.Ack(m.From, m.K)
		}
	}
	x.arrived, x.acks = nil, nil
	return nil
}

// receiving reports whether the draft has units from a shard. It has none yet for others.
func (x *transfers) receiving(from int) bool {
	return slices.ContainsFunc(x.drafted, func(m Message) bool { return m.To == from })
}

// give answers shards that asked for units, once the last transfer to them is
// acknowledged. out puts units for one of them into the draft; a transfer of number 0
// says that there are none, later that there may be some in another commit.
func (x *transfers) draftOuts(out func(w Message) (t ledger.Transfer, later bool)) {
	var later []Message
	for _, w := range x.wants {
		if _, open := x.state.OpenTo(w.From); open {
			later = append(later, w)
			continue
		}
		switch t, wait := out(w); {
		case wait:
			later = append(later, w)
		case t.K == 0:
			x.send(Message{Kind: none, To: w.From, Ask: w.Ask})
		default:
			x.drafted = append(x.drafted, Message{Kind: Sent, To: w.From, K: t.K, Units: t.Units, Ask: w.Ask})
			x.answering = append(x.answering, w)
		}
	}
	x.wants = later
}

// keeps reports whether a shard that asked gets nothing, unless it names its units, because
// this one is short itself.
func (x *transfers) withholds(w Message) bool { return w.From > x.shard && x.requests.waitForUnits() }

// share is how many of the units that a shard can spare it gives to one that lacks
// n: that many, or half of them, rounded up, if that is more.
func share(spare, n int64) int64 { return max((spare+1)/2, min(spare, n)) }

// moved tells the other shards what the log has now, and returns the units that came.
func (x *transfers) transfersLogged() (came []ledger.Units) {
	for _, m := range x.drafted {
		told := m
		if m.Kind == received {
			told.Units = nil // they may be many, and the other shard has them in its log
		}
		x.send(told)
		if m.Kind == received {
			came = append(came, m.Units)
			clear(x.denied)
			switch r, asked := x.takeRequest(m.To, m.Ask); {
			case !asked:
			case m.Ask == 0:
				x.retrySearch(r)
			default:
				x.recordSearch(r, m.Units)
			}
		}
	}
	x.drafted, x.answering = nil, nil
	return came
}

// undo restores the messages that a commit was to answer, which is not in the log. A shard that
// asked has asked for no more than it still does.
func (x *transfers) restore() {
	for _, m := range x.answering {
		if m.Kind != Want || !slices.ContainsFunc(x.wants, func(w Message) bool { return w.From == m.From }) {
			x.handle(m)
		}
	}
	x.drafted, x.answering = nil, nil
}

// ask asks other shards for units that claims lack, if they lack any beyond those that
// others were asked for already, and for those that claims choose.
func (x *transfers) requestUnits(now clock.Now, lack int64, d *ledger.Draft) {
	for _, r := range x.requested {
		lack -= r.units
	}
	var whom []request
	if lack > 0 {
		whom = x.totals.planRequests(x.shard, lack, func(shard int) bool { return x.denied[shard] || x.hasRequested(shard) })
	}
	whom, named := x.addSearches(d, whom)
	for _, r := range whom {
		x.number++
		r.number, r.deadline = x.number, now.Mono+RepeatAfter
		x.requested = append(x.requested, r)
		m := Message{Kind: Want, To: r.shard, N: r.units, Run: r.run, Ask: r.number}
		if r.named {
			m.Units = named
		}
		x.send(m)
	}
}

// asksForAny reports whether others were asked for units, whichever they are.
func (x *transfers) hasRequestedAny() bool {
	return slices.ContainsFunc(x.requested, func(r request) bool { return r.units > 0 })
}

func (x *transfers) hasRequested(shard int) bool {
	return slices.ContainsFunc(x.requested, func(r request) bool { return r.shard == shard })
}

// update notes in the sale's totals whether claims wait here, and sets when to repeat transfers that
// are not acknowledged.
func (x *transfers) updateShort(now clock.Now) {
	if short := x.requests.waitForUnits(); short != x.short {
		x.short = short
		x.totals.setShort(x.shard, short)
	}
	x.scheduleResend(now)
}

// remind sets when to tell again of transfers that are not acknowledged.
func (x *transfers) scheduleResend(now clock.Now) {
	switch open := len(x.state.Open()) > 0; {
	case !open:
		x.resendAt = 0
	case x.resendAt == 0:
		x.resendAt = now.Mono + RepeatAfter
	}
}

// repeat says again what may have been lost, and asks somebody else for units
// if the one asked stays silent.
func (x *transfers) repeatDue(now clock.Now) {
	for _, r := range slices.Clone(x.requested) {
		if now.Mono >= r.deadline {
			x.recordDenial(r.shard, r.number)
		}
	}
	if x.resendAt != 0 && now.Mono >= x.resendAt {
		x.resendAt = 0 // until the next decision, which sets it again
		x.resend()
	}
}

// repeatAt is when repeat has something to say, 0 if it has not.
func (x *transfers) repeatAt() time.Duration {
	at := x.resendAt
	for _, r := range x.requested {
		at = clock.Soonest(at, r.deadline)
	}
	return at
}

// resend tells the destinations of all transfers that are not acknowledged.
func (x *transfers) resend() {
	for _, t := range x.state.Open() {
		x.send(Message{Kind: Sent, To: t.To, K: t.K, Units: t.Units})
	}
}

// stop ends all waiting.
func (x *transfers) stop() {
	x.cancelRequests()
	x.resendAt = 0
}

// takeBack takes back what others were asked for: or the shard, when this process has it
// again, would count those units as gone and never ask for them.
func (x *transfers) cancelRequests() {
	for _, r := range x.requested {
		x.totals.requestEnded(r)
	}
	x.requested = nil
}
