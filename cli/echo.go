package cli

import (
	"os"
	"time"
)

// echo tells a signal from its repetition: timeout(1) sends each signal to the
// command that it runs and then to the whole process group, and so does a service
// manager or a shell script. Both copies are one wish.
type echo struct {
	now  func() time.Time // nil: time.Now
	last os.Signal
	at   time.Time
}

// echoFor is how long the same signal is taken for the same wish. A person who
// means a second one is slower.
const echoFor = 300 * time.Millisecond

// repeats reports whether a signal only repeats the one before.
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
