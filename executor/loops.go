package executor

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/executor/listengine"
	"salectl/executor/metrics"
	"salectl/executor/shard"
)

// The goroutines of a session: one for each shard, and listengine.MaxCalls for each node
// that keeps lists.

// shardLoop runs one shard: it makes the shard's calls and passes on the replies.
type shardLoop struct {
	*shard.Shard
	clock   clock.Clock
	ends    calls.Ends
	turns   chan struct{} // has a place for each shard that may be loaded at a time
	stats   *metrics.Shards
	replies chan func() // has a place for each call that may be under way
	serves  func()      // is called when the shard is served
}

// run is the event loop. It returns why the shard has ended, after the last call
// has returned. ctx bounds the calls; only a halt ends the loop.
func (l *shardLoop) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	do := func(c calls.Call) {
		loads := l.Loading()
		running.Go(func() { l.call(ctx, c, loads) })
	}
	for served := false; ; {
		wake := l.Act(do)
		if !served && l.Serves() {
			served = true
			l.serves()
		}
		l.stats.Add(l.TakeTally())
		if why, over := l.Ended(); over {
			return why
		}
		timer.Reset(until(wake, l.clock()))
		select {
		case <-l.Mail():
		case take := <-l.replies:
			take()
			// Let the callers run whom a small commit has answered: they are about to send their next
			// requests. With 200 callers and 5 shards a commit then has 31 claims instead of 21, and a
			// sixth more are sold.
			if n := l.TakeAnsweredCount(); n > 0 && n < largeBatch {
				yield()
			}
		case <-timer.C:
			l.Apply(shard.Ticked{})
		}
	}
}

// call makes a call. One that loads the log takes its turn first: its time counts from
// then.
func (l *shardLoop) call(ctx context.Context, c calls.Call, loads bool) {
	if loads {
		l.turns <- struct{}{}
		defer func() { <-l.turns }()
	}
	began := time.Now()
	reply := c.Do(ctx, l.ends)
	if strings.HasPrefix(c.What, "append ") {
		l.stats.Append.Observe(time.Since(began).Seconds())
	}
	l.replies <- func() { c.Took(l.clock(), reply, nil) }
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

// yield lets the callers run who have just been answered.
func yield() {
	runtime.Gosched()
	runtime.Gosched() // the first may have gone to others who were there before
}

// grabLoop makes calls of a node until over is closed.
func grabLoop(ctx context.Context, g *listengine.Batcher, node int, ends calls.Ends, clock clock.Clock, took prometheus.Observer, over <-chan struct{}) {
	c := new(listengine.Call)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		asks, wake := g.Next(clock(), c)
		if asks {
			call, began := g.Call(node, c), time.Now()
			reply := call.Do(ctx, ends)
			took.Observe(time.Since(began).Seconds())
			call.Took(clock(), reply, nil)
			yield()
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
