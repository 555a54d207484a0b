package executor

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/executor/listengine"
	"salectl/executor/shard"
)

// The goroutines of a session: one for each shard, and listengine.MaxCalls for each node
// that keeps lists.

// runShard is the event loop of one shard: it makes the shard's calls and passes on the replies. It returns why the
// shard has ended, after the last call has returned; only a halt ends it. turns has a place for each shard that may
// be loaded at a time. granted is when its last owner freed the lease for this process, until the shard serves.
func (r *runner) runShard(s *shard.Shard, turns chan struct{}, granted *atomic.Int64) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	metrics, replies := r.e.metrics, make(chan func(), 2) // with a place for each call that may be under way
	var running sync.WaitGroup
	defer running.Wait()
	do := func(c calls.Call) {
		loads := s.Loading()
		running.Go(func() {
			if loads { // the time of the call counts from its turn
				turns <- struct{}{}
				defer func() { <-turns }()
			}
			began := time.Now()
			reply := c.Do(r.calls, r.ends)
			if strings.HasPrefix(c.What, "append ") {
				metrics.Append.Observe(time.Since(began).Seconds())
			}
			replies <- func() { c.Took(r.clock(), reply, nil) }
		})
	}
	for {
		wake := s.Act(do)
		if granted.Load() != 0 && s.Serves() {
			metrics.Handover.Observe((r.clock().Mono - time.Duration(granted.Swap(0))).Seconds())
		}
		metrics.Shards.Add(s.TakeTally())
		if why, over := s.Ended(); over {
			return why
		}
		timer.Reset(until(wake, r.clock()))
		select {
		case <-s.Mail():
		case take := <-replies:
			take()
			// Let the callers run whom a small commit has answered: they are about to send their next
			// requests. With 200 callers and 5 shards a commit then has 31 claims instead of 21, and a
			// sixth more are sold.
			if n := s.TakeAnsweredCount(); n > 0 && n < largeBatch {
				yield()
			}
		case <-timer.C:
			s.Apply(shard.Ticked{})
		}
	}
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
func (r *runner) grabLoop(g *listengine.Batcher, node int, over <-chan struct{}) {
	c, took := new(listengine.Call), r.e.metrics.Grab.WithLabelValues(r.e.cfg.Lists[node].Name())
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ready, wake := g.Next(r.clock(), c)
		if ready {
			call, began := g.Call(node, c), time.Now()
			reply := call.Do(r.calls, r.ends)
			took.Observe(time.Since(began).Seconds())
			call.Took(r.clock(), reply, nil)
			yield()
			continue
		}
		timer.Reset(until(wake, r.clock()))
		select {
		case <-g.Mail():
			yield() // so that the next requests of these callers share a call
		case <-timer.C:
		case <-over:
			return
		}
	}
}
