package quorum

import (
	"time"

	"salectl/backends/clock"
)

// times are the spans that follow from a ttl.
type times struct {
	valid  time.Duration // from sending a ballot to the end of what it won
	usable time.Duration // from there to giving up, which leaves a margin for work in flight
	renew  time.Duration // from one renewal to the next: two may fail
	try    time.Duration // how long a majority may take to answer
}

// timesOf returns the spans of a ttl. A node counts the ttl from when it votes
// and by its own clock, which may run faster than ours: valid allows for one
// part in a hundred and for the 2 ms by which a node may round, as Redlock does.
func timesOf(ttl time.Duration) times {
	drift := ttl/100 + 2*time.Millisecond
	return times{
		valid:  ttl - drift,
		usable: ttl - drift - ttl/10,
		renew:  ttl / 3,
		try:    ttl / 3,
	}
}

// CallTimeout is how long one node is waited for. It is small against the ttl:
// within one try, a node that hung in the call before is asked still. But half a
// second it always has, for a disk or a scheduler that is slow once, and never
// more than one, so that a node that comes back is soon noticed.
func CallTimeout(ttl time.Duration) time.Duration {
	return min(max(ttl/6, 500*time.Millisecond), time.Second)
}

// Validity is how long a set of keys is ours, as of one instant. It may be
// copied to other goroutines and asked there. The zero Validity is over.
type Validity struct {
	from clock.Now
	left time.Duration
}

// At reports whether the keys still are ours at an instant. Between the loss that
// a machine announces and the true end lies a margin of a tenth of the ttl:
// work that began on a valid lease may end in it.
func (v Validity) At(now clock.Now) bool { return v.left > 0 && now.Since(v.from) < v.left }

// Until returns the monotonic instant at which the validity ends, 0 if there is
// none. A suspend or a jump of the wall clock may end it earlier: ask At.
func (v Validity) Until() time.Duration {
	if v.left <= 0 {
		return 0
	}
	return v.from.Mono + v.left
}

// Validity returns how long all held keys are ours.
func (m *Machine) Validity() Validity {
	if m.state != Held {
		return Validity{}
	}
	return Validity{from: m.last, left: m.since + m.tm.valid - m.aged}
}
