package ledger

import (
	"container/heap"
	"slices"
)

// Holds returns the claims that are held, in the order of their acceptance.
func (c *claims) Holds() []Claim {
	var at []uint32
	for _, q := range c.queue {
		at = append(at, c.holds.records.At(q.record).claim)
	}
	slices.Sort(at)
	var holds []Claim
	for _, i := range at {
		holds = append(holds, c.at(i))
	}
	return holds
}

// Due returns the holds whose release is at or before timeUs, in microseconds since 1970:
// at most n, the earliest first. timeUs is the time of the commit that expires them, as
// returned by Draft.TimeUs.
func (c *claims) Due(timeUs int64, n int) []Claim {
	q := c.queue
	next := frontier{queue: q}
	if len(q) > 0 {
		next.at = append(next.at, 0)
	}
	var due []Claim
	for len(next.at) > 0 && len(due) < n && q[next.at[0]].releaseUs <= timeUs {
		at := heap.Pop(&next).(int)
		due = append(due, c.at(c.holds.records.At(q[at].record).claim))
		for child := 2*at + 1; child <= 2*at+2 && child < len(q); child++ {
			heap.Push(&next, child)
		}
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

func (a queued) before(b queued) bool {
	return a.releaseUs < b.releaseUs || a.releaseUs == b.releaseUs && a.record < b.record
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
func (q *holdQueue) Less(i, j int) bool { return q.queue[i].before(q.queue[j]) }
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

// frontier is a heap of the queue positions that may come next.
type frontier struct {
	queue []queued
	at    []int
}

func (f *frontier) Len() int           { return len(f.at) }
func (f *frontier) Less(i, j int) bool { return f.queue[f.at[i]].before(f.queue[f.at[j]]) }
func (f *frontier) Swap(i, j int)      { f.at[i], f.at[j] = f.at[j], f.at[i] }
func (f *frontier) Push(at any)        { f.at = append(f.at, at.(int)) }

func (f *frontier) Pop() any {
	last := len(f.at) - 1
	at := f.at[last]
	f.at = f.at[:last]
	return at
}
