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
	changed atomic.Bool // a shard of this process has changed in a way that matters to peers

	// mu guards the rest. It is taken once a commit.
	mu          sync.Mutex
	newest      uint64 // generation that the sale's log has
	drawnSince  uint64 // the one in which the order of a draw was revealed; 0: it is not
	shards      []shardEntry
	provenSlots []uint64 // the slots at which all shards were at one instant; nil: they were not read

	// For the proof between processes: see PromiseNoReturn.
	provenAt     atomic.Pointer[clock.Now] // when that read began; nil: all shards are this process's
	queriedUntil atomic.Int64              // monotonic: until when to renew the proof, as AllSold was called
}

// shardEntry is what SaleTotals has of a shard.
type shardEntry struct {
	Report
	seen      uint64        // the slot behind the last known to this process
	reported  ledger.Totals // as they were when peers were last sent reports
	owned     bool          // it is of this process
	promised  time.Duration // monotonic: until when no unit comes back to it, if it is of this process
	returning bool          // units may come back by a commit that is under way, or about to be
	short     bool          // claims wait there for units
	requested int64         // units that others have requested of it, without a reply yet
}

// NewSaleTotals returns the totals of a sale with so many shards, none of which is known.
func NewSaleTotals(shards int) *SaleTotals {
	b := &SaleTotals{shards: make([]shardEntry, shards)}
	for i := range b.shards {
		b.shards[i].Shard = i
	}
	return b
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
	s := &b.shards[shard]
	s.Totals, s.Next, s.Release, s.owned = t, next, release, serves
	s.returning, s.seen = false, max(s.seen, next)
	if serves && worthReporting(s.reported, t) && b.changed.CompareAndSwap(false, true) {
		b.notify()
	}
	b.recompute()
}

// Seen returns the slot behind the last of a shard known to this process. A log that ends
// before it has lost slots.
func (b *SaleTotals) Seen(shard int) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shards[shard].seen
}

// Leave records that another process is to own a shard.
func (b *SaleTotals) Leave(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shards[shard]
	s.owned, s.returning, s.Load = false, false, Load{}
	b.recompute()
}

// Generation records that the sale's log has a newer generation. Not all is sold any more: the generation
// may bring units.
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
	all := !slices.ContainsFunc(b.shards, func(s shardEntry) bool { return !s.owned })
	if all {
		b.provenAt.Store(nil)
	} else if b.provenAt.Load() == nil {
		b.provenAt.Store(new(clock.Now))
	}
	adds := b.addsUp()
	sure := all || slices.EqualFunc(b.shards, b.provenSlots, func(s shardEntry, next uint64) bool { return s.Next == next })
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
	for i := range b.shards {
		s := &b.shards[i]
		if s.Next == 0 || s.Totals.Generation != b.newest {
			return false
		}
		sold += s.Totals.Sold
		limit += s.Totals.Limit
	}
	return sold == limit
}

// release returns when the next hold of any shard is to be released; zero: none is.
func (b *SaleTotals) release() (first time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		if at := b.shards[i].Release; !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// update changes the entry of a shard.
func (b *SaleTotals) update(shard int, change func(*shardEntry)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.shards[shard])
}

// unitRequest is a shard's request for units of another.
type unitRequest struct {
	shard    int
	units    int64         // whichever they are
	named    bool          // and those that claims choose by name
	run      int64         // and so many adjacent ones; 0: none
	number   uint64        // from 1
	deadline time.Duration // monotonic: when to take no reply for a denial
}

// planRequests returns the requests of a shard for units that it lacks: of few shards, those with the most
// units first, without those that skip names. Units that others have requested of a shard count as
// gone until requestEnded is called. Otherwise all shards that are short would choose the same one. A
// shard that is short itself comes last, and only for a shard with a lower number: it sends to no
// other.
func (b *SaleTotals) planRequests(to int, units int64, skip func(shard int) bool) []unitRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found, short []unitRequest
	for i := range b.shards {
		s := &b.shards[i]
		r := unitRequest{shard: i, units: s.Totals.Available - s.requested}
		switch {
		case s.Next == 0 || r.units <= 0 || i == to || skip(i):
		case !s.short:
			found = append(found, r)
		case i > to:
			short = append(short, r)
		}
	}
	found = append(mostFirst(found), mostFirst(short)...)
	n := 0
	for ; n < len(found) && units > 0; n++ {
		r := &found[n]
		r.units = min(r.units, units)
		units -= r.units
		b.shards[r.shard].requested += r.units
	}
	return found[:n]
}

// withUnits returns a request for each shard that has at least so many units available, those with the
// most first. The requests of other shards do not count: it is unknown which units they will get.
func (b *SaleTotals) withUnits(to int, least int64) (found []unitRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		if s := &b.shards[i]; s.Next > 0 && s.Totals.Available >= least && i != to {
			found = append(found, unitRequest{shard: i, units: s.Totals.Available})
		}
	}
	return mostFirst(found)
}

// mostFirst sorts requests: those of the shards with the most units first.
func mostFirst(rs []unitRequest) []unitRequest {
	slices.SortStableFunc(rs, func(x, y unitRequest) int { return cmp.Compare(y.units, x.units) })
	return rs
}

// requestEnded records that a request was answered, or given up.
func (b *SaleTotals) requestEnded(r unitRequest) {
	b.update(r.shard, func(s *shardEntry) { s.requested -= r.units })
}

// forSale returns how many units are in flight between two shards, or available on shards other than except; -1
// excepts none.
func (b *SaleTotals) forSale(except int) (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		n += b.shards[i].Totals.InFlight
		if i != except {
			n += b.shards[i].Totals.Available
		}
	}
	return n
}
