package sim

import (
	"math"
	"time"

	"salectl/backends/clock"
)

// epoch is what the wall clocks show, about, when a world begins.
var epoch = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// hostClock is the two clocks of one host. They run at one rate, which is not
// quite that of the others, and the wall clock may jump.
type hostClock struct {
	rate  float64       // 1 is virtual time's
	since time.Duration // virtual: when mono and wall were as below
	mono  time.Duration
	wall  time.Time
}

// newClock is the clock of a host that starts now.
func newClock(now time.Duration, offset time.Duration, rate float64) hostClock {
	return hostClock{rate: rate, since: now, mono: time.Second, wall: epoch.Add(now + offset)}
}

// now is what the clocks show at a virtual time.
func (c *hostClock) now(at time.Duration) clock.Now {
	passed := time.Duration(float64(at-c.since) * c.rate)
	return clock.Now{Mono: c.mono + passed, Wall: c.wall.Add(passed)}
}

// when is the virtual time at which the monotonic clock will show a value.
func (c *hostClock) when(mono time.Duration) time.Duration {
	return c.since + time.Duration(math.Ceil(float64(mono-c.mono)/c.rate)) + 1
}

// jump sets the wall clock forth or back.
func (c *hostClock) jump(d time.Duration) { c.wall = c.wall.Add(d) }

// drift changes the rate.
func (c *hostClock) drift(at time.Duration, rate float64) {
	now := c.now(at)
	c.since, c.mono, c.wall, c.rate = at, now.Mono, now.Wall, rate
}

// suspend lets the monotonic clock have stood still since it showed a value, whatever its
// rate was meanwhile.
func (c *hostClock) suspend(at, mono time.Duration) { c.mono += mono - c.now(at).Mono }
