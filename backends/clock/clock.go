// Package clock is the time that step machines are told. A machine never asks
// what time it is; its shell hands it a Now with each event, so that a
// simulation can hand it any other, and give every process its own.
package clock

import "time"

// Now is one instant as one process sees it, on two clocks that may disagree.
type Now struct {
	// Mono has run since the process began. It never jumps, but it stands
	// still while the machine is suspended.
	Mono time.Duration
	// Wall is what the host says the time is. It may jump either way.
	Wall time.Time
}

// Since returns the time that has passed since an earlier instant of the same
// process: the larger of what the two clocks say. A suspend stops only the
// monotonic clock, a jump back only hides time on the wall; what is measured
// here is how long a promise may have aged, so the larger is the safe one.
func (n Now) Since(earlier Now) time.Duration {
	return max(n.Mono-earlier.Mono, n.Wall.Sub(earlier.Wall))
}

// Soonest returns the earliest of some instants on a monotonic clock, of which 0 is
// none; 0 if there is none.
func Soonest(at ...time.Duration) (first time.Duration) {
	for _, t := range at {
		if t != 0 && (first == 0 || t < first) {
			first = t
		}
	}
	return first
}

// Clock tells the time of one process.
type Clock func() Now

// System returns the clock of this process and its host.
func System() Clock {
	start := time.Now()
	return func() Now {
		t := time.Now()
		return Now{Mono: t.Sub(start), Wall: t.Round(0)}
	}
}
