package cli

import (
	"os"
	"time"
)

// echo detects repeated signals: timeout(1) sends each signal to its command and then to the
// whole process group, and so do service managers and shell scripts. Both copies are one
// request.
type echo struct {
	now  func() time.Time // nil: time.Now
	last os.Signal
	at   time.Time
}

// echoFor is the time within which the same signal counts as a repetition. A person who
// repeats it on purpose is slower.
const echoFor = 300 * time.Millisecond

// repeats reports whether a signal repeats the previous one.
func (e *echo) repeats(s os.Signal) bool {
	now := time.Now
	if e.now != nil {
		now = e.now
	}
	at := now()
	again := s == e.last && at.Sub(e.at) < echoFor
	if !again {
		e.last, e.at = s, at
	}
	return again
}
