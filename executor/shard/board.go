package shard

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// Board is what the shards of a sale know of each other: the totals of each
// after its last commit, or, of one that another process owns, as that has reported them
// last. Nothing on it is trusted for a grant; it tells a shard that is short whom to ask,
// and everybody when all is sold.
type Board struct {
	// Notify is called when Due may be sooner than it said, and returns at once; nil: whoever
	// has the board asks often. It is called from any goroutine.
	Notify func()

	soldOut atomic.Bool
	news    atomic.Bool // a shard of this process stands so that peers should hear of it soon

	// mu guards the rest. It is taken once a commit.
	mu         sync.Mutex
	newest     uint64 // generation that the sale's log has
	drawnSince uint64 // the one in which the order of a draw was revealed; 0: it is not
	shards     []ledger.Totals
	slots      []uint64        // of each, the slot behind the last that its totals have
	seen       []uint64        // of each, the slot behind the last that this process ever heard of
	told       []ledger.Totals // what was on the board when peers were last told of those of this process
	mine       []bool          // shards of this process
	due        []time.Time     // when the next hold of each is to be released; zero: none is
	known      []bool
	loads      []Load
	sure       []uint64 // the slots at which all shards were at one instant; nil: it was not looked

	// What is promised between processes: see Promise.
	sureAt    atomic.Pointer[clock.Now] // when that look began; nil: all shards are this process's
	wanted    atomic.Int64              // monotonic: until when to look again, since somebody wanted to know
	promised  []time.Duration           // monotonic, by shard of this process
	returning []bool                    // units may come back by a commit that is under way, or about to be
	short     []bool                    // claims wait there for units
	asked     []int64                   // units that others have asked a shard for, and have not been answered
}

// NewBoard returns that of a sale with so many shards.
func NewBoard(shards int) *Board {
	return &Board{
		promised: make([]time.Duration, shards), returning: make([]bool, shards),
		shards: make([]ledger.Totals, shards), told: make([]ledger.Totals, shards), slots: make([]uint64, shards), seen: make([]uint64, shards), mine: make([]bool, shards), due: make([]time.Time, shards), known: make([]bool, shards),
		loads: make([]Load, shards),
		short: make([]bool, shards), asked: make([]int64, shards),
	}
}

// AllSold says whether all units are sold, or were when a shard last committed.
func (b *Board) AllSold(now clock.Now) bool {
	at := b.sureAt.Load()
	if at != nil && now.Mono > time.Duration(b.wanted.Load())-wantedFor+lookEvery {
		b.wanted.Store(int64(now.Mono + wantedFor))
		b.notify()
	}
	return b.soldOut.Load() && (at == nil || now.Since(*at) < knownFor)
}

// Post sets the totals of a shard of this process behind a slot of its log, and when the
// next of its holds is to be released; zero: none is. serves: this process owns it by its
// log, too.
func (b *Board) Post(shard int, next uint64, t ledger.Totals, release time.Time, serves bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards[shard], b.slots[shard], b.due[shard], b.known[shard], b.mine[shard] = t, next, release, true, serves
	b.returning[shard], b.seen[shard] = false, max(b.seen[shard], next)
	if serves && matters(b.told[shard], t) && b.news.CompareAndSwap(false, true) {
		b.notify()
	}
	b.settle()
}

// Seen returns the slot behind the last of a shard that this process ever heard of. A log that
// ends before it has lost slots.
func (b *Board) Seen(shard int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[shard]
}

// Leave says that another process is to own a shard.
func (b *Board) Leave(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine[shard], b.returning[shard], b.loads[shard] = false, false, Load{}
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
// sum of their limits, all at the newest generation. Where all shards are of this process
// it does not matter that they were read one after another, since sold only grows, but for
// refunds. What others report may be older than a refund after which the unit was sold
// again, and counted twice: so all shards have to be seen at one instant.
func (b *Board) settle() {
	all := b.allMine()
	if all {
		b.sureAt.Store(nil)
	} else if b.sureAt.Load() == nil {
		b.sureAt.Store(new(clock.Now))
	}
	adds := b.adds()
	sure := all || slices.Equal(b.sure, b.slots)
	b.soldOut.Store(adds && sure)
	if adds && !sure {
		b.notify()
	}
}

func (b *Board) notify() {
	if b.Notify != nil {
		b.Notify()
	}
}

// adds says whether all units are sold by what is on the board. mu is held.
func (b *Board) adds() bool {
	var sold, limit int64
	for i, t := range b.shards {
		if !b.known[i] || t.Generation != b.newest {
			return false
		}
		sold += t.Sold
		limit += t.Limit
	}
	return sold == limit
}

func (b *Board) allMine() bool { return !slices.Contains(b.mine, false) }

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
	shard  int
	units  int64         // whichever they are
	named  bool          // and those that requests have named
	run    int64         // and so many adjacent ones; 0: none
	number uint64        // from 1
	until  time.Duration // monotonic: when to take silence for a no
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

// others returns the shards that have at least so many units available, those with the most
// first, and how many. What others have asked them for does not count: which units that will
// be nobody knows.
func (b *Board) others(to int, least int64) (found []request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.shards {
		if b.known[i] && t.Available >= least && i != to {
			found = append(found, request{shard: i, units: t.Available})
		}
	}
	slices.SortStableFunc(found, func(x, y request) int { return cmp.Compare(y.units, x.units) })
	return found
}

// anyOther says whether another shard has so many units available and is not among those that
// skip names.
func (b *Board) anyOther(to int, least int64, skip func(shard int) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.shards {
		if b.known[i] && t.Available >= least && i != to && !skip(i) {
			return true
		}
	}
	return false
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
