package shard

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// A transfer moves units from a shard that has some to one that is short: the
// source appends Out, the destination In, the source Ack. The short shard plans for
// all that its claims lack, and requests it of as few shards as have it, each for
// its part (a Want). The source sends that much, and at least half of what it can
// spare, for later claims; or it replies that it has none. A shard that is
// short itself sends only to a lower-numbered one. Otherwise two of them would swap
// units for ever.
//
// Whatever the size of transfers, they come to an end: units go from shards that are
// not short to shards that are, and among these to lower numbers. They go nowhere
// else until a claim that waits is granted or refused.
//
// A claim may choose its units, by their numbers or by a number of adjacent ones; see
// choose.go.
//
// A sent transfer is never taken back. If a message is lost, or a process dies
// between Out and In, the source sends the same transfer again.

// Message is a message between two shards of a sale.
type Message struct {
	Kind     MessageKind
	From, To int
	Lacks    int64        // of Want: number of units that From lacks for claims that do not choose them
	Run      int64        `json:",omitempty"` // of Want: number of adjacent units that From lacks; 0: none
	Units    ledger.Units `json:",omitempty"` // of Want: the named units that From lacks; of Sent: the units of the transfer; of received: the same, but only inside the receiving shard
	Transfer uint64       // of Sent and received: number of the transfer
	Request  uint64       `json:",omitempty"` // of Want: its number, from 1; of none and Sent: number of the Want that they answer; 0: they answer none, or it is unknown
}

// Valid reports whether the fields of a message are possible in a sale with that many shards. It checks
// messages of other processes, before handle.
func (m Message) Valid(shards int) bool {
	return m.From >= 0 && m.From < shards && m.To >= 0 && m.To < shards && m.From != m.To &&
		m.Lacks >= 0 && m.Run >= 0 && m.Units.Valid()
}

// MessageKind is the kind of a message.
type MessageKind int

const (
	Want     MessageKind = iota // shard From requests units
	none                        // shard From has no units to spare for shard To
	Sent                        // the log of shard From has the op Out of the transfer
	received                    // the log of shard From has the op In of the transfer
)

func (k MessageKind) String() string { return [...]string{"want", "none", "sent", "received"}[k] }

// transfers exchanges units with other shards, for one shard.
type transfers struct {
	shard    int
	totals   *SaleTotals
	state    *ledger.State
	requests *requests

	outbox []Message // to other shards

	wants     []Message // requests of other shards for units, in order
	arrived   []Message // sent to this shard and not in its log yet
	acks      []Message // receipts of other shards that are not in the log yet
	drafted   []Message // to be sent once the commit under way is in the log
	answering []Message // messages of wants and arrived that the commit under way answers

	lastRequest  uint64        // of the last request for units
	unitRequests []unitRequest // requests for units that are not answered
	denied       map[int]bool  // shards that had none to spare, since units last came
	firstSilent  uint64        // lowest number of a unitRequest that got no reply in time, since denied was last cleared; 0: none
	maxNamed     int           // most units that are requested by number

	// resendAt is the monotonic time of the next resending of transfers; 0: none is scheduled. Neither other
	// messages nor answered requests delay it.
	resendAt time.Duration
}

// ReplyTimeout is how long a shard waits for the reply to a message. Then it records the other shard as
// having no units, or sends its transfer again. Awards are checked at the same interval.
const ReplyTimeout = 500 * time.Millisecond

func newTransfers(shard int, b *SaleTotals, s *ledger.State, r *requests) transfers {
	return transfers{shard: shard, totals: b, state: s, requests: r, denied: make(map[int]bool), maxNamed: maxNamedUnits}
}

