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

// SaleTotals has the totals of each shard of a sale: after the last commit of a shard of this process,
// and by the last report of another. No grant relies on them. A shard that is short of units chooses
// by them which shards to request units of, and every shard reads from them that all is sold.
type SaleTotals struct {
	// Notify is called, from any goroutine, when Due may be earlier than it has returned. It returns
	// at once; nil: the caller of Due calls it often.
	Notify func()

	soldOut atomic.Bool
	news    atomic.Bool // a shard of this process has changed in a way that matters to peers

	// mu guards the rest. It is taken once a commit.
	mu          sync.Mutex
	newest      uint64 // generation that the sale's log has
	drawnSince  uint64 // the one in which the order of a draw was revealed; 0: it is not
	shards      []ledger.Totals
	slots       []uint64        // by shard: the slot behind the last that its totals include
	seen        []uint64        // by shard: the slot behind the last that this process knows of
	reported    []ledger.Totals // shards as they were when peers were last sent reports
	mine        []bool          // shards of this process
	due         []time.Time     // by shard: when its next hold is to be released; zero: it has none
	known       []bool
	loads       []Load
	provenSlots []uint64 // the slots at which all shards were at one instant; nil: they were not read

	// For the proof between processes: see PromiseNoReturn.
	provenAt     atomic.Pointer[clock.Now] // when that read began; nil: all shards are this process's
	queriedUntil atomic.Int64              // monotonic: until when to renew the proof, as AllSold was called
	promised     []time.Duration           // monotonic, by shard of this process
	returning    []bool                    // units may come back by a commit that is under way, or about to be
	short        []bool                    // claims wait there for units
	requested    []int64                   // by shard: units that others have requested of it, without a reply yet
}

// NewSaleTotals returns the totals of a sale with so many shards, none of which is known.
func NewSaleTotals(shards int) *SaleTotals {
	return &SaleTotals{
		promised: make([]time.Duration, shards), returning: make([]bool, shards),
		shards: make([]ledger.Totals, shards), reported: make([]ledger.Totals, shards), slots: make([]uint64, shards), seen: make([]uint64, shards), mine: make([]bool, shards), due: make([]time.Time, shards), known: make([]bool, shards),
		loads: make([]Load, shards),
		short: make([]bool, shards), requested: make([]int64, shards),
	}
}

// AllSold reports whether all units are sold, or were when a shard last committed.
func (b *SaleTotals) AllSold(now clock.Now) bool {
	at := b.provenAt.Load()
	if at != nil && now.Mono > time.Duration(b.queriedUntil.Load())-queriedFor+proveEvery {
		b.queriedUntil.Store(int64(now.Mono + queriedFor))
		b.notify()
	}
	return b.soldOut.Load() && (at == nil || now.Since(*at) < proofFor)
}

// Set sets the totals of a shard of this process behind a slot of its log, and when the
// next of its holds is to be released; zero: none is. serves: this process owns it by its
// log, too.
func (b *SaleTotals) Set(shard int, next uint64, t ledger.Totals, release time.Time, serves bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards[shard], b.slots[shard], b.due[shard], b.known[shard], b.mine[shard] = t, next, release, true, serves
	b.returning[shard], b.seen[shard] = false, max(b.seen[shard], next)
	if serves && matters(b.reported[shard], t) && b.news.CompareAndSwap(false, true) {
		b.notify()
	}
	b.recompute()
}

// Seen returns the slot behind the last of a shard that this process knows of. A log that
// ends before it has lost slots.
func (b *SaleTotals) Seen(shard int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[shard]
}

// Leave takes in that another process is to own a shard.
func (b *SaleTotals) Leave(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mine[shard], b.returning[shard], b.loads[shard] = false, false, Load{}
	b.recompute()
}

// Generation takes in that the sale's log has a newer generation. Not all is sold any more: the
// generation may bring units.
func (b *SaleTotals) Generation(newest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = newest
	b.recompute()
}

// recompute computes whether all is sold: the sum of all shards' sold equals the
// sum of their limits, all at the newest generation. Where all shards are of this process
// it does not matter that they were read one after another, since sold only grows, but for
// refunds. What others report may be older than a refund after which the unit was sold
// again, and counted twice: so all shards have to be seen at one instant.
func (b *SaleTotals) recompute() {
	all := b.allMine()
	if all {
		b.provenAt.Store(nil)
	} else if b.provenAt.Load() == nil {
		b.provenAt.Store(new(clock.Now))
	}
	adds := b.addsUp()
	sure := all || slices.Equal(b.provenSlots, b.slots)
	b.soldOut.Store(adds && sure)
	if adds && !sure {
		b.notify()
	}
}

func (b *SaleTotals) notify() {
	if b.Notify != nil {
		b.Notify()
	}
}

// addsUp reports whether the totals add up to all units sold. mu is held.
func (b *SaleTotals) addsUp() bool {
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

func (b *SaleTotals) allMine() bool { return !slices.Contains(b.mine, false) }

// release returns when the next hold of any shard is to be released; zero: none is.
func (b *SaleTotals) release() (first time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.due {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// setShort notes whether claims wait on a shard for units.
func (b *SaleTotals) setShort(shard int, units bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.short[shard] = units
}

// request is a shard's request for units of another.
type request struct {
	shard  int
	units  int64         // whichever they are
	named  bool          // and those that claims choose by name
	run    int64         // and so many adjacent ones; 0: none
	number uint64        // from 1
	until  time.Duration // monotonic: when to take no reply for a denial
}

// plan returns the requests of a shard for units that it lacks: of few shards, those with the most
// units first, without those that skip names. Units that others have requested of a shard count as
// gone until answered is called. Otherwise all shards that are short would choose the same one. A
// shard that is short itself comes last, and only for a shard with a lower number: it gives to no
// other.
func (b *SaleTotals) plan(to int, units int64, skip func(shard int) bool) []request {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []request
	for i, t := range b.shards {
		spare := t.Available - b.requested[i]
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
		b.requested[r.shard] += r.units
	}
	return found[:n]
}

// others returns a request for each shard that has at least so many units available, those with the
// most first. The requests of other shards do not count: it is unknown which units they will get.
func (b *SaleTotals) others(to int, least int64) (found []request) {
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

// anyOther reports whether another shard has so many units available and is not among those that
// skip names.
func (b *SaleTotals) anyOther(to int, least int64, skip func(shard int) bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.shards {
		if b.known[i] && t.Available >= least && i != to && !skip(i) {
			return true
		}
	}
	return false
}

// answered takes in that a request was answered, or given up.
func (b *SaleTotals) answered(r request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requested[r.shard] -= r.units
}

// available reports whether at least n units are for sale: available on a shard, or in flight between
// two.
func (b *SaleTotals) available(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.shards {
		n -= t.Available + t.InFlight
	}
	return n <= 0
}

// anyElsewhere reports whether units are for sale on another shard, or in flight between two.
func (b *SaleTotals) anyElsewhere(shard int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.shards {
		if t.InFlight > 0 || i != shard && t.Available > 0 {
			return true
		}
	}
	return false
}
