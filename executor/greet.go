package executor

import (
	"context"

	"salectl/backends/clock"
)

// Greet takes in that the peer is there: a process that the lock nodes have not told of yet
// is looked for at once, since its requests wait until it knows who owns what.
func (v *Visitor) Greet(ctx context.Context) {
	select {
	case v.e.inbox <- func(r *runner) { r.owner.greeted(r.clock(), v.from) }:
	case <-ctx.Done():
	case <-v.e.ended:
	}
}

// greeted takes in that a peer has made a link to this process.
func (o *owner) greeted(now clock.Now, from string) {
	if o.stage == serving && o.roster != nil && o.fellows.all[from] == nil {
		o.met(now, o.roster.Look(now))
	}
}
