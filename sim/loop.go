package sim

import "time"

// loop is virtual time: what is to happen, in order of time and then of asking.
// Nothing in a world moves but through it.
type loop struct {
	now    time.Duration // since the world began
	pushed uint64
	queue  []event // a heap
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e event) before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

// at has something happen at a time, or now if that has passed.
func (l *loop) at(t time.Duration, do func()) {
	l.pushed++
	l.queue = append(l.queue, event{max(t, l.now), l.pushed, do})
	for i := len(l.queue) - 1; i > 0; {
		parent := (i - 1) / 2
		if !l.queue[i].before(l.queue[parent]) {
			return
		}
		l.queue[i], l.queue[parent] = l.queue[parent], l.queue[i]
		i = parent
	}
}

// after has something happen when a while has passed.
func (l *loop) after(d time.Duration, do func()) { l.at(l.now+d, do) }

// step lets the next thing happen; false: nothing is left, or not before until.
func (l *loop) step(until time.Duration) bool {
	if len(l.queue) == 0 || l.queue[0].at > until {
		return false
	}
	next := l.pop()
	l.now = next.at
	next.do()
	return true
}

func (l *loop) pop() event {
	q := l.queue
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
	l.queue = q
	return first
}
