package executor

import (
	"sync"
	"sync/atomic"

	"salectl/backends/ledger"
)

// board is what the shards of a sale know of each other: the totals of each
// after its last commit. Nothing on it is trusted for a grant; it tells a shard
// that is short whom to ask, and everybody when all is sold.
type board struct {
	soldOut atomic.Bool

	// mu guards the rest. It is taken once a commit.
	mu     sync.Mutex
	newest uint64 // generation that the sale's log has
	shards []ledger.Totals
	known  []bool
}

func newBoard(shards int) *board {
	return &board{shards: make([]ledger.Totals, shards), known: make([]bool, shards)}
}

// post sets a shard's totals.
func (b *board) post(shard int, t ledger.Totals) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards[shard], b.known[shard] = t, true
	b.settle()
}

// generation says that the sale's log has a newer generation. It clears the
// remembered refusal: the generation may bring units.
func (b *board) generation(newest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = newest
	b.settle()
}

// settle works out whether all is sold: the sum of all shards' sold equals the
// sum of their limits, all at the newest generation. Since sold only grows, it
// does not matter that the shards were read one after another.
func (b *board) settle() {
	var sold, limit int64
	for i, t := range b.shards {
		if !b.known[i] || t.Generation != b.newest {
			b.soldOut.Store(false)
			return
		}
		sold += t.Sold
		limit += t.Limit
	}
	b.soldOut.Store(sold == limit)
}

// richest returns the shard with the most available units, without those that
// skip names; the lowest of equals. ok is false if none has any.
func (b *board) richest(skip func(shard int) bool) (shard int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := int64(0)
	for i, t := range b.shards {
		if b.known[i] && t.Available > most && !skip(i) {
			shard, most, ok = i, t.Available, true
		}
	}
	return shard, ok
}

// within says whether n units are somewhere for sale: available, or on the way
// between two shards.
func (b *board) within(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.shards {
		n -= t.Available + t.InFlight
	}
	return n <= 0
}
