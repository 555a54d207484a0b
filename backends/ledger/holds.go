package ledger

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"salectl/backends/ledger/internal/chunked"
	pb "salectl/backends/ledger/ledgerpb"
)

// holds has the hold records of a shard's claims, and the queue of the open holds.
type holds struct {
	byClaim    table // from claims to records
	records    chunked.List[holdRecord]
	refundsDue refundsDue
	queue      []queued // open holds, by their release
	tally      HoldTally
}

// holdRecord is kept beside the claimRecord of a claim that was held or refunded, or that has a refund due.
// A claim that was just sold has none, so a sale without holds needs no memory for them. Like claimRecord
// it has no pointers.
type holdRecord struct {
	heldUntil int64 // deadline; 0: never held
	grace     int64
	payment   text // reference of the payment that bought the claim
	who       text
	reason    text
	claim     uint32
	settled   uint32 // the slot of the last op that changed the claim's state, +1
	ended     uint32 // slot of the op that ended its hold, +1; 0: it is held, or never was
	queued    uint32 // position in the queue of holds, +1; 0: not held any more
	awarded   uint32 // slot of the AWARD that began its hold, +1; 0: the hold began with the claim
	extended  bool
	retired   bool
}

// of returns the hold record of a claim; nil: the claim has none.
func (h *holds) of(claim uint32) *holdRecord {
	at, ok := h.find(claim)
	if !ok {
		return nil
	}
	return h.records.At(at)
}

func (h *holds) find(claim uint32) (at uint32, ok bool) {
	return h.byClaim.find(uint64(claim), func(at uint32) bool { return h.records.At(at).claim == claim })
}

// add adds the hold record of a claim that has none.
func (h *holds) add(d holdRecord) uint32 {
	at := h.records.Add(d)
	h.byClaim.add(uint64(d.claim), at)
	return at
}

// refundsDue has the payments that are owed back, or were. There are few.
type refundsDue struct {
	known   map[refundDue]*Returned // nil: it was not paid back
	byClaim map[uint32][]string     // in order
}

// add adds a payment that is owed back.
func (r *refundsDue) add(claim uint32, payment string) {
	r.known[refundDue{claim, payment}] = nil
	r.byClaim[claim] = append(r.byClaim[claim], payment)
}

// returned returns those of the payments of a claim that were paid back.
func (r *refundsDue) returned(claim uint32, payments []string) (returned []Returned) {
	for _, payment := range payments {
		if back := r.known[refundDue{claim, payment}]; back != nil {
			returned = append(returned, *back)
		}
	}
	return returned
}

// refundDue is a payment of a claim that must be refunded.
type refundDue struct {
	claim   uint32
	payment string
}

// mostDue is the maximum number of refunds due returned with a claim where not all are needed: a
// payment service may use a new reference for each attempt.
const mostDue = 10

// status returns the state of a claim in relation to a payment.
func (c *claims) status(i uint32, payment string) claimStatus {
	at := claimStatus{state: c.records.At(i).state(), grabbed: int(i) < len(c.granted)}
	at.another = payment != "" // a claim that was never held was bought by none
	if d := c.holds.of(i); d != nil {
		at.releaseUs, at.extended = d.heldUntil+d.grace, d.extended
		if paid := c.text.bytes(d.payment); d.heldUntil != 0 {
			at.another = len(paid) > 0 && payment != "" && string(paid) != payment
		}
		var back *Returned
		back, at.refundDue = c.refundsDue.known[refundDue{i, payment}]
		at.returned = back != nil
	}
	return at
}

// settle applies the op of a slot to a claim.
func (c *claims) settle(i uint32, slot uint64, op *pb.Settle) {
	at, ok := c.holds.find(i)
	if !ok {
		at = c.holds.add(holdRecord{claim: i})
	}
	d, r, e := c.holds.records.At(at), c.records.At(i), effectOf(op)
	switch op.GetHow() {
	case pb.Settle_EXTEND:
		d.extended, d.heldUntil = true, op.GetHeldUntilUs()
		c.tally.Extended++
		c.holds.requeue(d)
		return
	case pb.Settle_REFUND_DUE:
		c.refundsDue.add(i, op.GetPayment())
		return
	case pb.Settle_RETURNED:
		c.refundsDue.known[refundDue{i, op.GetPayment()}] = &Returned{op.GetPayment(), c.times[slot], op.GetWho(), op.GetReason()}
		return
	case pb.Settle_RESELL:
		if had := c.units(i); !slices.Equal(had, op.GetUnits()) {
			c.originalUnits[i] = had
		}
		c.writeUnits(i, op.GetUnits())
	case pb.Settle_AWARD:
		r.count = 1
		c.writeUnits(i, op.GetUnits())
		c.awarded = append(c.awarded, i)
		d.heldUntil, d.grace, d.awarded = op.GetHeldUntilUs(), op.GetGraceUs(), uint32(slot)+1
	case pb.Settle_REFUND:
		if d.retired = op.GetRetire(); owes(op) {
			c.refundsDue.add(i, op.GetPayment())
		}
	}
	r.setState(e.state)
	if e.pays {
		d.payment = c.text.put(op.GetPayment())
	}
	c.users.records.At(r.user).units += e.units * int64(r.count)
	if e.unpaid != 0 {
		c.unpaid[r.user] += uint32(e.unpaid)
	}
	if d.queued != 0 {
		d.ended = uint32(slot) + 1
		c.tally.ended(c.span(d))
		c.holds.unqueue(d)
	}
	if e.state == StateHeld {
		c.holds.enqueue(at)
	}
	d.settled = uint32(slot) + 1
	d.who, d.reason = c.text.put(op.GetWho()), c.text.put(op.GetReason())
}

