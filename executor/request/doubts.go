package request

import (
	"sync"
	"sync/atomic"
)

// Doubts remembers requests that were answered with Unknown, or that a node may have received without a
// reply: each may have been accepted, or may be yet. Doubts belong to the process and outlive sessions. A
// doubt on a shard ends when this process has taken the shard over, and so has read its log behind
// everything that it ever sent there. With a list, it ends when the list was filled again. All methods
// are safe for concurrent use.
type Doubts struct {
	n atomic.Int64 // number of all doubts, so that readers seldom need mu

	mu     sync.Mutex
	uid    string // of the run of the doubts
	shards map[int]map[requestKey]struct{}
}

// requestKey is what one request has in common with its repetitions.
type requestKey struct{ user, key string }

// AnyKey stands for all requests of a user. A request that has no key of its own gets
// one that nobody else has, so that none is known by this one.
const AnyKey = ""

// maxDoubts bounds the doubts of one shard: with that many, everything on it is in doubt. They arise at
// the rate of requests to a node that does not reply, about a thousand a second.
const maxDoubts = 100_000

// Len returns how many requests are in doubt.
func (d *Doubts) Len() int64 { return d.n.Load() }

// Add remembers a request of a shard.
func (d *Doubts) Add(uid string, shard int, user, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uid != uid {
		d.uid, d.shards = uid, nil
		d.n.Store(0)
	}
	if d.shards == nil {
		d.shards = make(map[int]map[requestKey]struct{})
	}
	all := d.shards[shard]
	if all == nil {
		all = make(map[requestKey]struct{})
		d.shards[shard] = all
	}
	if _, known := all[requestKey{user, key}]; !known && len(all) < maxDoubts {
		all[requestKey{user, key}] = struct{}{}
		d.n.Add(1)
	}
}

// Has reports whether a request is in doubt, on whichever shard.
func (d *Doubts) Has(user, key string) bool {
	if d.n.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, all := range d.shards {
		if len(all) == maxDoubts {
			return true
		}
		for _, key := range [...]string{key, AnyKey} {
			if _, known := all[requestKey{user, key}]; known {
				return true
			}
		}
	}
	return false
}

// Drop forgets a request whose outcome is known now.
func (d *Doubts) Drop(shard int, user, key string) {
	if d.n.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.shards[shard]
	if _, known := all[requestKey{user, key}]; known && len(all) < maxDoubts {
		delete(all, requestKey{user, key})
		d.n.Add(-1)
	}
}

// forget forgets the doubts of a shard, and all of other runs.
func (d *Doubts) forget(uid string, shard int) {
	if d.n.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uid != uid {
		d.shards = nil
		d.n.Store(0)
		return
	}
	d.n.Add(-int64(len(d.shards[shard])))
	delete(d.shards, shard)
}