// handle handles a message from another shard.
func (x *transfers) handle(m Message) {
	switch m.Kind {
	case Want:
		if i := slices.IndexFunc(x.wants, func(w Message) bool { return w.From == m.From }); i >= 0 {
			x.wants[i] = m
		} else {
			x.wants = append(x.wants, m)
		}
	case none:
		x.recordDenial(m.From, m.Request)
	case Sent:
		if m.Transfer <= x.state.Received(m.From) {
			x.send(Message{Kind: received, To: m.From, Transfer: m.Transfer})
			return
		}
		x.arrived = append(x.arrived, m)
	case received:
		x.acks = append(x.acks, m)
	}
}

// recordDenial records that a shard has no units to spare, or did not reply in time. number is that of the
// unitRequest; 0: unknown, any request to the shard. A denial of a request that has ended has no effect.
func (x *transfers) recordDenial(shard int, number uint64) {
	r, found := x.takeRequest(shard, number)
	switch {
	case found:
		x.recordSearch(r, nil, true)
	case number != 0:
		return // a later request was sent since, or the shard has sent units
	}
	if !found || r.units > 0 {
		x.denied[shard] = true
	}
	x.requests.retryAll()
}

// clearDenials makes all shards due for requests again.
func (x *transfers) clearDenials() {
	clear(x.denied)
	x.firstSilent = 0
}

// takeRequest removes and returns the request with that number to a shard; number 0: any request to it.
func (x *transfers) takeRequest(shard int, number uint64) (r unitRequest, found bool) {
	i := slices.IndexFunc(x.unitRequests, func(r unitRequest) bool { return r.shard == shard && (number == 0 || r.number == number) })
	if i < 0 {
		return unitRequest{}, false
	}
	r = x.unitRequests[i]
	x.totals.requestEnded(r)
	x.unitRequests = slices.Delete(x.unitRequests, i, i+1)
	return r, true
}

// send queues a message for another shard.
func (x *transfers) send(m Message) {
	m.From = x.shard
	x.outbox = append(x.outbox, m)
}

// draftIns adds the transfers that have arrived, and the receipts of others, to the draft. The source
// resends a transfer that does not fit the log.
func (x *transfers) draftIns(d *ledger.Draft) error {
	for _, m := range x.arrived {
		if m.Transfer == x.state.Received(m.From)+1 && !x.receiving(m.From) {
			if err := d.In(m.From, m.Transfer, m.Units); err != nil {
				return err
			}
			x.drafted = append(x.drafted, Message{Kind: received, To: m.From, Transfer: m.Transfer, Units: m.Units, Request: m.Request})
			x.answering = append(x.answering, m)
			x.requests.retryAll()
		}
	}
	for _, m := range x.acks {
		if t, ok := x.state.OpenTo(m.From); ok && t.K == m.Transfer {
			d.Ack(m.From, m.Transfer)
		}
	}
	x.arrived, x.acks = nil, nil
	return nil
}

// receiving reports whether the draft has a transfer from a shard. It must be called before draftOuts, whose
// messages it does not distinguish.
func (x *transfers) receiving(from int) bool {
	return slices.ContainsFunc(x.drafted, func(m Message) bool { return m.To == from })
}

// draftOuts answers the requests of other shards, except those to which the last transfer is not
// acknowledged yet. For each request it calls out, which adds a transfer to the draft and returns it. A
// transfer with number 0 denies the request; later keeps the request for the next commit.
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
			x.send(Message{Kind: none, To: w.From, Request: w.Request})
		default:
			x.drafted = append(x.drafted, Message{Kind: Sent, To: w.From, Transfer: t.K, Units: t.Units, Request: w.Request})
			x.answering = append(x.answering, w)
		}
	}
	x.wants = later
}

// withholds reports whether a shard that requested units gets only units that it named, because this
// shard is short itself.
func (x *transfers) withholds(w Message) bool { return w.From > x.shard && x.requests.waitForUnits() }

// share returns how many of spare units go to a shard that lacks n: n, or half of spare rounded up if
// that is more.
func share(spare, n int64) int64 { return max((spare+1)/2, min(spare, n)) }

