package events

import (
	"sync"
	"time"
)

// lagMeter knows how far a follower is behind the ledger.
type lagMeter struct {
	mu    sync.Mutex // guards what follows
	since time.Time  // the time of what was read and is not sent yet; zero: all is sent
	last  time.Duration
}

// behind notes that there is something to send that is as old as since.
func (l *lagMeter) behind(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() || since.Before(l.since) {
		l.since = since
	}
}

// caughtUp notes that all is sent, the newest of it as old as newest.
func (l *lagMeter) caughtUp(newest, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since, l.last = time.Time{}, max(0, now.Sub(newest))
}

// lag returns how old the newest was that was sent when it was sent or, if something waits to be sent, how
// old that is.
func (l *lagMeter) lag(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.since.IsZero() {
		return max(0, now.Sub(l.since))
	}
	return l.last
}
