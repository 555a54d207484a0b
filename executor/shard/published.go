package shard

import (
	"sync/atomic"
	"time"

	"salectl/backends/clock"
)

// published is the condition of a shard, as the goroutine that runs it has published it for all
// others.
type published struct {
	serving atomic.Bool
	follows atomic.Bool            // it has read its log to the end, and reads it on
	rights  atomic.Pointer[Rights] // nil: there never were any
	stall   atomic.Pointer[Stall]  // nil: it does not stall
	setBack atomic.Int64           // see sequencer

	listReady atomic.Bool // its list gives units, or is off as it should be
}

// May reports whether this process may append to the shard.
func (p *published) May(now clock.Now) bool {
	r := p.rights.Load()
	return r != nil && r.Valid(now)
}

// Leased reports whether this process has the shard's lease, and until when by its
// monotonic clock.
func (p *published) Leased(now clock.Now) (until time.Duration, ok bool) {
	if r := p.rights.Load(); r != nil && r.Lease.At(now) {
		return r.Lease.Until(), true
	}
	return 0, false
}

// Serves reports whether this process has taken the shard over, and serves it.
func (p *published) Serves() bool { return p.serving.Load() }

// Follows reports whether the shard has read its log to the end, and reads it on until there
// are rights to append.
func (p *published) Follows() bool { return p.follows.Load() }

// Stalled returns why the shard takes no claims for the moment; nil: it does.
func (p *published) Stalled() *Stall { return p.stall.Load() }

// WasSetBack returns by how much the time of the log was set back last; 0: it never was.
func (p *published) WasSetBack() time.Duration { return time.Duration(p.setBack.Load()) }
