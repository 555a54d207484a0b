package executor

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
)

// What keeps requests from nodes that keep lists: a ledger that is far behind, and
// a node that gives nothing though its list is on.

// backlog is how far the ledger is behind, for all nodes of a sale.
type backlog struct {
	mu     sync.Mutex   // of what adds to either
	behind atomic.Int64 // grabs that the ledger does not have yet
	asked  atomic.Int64 // requests in calls under way, each of which may be one more
	most   int64        // of both
}

// reserve returns how many requests more a node may be asked, of n, and counts them.
func (b *backlog) reserve(n int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = max(min(n, b.most-b.behind.Load()-b.asked.Load()), 0)
	b.asked.Add(n)
	return n
}

// answered says what came of requests that were reserved: grabs that the ledger does
// not have yet.
func (b *backlog) answered(requests, fresh int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked.Add(-requests)
	b.behind.Add(fresh)
}

// large says whether the ledger is so far behind that it must not fall back further.
func (b *backlog) large() bool { return b.behind.Load() > b.most/2 }

// full refuses those who wait while the ledger is as far behind as it may be, but
// for those who may have been given something. It returns when to look again, 0 if
// nobody waits.
func (g *grabber) full(now clock.Now) time.Duration {
	waits := false
	for _, gs := range g.shards {
		if g.backlog.behind.Load() >= g.backlog.most {
			asked := slices.DeleteFunc(slices.Clone(gs.queue), func(t *ticket) bool { return !t.asked })
			gs.queue = slices.DeleteFunc(gs.queue, func(t *ticket) bool { return t.asked })
			g.refuse(gs, Answer{Outcome: Overloaded, RetryAfter: time.Second})
			gs.queue = asked
		}
		waits = waits || len(gs.queue) > 0
	}
	if !waits {
		return 0
	}
	return now.Mono + time.Millisecond
}

// failure is since when and why a node gives nothing from a list that is on, and
// when it last said so.
type failure struct {
	since, last clock.Now
	err         error // nil: it does
}

func (f *failure) note(now clock.Now, err error) {
	if f.err == nil {
		f.since = now
	}
	f.last, f.err = now, err
}

// stall says since when and why the node gives nothing from a shard's list, as long
// as that is news: somebody must ask to find out that it does again.
func (g *grabber) stall(now clock.Now, shard int) *Stall {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.by[shard].failed
	if f.err == nil || now.Since(f.last) > 2*stallAfter {
		return nil
	}
	return &Stall{Since: f.since.Wall, Error: oneLine(f.err), node: true}
}
