package quorum

import (
	"math"
	"time"

	"salectl/backends/clock"
)

// timeline is the time base of a step machine and of all durations in its fields.
type timeline struct {
	aged time.Duration // sum of the times between inputs, each by the faster of the two clocks
	last clock.Now     // time of the last input
}

// advance records the time of an input. Nothing has aged before the first.
func (t *timeline) advance(now clock.Now) {
	if !t.last.Wall.IsZero() {
		t.aged = t.at(now)
	}
	t.last = now
}

// at converts an instant since the last input to the time base.
func (t *timeline) at(now clock.Now) time.Duration { return t.aged + max(0, now.Since(t.last)) }

// never is the time of something that does not fall due.
const never = time.Duration(math.MaxInt64)

// mono converts a time of the time base to a monotonic time; 0 for never.
func (t *timeline) mono(at time.Duration) time.Duration {
	if at == never {
		return 0
	}
	return t.last.Mono + max(at-t.aged, 1)
}

// times are the durations derived from a ttl.
type times struct {
	valid  time.Duration // from sending a ballot to the end of what it won
	usable time.Duration // from sending a ballot to the loss, which leaves a margin for work in flight
	renew  time.Duration // interval of renewals: two may fail
	try    time.Duration // time limit of a majority's answers
}

// timesOf returns the durations for a ttl. A node counts the ttl from its vote, by its own
// clock, which may run faster than this process's. As in Redlock, valid allows for 1% of drift,
// and for the 2 ms by which a node may round.
func timesOf(ttl time.Duration) times {
	drift := ttl/100 + 2*time.Millisecond
	return times{
		valid:  ttl - drift,
		usable: ttl - drift - ttl/10,
		renew:  ttl / 3,
		try:    ttl / 3,
	}
}

// CallTimeout returns the timeout of a call to one node. It is small compared to the ttl: a
// node whose previous call hung is still queried within the same try. It is at least half a
// second, for a disk or scheduler that is slow once, and at most one second, so that a node
// that recovers is soon noticed.
func CallTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 500*time.Millisecond), time.Second)
}

// Validity is the time until which a key is held, as of one instant. It may be copied to other
// goroutines and evaluated there. The zero Validity is over.
type Validity struct {
	from clock.Now
	left time.Duration
}

// At reports whether the key is still held at an instant. A Group reports a loss a tenth of the
// ttl before the validity ends, so that work that began on a valid lease can end.
func (v Validity) At(now clock.Now) bool { return v.left > 0 && now.Since(v.from) < v.left }

// Until returns the monotonic time at which the validity ends, 0 for the zero Validity. A
// suspend or a jump of the wall clock may end it earlier: use At.
func (v Validity) Until() time.Duration {
	if v.left <= 0 {
		return 0
	}
	return v.from.Mono + v.left
}
