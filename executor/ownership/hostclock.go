package ownership

import (
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// hostClock is the error of this host's clock against the lock nodes' clocks.
type hostClock struct {
	known bool          // the lock nodes have reported the time in this session
	off   time.Duration // last known offset from the median of their clocks; 0: at most a ttl
	since time.Duration // monotonic: time at which off became nonzero
}

// read updates the offset, which is 0 up to a ttl. While too few nodes report their time it keeps
// the last known offset.
func (c *hostClock) read(now clock.Now, leases *quorum.Group, ttl time.Duration) {
	off, known := leases.ClockOff(now)
	if !known { // the clock may be right again; handover.advance finds out
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

// lost reports whether the clock has been off for more than a ttl, so that this process must
// release its shards.
func (c *hostClock) lost(now clock.Now, ttl time.Duration) bool {
	return c.off != 0 && now.Mono-c.since > ttl
}
