package ledger

import (
	"container/heap"
	"slices"
)

// Holds returns the claims that are held, in the order of their acceptance.
func (s *State) Holds() []Claim {
	var at []uint32
	for _, q := range s.claims.queue {
		at = append(at, s.claims.holdRecords.At(q.record).claim)
	}
	slices.Sort(at)
	var holds []Claim
	for _, i := range at {
		holds = append(holds, s.claims.at(i))
	}
	return holds
}

// Due returns the holds whose release is at or before timeUs, in microseconds since 1970:
// at most n, the earliest first. timeUs is the time of the commit that expires them, as
// returned by Draft.TimeUs.
func (s *State) Due(timeUs int64, n int) []Claim {
	q := s.claims.queue
	next := frontier{queue: q}
	if len(q) > 0 {
		next.at = append(next.at, 0)
	}
	var due []Claim
	for len(next.at) > 0 && len(due) < n && q[next.at[0]].releaseUs <= timeUs {
		at := heap.Pop(&next).(int)
		due = append(due, s.claims.at(s.claims.holdRecords.At(q[at].record).claim))
		for child := 2*at + 1; child <= 2*at+2 && child < len(q); child++ {
			heap.Push(&next, child)
		}
	}
	return due
}

// NextDue returns the earliest release of a hold, in microseconds since 1970. ok is false
// if no claim is held.
func (s *State) NextDue() (releaseUs int64, ok bool) {
	if len(s.claims.queue) == 0 {
		return 0, false
	}
	return s.claims.queue[0].releaseUs, true
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
func (c *claims) enqueue(history uint32) {
	d := c.holdRecords.At(history)
	c.queue = append(c.queue, queued{})
	c.up(len(c.queue)-1, queued{d.heldUntil + d.grace, history})
}

// requeue moves a hold whose deadline was extended.
func (c *claims) requeue(d *holdRecord) {
	at := int(d.queued - 1)
	c.down(at, queued{d.heldUntil + d.grace, c.queue[at].record})
}

// unqueue removes a hold from the queue, if it is there.
func (c *claims) unqueue(d *holdRecord) {
	if d.queued == 0 {
		return
	}
	at, n := int(d.queued-1), len(c.queue)-1
	last := c.queue[n]
	c.queue = c.queue[:n]
	d.queued = 0
	switch {
	case at == n:
	case at > 0 && last.before(c.queue[(at-1)/2]):
		c.up(at, last)
	default:
		c.down(at, last)
	}
}

// up places a hold at a position or, while it precedes its parent, above it.
func (c *claims) up(at int, q queued) {
	for parent := (at - 1) / 2; at > 0 && q.before(c.queue[parent]); parent = (at - 1) / 2 {
		c.put(at, c.queue[parent])
		at = parent
	}
	c.put(at, q)
}

// down places a hold at a position or, while a child precedes it, below it.
func (c *claims) down(at int, q queued) {
	for {
		child := 2*at + 1
		if child+1 < len(c.queue) && c.queue[child+1].before(c.queue[child]) {
			child++
		}
		if child >= len(c.queue) || !c.queue[child].before(q) {
			break
		}
		c.put(at, c.queue[child])
		at = child
	}
	c.put(at, q)
}

func (c *claims) put(at int, q queued) {
	c.queue[at] = q
	c.holdRecords.At(q.record).queued = uint32(at) + 1
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
