package executor

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/executor/shard"
)

// The goroutines of a tenure: one for each shard, and shard.CallsAtOnce for each node that
// keeps lists.

// callTimeout is how long one call of the store may take. An append that takes
// longer is in doubt, and asked about.
const callTimeout = 2 * time.Second

// shardLoop runs one shard: it makes the shard's calls and carries back what comes
// of them.
type shardLoop struct {
	*shard.Shard
	logs    ledger.Logs
	kept    lists.Node    // that has the shard's list; nil: there is none
	turns   chan struct{} // has a place for each shard that may be loaded at a time
	stats   *shardMetrics
	replies chan ledger.Reply // has a place for the one call under way
	listed  chan lists.Reply  // the same, of the list's node
}

// run is the event loop. It returns why the shard has ended, after the last call
// has returned. ctx bounds the calls; only a halt ends the loop.
func (l *shardLoop) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		l.perform(ctx, l.Next(), timer, &calls)
		if why, over := l.Ended(); over {
			l.Close()
			l.stats.tally(l.Counted())
			return why
		}
		select {
		case <-l.Mail():
		case r := <-l.replies:
			gather(l.Replied(r))
		case r := <-l.listed:
			l.Happens(shard.ListReplied{Reply: r})
		case <-timer.C:
			l.Happens(shard.Ticked{})
		}
	}
}

// perform does what the shard wants done.
func (l *shardLoop) perform(ctx context.Context, e shard.Effects, timer *time.Timer, calls *sync.WaitGroup) {
	if e.Send != nil {
		loads := l.Loading()
		calls.Go(func() { l.call(ctx, e.Send, loads) })
	}
	if e.List != nil {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			l.listed <- e.List.Do(ctx, l.kept)
		})
	}
	now := l.Carry(e)
	l.stats.tally(l.Counted())
	timer.Reset(until(e.Wake, now))
}

// call makes a call of the store. One that loads the log takes its turn first:
// its time counts from then.
func (l *shardLoop) call(ctx context.Context, r *ledger.Request, loads bool) {
	if loads {
		l.turns <- struct{}{}
		defer func() { <-l.turns }()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	reply := r.Do(ctx, l.logs)
	if r.Kind == ledger.AppendRequest {
		l.stats.append.Observe(time.Since(began).Seconds())
	}
	l.replies <- reply
}

// until returns how long to wait for a wake, which is monotonic, 0 if there is none.
func until(wake time.Duration, now clock.Now) time.Duration {
	if wake == 0 {
		return time.Hour
	}
	return max(wake-now.Mono, 0)
}

// largeBatch is a commit whose own cost is nothing against that of its claims.
const largeBatch = 64

// gather lets those run whom a small commit has answered: they are about to ask
// again. With 200 callers and 5 shards a commit then has 31 claims instead of
// 21, and a sixth more are sold.
func gather(answered int) {
	if answered > 0 && answered < largeBatch {
		letAskAgain()
	}
}

// letAskAgain lets those run who have just been answered.
func letAskAgain() {
	runtime.Gosched()
	runtime.Gosched() // the first may have gone to others who were there before
}

// grabLoop makes calls of a node until over is closed.
func grabLoop(ctx context.Context, g *shard.NodeBatcher, node lists.Node, clock clock.Clock, took prometheus.Observer, over <-chan struct{}) {
	c := new(shard.GrabCall)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ask, wake := g.Next(clock(), c)
		if ask {
			ctx, cancel := context.WithTimeout(ctx, shard.GrabTimeout)
			began := time.Now()
			given, err := node.Grab(ctx, c.Batches)
			cancel()
			took.Observe(time.Since(began).Seconds())
			g.Done(clock(), c, given, err)
			letAskAgain()
			continue
		}
		timer.Reset(until(wake, clock()))
		select {
		case <-g.Mail():
		case <-timer.C:
		case <-over:
			return
		}
	}
}
