// Package signals has what commands share about signals of the operating system.
package signals

import (
	"errors"
	"os"
	"time"
)

// ErrInterrupted is the cause of a context that a signal has ended.
var ErrInterrupted = errors.New("interrupted")

// Echo detects repeated signals: timeout(1) sends each signal to its command and then to the
// whole process group, and so do service managers and shell scripts. Both copies are one
// request.
type Echo struct {
	Now  func() time.Time // nil: time.Now
	last os.Signal
	at   time.Time
}

// echoFor is the time within which the same signal counts as a repetition. A person who
// repeats it on purpose is slower.
const echoFor = 300 * time.Millisecond

// Repeats reports whether a signal repeats the previous one.
func (e *Echo) Repeats(s os.Signal) bool {
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	at := now()
	again := s == e.last && at.Sub(e.at) < echoFor
	if !again {
		e.last, e.at = s, at
	}
	return again
}