// Holds returns the claims that are held, in the order of their acceptance.
func (c *claims) Holds() (holds []Claim) {
	for i := range uint32(c.records.Len()) {
		if c.records.At(i).state() == StateHeld {
			holds = append(holds, c.at(i))
		}
	}
	return holds
}

// Due returns the holds whose release is at or before timeUs, in microseconds since 1970:
// at most n, the earliest first. timeUs is the time of the commit that expires them, as
// returned by Draft.TimeUs.
func (c *claims) Due(timeUs int64, n int) []Claim {
	q := c.queue
	var next []int // positions in the queue that may come next, the earliest release first
	add := func(at int) {
		if at < len(q) {
			i, _ := slices.BinarySearchFunc(next, q[at], func(other int, hold queued) int { return q[other].compare(hold) })
			next = slices.Insert(next, i, at)
		}
	}
	var due []Claim
	for add(0); len(next) > 0 && len(due) < n && q[next[0]].releaseUs <= timeUs; {
		at := next[0]
		next = next[1:]
		due = append(due, c.at(c.holds.records.At(q[at].record).claim))
		add(2*at + 1)
		add(2*at + 2)
	}
	return due
}

// NextDue returns the earliest release of a hold, in microseconds since 1970. ok is false
// if no claim is held.
func (h *holds) NextDue() (releaseUs int64, ok bool) {
	if len(h.queue) == 0 {
		return 0, false
	}
	return h.queue[0].releaseUs, true
}

// queued is a hold in the queue, a binary heap ordered by release. A holdRecord has its
// position in the heap, so that a hold can be removed when it ends.
type queued struct {
	releaseUs int64
	record    uint32
}

func (a queued) compare(b queued) int {
	return cmp.Or(cmp.Compare(a.releaseUs, b.releaseUs), cmp.Compare(a.record, b.record))
}

// enqueue adds a hold to the queue.
func (h *holds) enqueue(record uint32) {
	d := h.records.At(record)
	h.queue = append(h.queue, queued{d.heldUntil + d.grace, record})
	d.queued = uint32(len(h.queue))
	heap.Fix((*holdQueue)(h), len(h.queue)-1)
}

// requeue moves a hold whose deadline was extended.
func (h *holds) requeue(d *holdRecord) {
	h.queue[d.queued-1].releaseUs = d.heldUntil + d.grace
	heap.Fix((*holdQueue)(h), int(d.queued-1))
}

// unqueue removes a hold from the queue.
func (h *holds) unqueue(d *holdRecord) {
	heap.Remove((*holdQueue)(h), int(d.queued-1))
	d.queued = 0
}

// holdQueue is the queue of holds as a heap.
type holdQueue holds

func (q *holdQueue) Len() int           { return len(q.queue) }
func (q *holdQueue) Less(i, j int) bool { return q.queue[i].compare(q.queue[j]) < 0 }
func (q *holdQueue) Push(any)           { panic("ledger: enqueue adds to the queue of holds") }

func (q *holdQueue) Swap(i, j int) {
	q.queue[i], q.queue[j] = q.queue[j], q.queue[i]
	q.records.At(q.queue[i].record).queued = uint32(i) + 1
	q.records.At(q.queue[j].record).queued = uint32(j) + 1
}

// Pop removes the last element. It returns nothing: unqueue needs nothing, and an interface value
// would be an allocation.
func (q *holdQueue) Pop() any {
	q.queue = q.queue[:len(q.queue)-1]
	return nil
}

// HoldSpan is the time span of a claim's hold.
type HoldSpan struct {
	Claim   int   // index for State.Claim
	SinceUs int64 // time of the claim's commit, or of its award's, in microseconds since 1970
	EndedUs int64 // 0: still held
}

// HoldRecords returns the number of claims that were held, awarded or refunded, or had a refund
// due. It never decreases.
func (h *holds) HoldRecords() int { return h.records.Len() }

// HoldOf returns the span of the hold of the i-th of the HoldRecords; false: it was never held.
func (c *claims) HoldOf(i int) (HoldSpan, bool) {
	d := c.holds.records.At(uint32(i))
	return c.span(d), d.heldUntil != 0
}

func (c *claims) span(d *holdRecord) HoldSpan {
	span := HoldSpan{Claim: int(d.claim), SinceUs: c.times[c.records.At(d.claim).slot]}
	if d.awarded != 0 {
		span.SinceUs = c.times[d.awarded-1]
	}
	if d.ended != 0 {
		span.EndedUs = c.times[d.ended-1]
	}
	return span
}

// HoldTally is a histogram of the durations of ended holds.
type HoldTally struct {
	Count    uint64
	Seconds  float64                 // sum of the durations
	Within   [len(HoldBounds)]uint64 // for each of HoldBounds, the number of holds that lasted no longer
	Extended uint64                  // holds whose deadline was extended, including open ones
}

// HoldBounds are the bounds of the histogram in a HoldTally, in seconds.
var HoldBounds = [...]float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 3 * 3600, 24 * 3600}

// HoldTally returns the tally of all holds of the log.
func (h *holds) HoldTally() HoldTally { return h.tally }

// Add adds the tally of another shard.
func (h *HoldTally) Add(other HoldTally) {
	h.Count += other.Count
	h.Seconds += other.Seconds
	h.Extended += other.Extended
	for i, n := range other.Within {
		h.Within[i] += n
	}
}

// ended counts a hold that has ended.
func (h *HoldTally) ended(span HoldSpan) {
	lasted := (time.Duration(span.EndedUs-span.SinceUs) * time.Microsecond).Seconds()
	h.Count++
	h.Seconds += lasted
	for i, bound := range HoldBounds {
		if lasted <= bound {
			h.Within[i]++
		}
	}
}