// transfersLogged sends the messages of transfers that are now in the log, and returns the units received.
func (x *transfers) transfersLogged() (came []ledger.Units) {
	for _, m := range x.drafted {
		out := m
		if m.Kind == received {
			out.Units = nil // they may be many, and the other shard has them in its log
		}
		x.send(out)
		if m.Kind == received {
			came = append(came, m.Units)
			x.clearDenials()
			if r, found := x.takeRequest(m.To, m.Request); found {
				x.recordSearch(r, m.Units, m.Request != 0)
			}
		}
	}
	x.drafted, x.answering = nil, nil
	return came
}

// restore restores the messages that a failed commit was to answer. A newer request of a shard replaces
// its older one: the older requested no more than the shard still lacks.
func (x *transfers) restore() {
	for _, m := range x.answering {
		if m.Kind != Want || !slices.ContainsFunc(x.wants, func(w Message) bool { return w.From == m.From }) {
			x.handle(m)
		}
	}
	x.drafted, x.answering = nil, nil
}

// requestUnits requests units of other shards: those that claims lack beyond what was requested already,
// and those that claims choose.
func (x *transfers) requestUnits(now clock.Now, lack int64, d *ledger.Draft) {
	for _, r := range x.unitRequests {
		lack -= r.units
	}
	var whom []unitRequest
	if lack > 0 {
		whom = x.totals.planRequests(x.shard, lack, func(shard int) bool { return x.denied[shard] || x.hasRequested(shard) })
	}
	whom, named := x.addSearches(d, whom)
	for _, r := range whom {
		x.lastRequest++
		r.number, r.deadline = x.lastRequest, now.Mono+ReplyTimeout
		x.unitRequests = append(x.unitRequests, r)
		m := Message{Kind: Want, To: r.shard, Lacks: r.units, Run: r.run, Request: r.number}
		if r.named {
			m.Units = named
		}
		x.send(m)
	}
}

// hasRequested reports whether a request to the shard is unanswered.
func (x *transfers) hasRequested(shard int) bool {
	return slices.ContainsFunc(x.unitRequests, func(r unitRequest) bool { return r.shard == shard })
}

// scheduleResend sets when transfers that are not acknowledged are sent again.
func (x *transfers) scheduleResend(now clock.Now) {
	switch open := len(x.state.Open()) > 0; {
	case !open:
		x.resendAt = 0
	case x.resendAt == 0:
		x.resendAt = now.Mono + ReplyTimeout
	}
}

// handleTimeouts resends transfers that may have been lost, and records a denial by shards that did not reply
// in time, so that others are requested.
func (x *transfers) handleTimeouts(now clock.Now) {
	for _, r := range slices.Clone(x.unitRequests) {
		if now.Mono >= r.deadline {
			x.recordDenial(r.shard, r.number)
			if r.units > 0 && (x.firstSilent == 0 || r.number < x.firstSilent) {
				x.firstSilent = r.number
			}
		}
	}
	if x.resendAt != 0 && now.Mono >= x.resendAt {
		x.resendAt = 0 // until the next decision, which sets it again
		x.resend()
	}
}

// nextTimeout returns the monotonic time at which handleTimeouts has something to do; 0: it has nothing.
func (x *transfers) nextTimeout() time.Duration {
	at := x.resendAt
	for _, r := range x.unitRequests {
		at = clock.Soonest(at, r.deadline)
	}
	return at
}

// resend sends all transfers that are not acknowledged again.
func (x *transfers) resend() {
	for _, t := range x.state.Open() {
		x.send(Message{Kind: Sent, To: t.To, Transfer: t.K, Units: t.Units})
	}
}

// stop ends all waiting, and removes the unanswered requests and the shortage from the sale's totals. Otherwise the
// totals would count the requested units as gone when this process has the shard again, and the shard would never
// request them.
func (x *transfers) stop() {
	for _, r := range x.unitRequests {
		x.totals.requestEnded(r)
	}
	x.unitRequests, x.resendAt = nil, 0
	x.totals.update(x.shard, func(s *shardEntry) { s.short = false })
}
