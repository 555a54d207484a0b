package ownership

import (
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// hostClock is this host's clock, by the lock nodes' clocks.
type hostClock struct {
	known bool          // the lock nodes have told the time in this session
	off   time.Duration // from the median of their clocks, where that was too much when it was last known
	since time.Duration // monotonic: since when it is
}

// read takes in how far the clock is off. It is too much by more than a ttl, and nothing while too
// few nodes tell the time.
func (c *hostClock) read(now clock.Now, leases *quorum.Group, ttl time.Duration) {
	off, known := leases.ClockOff(now)
	if !known { // what was wrong may be right again; handover.advance finds out
		c.known = c.known && c.off == 0
		return
	}
	c.known = true
	switch {
	case off.Abs() <= ttl:
		c.off = 0
	case c.off == 0:
		c.off, c.since = off, now.Mono
	default:
		c.off = off
	}
}

// lost reports whether the clock has been wrong for so long that another process is to sell.
func (c *hostClock) lost(now clock.Now, ttl time.Duration) bool {
	return c.off != 0 && now.Mono-c.since > ttl
}
