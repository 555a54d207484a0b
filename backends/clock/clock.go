// Package clock provides the time for step machines. A machine does not read a clock; its
// caller passes a Now with each event. So a simulation can choose the time, and set one for each
// process.
package clock

import "time"

// Now is one instant as one process sees it, on two clocks that may disagree.
type Now struct {
	// Mono is the time since the process began. It never jumps, but it stops while the machine
	// is suspended.
	Mono time.Duration
	// Wall is the time of the host's clock. It may jump either way.
	Wall time.Time
}

// Since returns the time since an earlier instant of the same process: the larger of the
// differences of the two clocks. A suspend stops only the monotonic clock, and a jump back only
// hides time on the wall clock. Since measures the age of a promise, so the larger difference
// is the safe one.
func (n Now) Since(earlier Now) time.Duration {
	return max(n.Mono-earlier.Mono, n.Wall.Sub(earlier.Wall))
}

// Soonest returns the earliest of some monotonic times, ignoring 0; it returns 0 if there are
// no others.
func Soonest(at ...time.Duration) (first time.Duration) {
	for _, t := range at {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// Clock returns the current time of one process.
type Clock func() Now

// System returns the clock of this process and its host.
func System() Clock {
	start := time.Now()
	return func() Now {
		t := time.Now()
		return Now{Mono: t.Sub(start), Wall: t.Round(0)}
	}
}
