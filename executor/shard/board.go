package shard

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/ledger"
)

// Board is what the shards of a sale know of each other: the totals of each
// after its last commit. Nothing on it is trusted for a grant; it tells a shard
// that is short whom to ask, and everybody when all is sold.
type Board struct {
	soldOut atomic.Bool

	// mu guards the rest. It is taken once a commit.
	mu     sync.Mutex
	newest uint64 // generation that the sale's log has
	shards []ledger.Totals
	due    []time.Time // when the next hold of each is to be released; zero: none is
	known  []bool
	short  []bool  // claims wait there for units
	asked  []int64 // units that others have asked a shard for, and have not been answered
}

// NewBoard returns that of a sale with so many shards.
func NewBoard(shards int) *Board {
	return &Board{
		shards: make([]ledger.Totals, shards), due: make([]time.Time, shards), known: make([]bool, shards),
		short: make([]bool, shards), asked: make([]int64, shards),
	}
}

// AllSold says whether all units are sold, or were when a shard last committed.
func (b *Board) AllSold() bool { return b.soldOut.Load() }

// Post sets a shard's totals, and when the next of its holds is to be released; zero:
// none is.
func (b *Board) Post(shard int, t ledger.Totals, release time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards[shard], b.due[shard], b.known[shard] = t, release, true
	b.settle()
}

// Generation says that the sale's log has a newer generation. It clears the
// remembered refusal: the generation may bring units.
func (b *Board) Generation(newest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = newest
	b.settle()
}

// settle works out whether all is sold: the sum of all shards' sold equals the
// sum of their limits, all at the newest generation. Since sold only grows, but for
// refunds, it does not matter that the shards were read one after another.
func (b *Board) settle() {
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

// release returns when the next hold of any shard is to be released; zero: none is.
func (b *Board) release() (first time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.due {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// need says whether claims wait on a shard for units.
func (b *Board) need(shard int, units bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.short[shard] = units
}

// request is what a shard asks another for.
type request struct {
	shard int
	units int64
	until time.Duration // monotonic: when to take silence for a no
}

// ask returns whom a shard is to ask for units that it lacks, and each for how
// many: few shards, those with the most first, and without those that skip names.
// What others have asked a shard for counts as gone, until they say that they
// were answered: or all who are short would run to the same shard. One that is
// short itself comes last, and only for a lower-numbered one: it gives to no
// other.
func (b *Board) ask(to int, units int64, skip func(shard int) bool) []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []request
	for i, t := range b.shards {
		spare := t.Available - b.asked[i]
		if b.known[i] && spare > 0 && i != to && !(b.short[i] && i < to) && !skip(i) {
			found = append(found, request{shard: i, units: spare})
		}
	}
	slices.SortStableFunc(found, func(x, y request) int {
		if b.short[x.shard] != b.short[y.shard] {
			if b.short[y.shard] {
				return -1
			}
			return 1
		}
		return cmp.Compare(y.units, x.units)
	})
	n := 0
	for ; n < len(found) && units > 0; n++ {
		r := &found[n]
		r.units = min(r.units, units)
		units -= r.units
		b.asked[r.shard] += r.units
	}
	return found[:n]
}

// answered says that a request was answered, or is given up.
func (b *Board) answered(r request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[r.shard] -= r.units
}

// within says whether n units are somewhere for sale: available, or on the way
// between two shards.
func (b *Board) within(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.shards {
		n -= t.Available + t.InFlight
	}
	return n <= 0
}

// elsewhere says whether units are for sale on another shard than this, or on the way
// between two.
func (b *Board) elsewhere(shard int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.shards {
		if t.InFlight > 0 || i != shard && t.Available > 0 {
			return true
		}
	}
	return false
}
