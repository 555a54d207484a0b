package executor

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/spec"
)

// close ends whoever makes the calls, when theirs have returned.
func (g *nodeBatcher) close() { close(g.over) }

// run makes calls until close.
func (g *nodeBatcher) run(ctx context.Context, node lists.Node, clock clock.Clock, took prometheus.Observer) {
	c := new(grabCall)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ask, wake := g.next(clock(), c)
		if ask {
			ctx, cancel := context.WithTimeout(ctx, grabTimeout)
			began := clock().Mono
			given, err := node.Grab(ctx, c.batches)
			cancel()
			now := clock()
			took.Observe((now.Mono - began).Seconds())
			g.done(now, c, given, err)
			letAskAgain()
			continue
		}
		wait := time.Hour
		if wake != 0 {
			wait = max(wake-clock().Mono, 0)
		}
		timer.Reset(wait)
		select {
		case <-g.wake:
		case <-timer.C:
		case <-g.over:
			return
		}
	}
}

func listNames(nodes []lists.Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return names
}

// How long somebody who asks what a user has is kept waiting for the ledger to
// have what the node gave.
const lookPatience = 500 * time.Millisecond

// drainedFor waits until the ledger has what the user's list has given so far.
func (e *Executor) drainedFor(user string) {
	t := e.tenure.Load()
	if t == nil {
		return
	}
	select {
	case <-t.shards[spec.HomeShard(user, len(t.shards))].front.drain():
	case <-time.After(lookPatience):
	}
}
