package shard

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// Report is how a shard stands, as its owner tells other processes.
type Report struct {
	Shard   int
	Next    uint64 // the slot behind the last that the totals have
	Totals  ledger.Totals
	Release time.Time `json:",omitzero"` // when the next of its holds is to be released; zero: none is
	Queue   int       `json:",omitzero"` // requests that wait, where Load is known
	Load    *float64  `json:",omitzero"` // requests decided a second, lately; nil: it is not known
	Stuck   string    `json:",omitzero"` // as Load has it
}

// Load is how busy a shard is.
type Load struct {
	PerSecond *float64 // requests that it decides; nil: it is not known
	Queue     int      // requests that wait, if that is known
	Stuck     string   // the part that keeps it from being written, such as "ledger"; "": none
}

// Measured says how busy a shard of this process is.
func (b *Board) Measured(shard int, l Load) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loads[shard] = l
}

// Loads returns how busy the shards are.
func (b *Board) Loads() []Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.loads)
}

// News says whether a shard of this process has changed, since Told, in a way that matters
// to peers.
func (b *Board) News() bool { return b.news.Load() }

// matters says whether peers should hear soon how a shard stands, and not only when they are
// told something anyway. They go by it when one of their shards is short of units: whether
// this one has some, and roughly how many; of few, how many. A shard that has none left is
// watched closely, for all may be sold.
func matters(told, t ledger.Totals) bool {
	const few = 16
	return t.Available == 0 || t.Available != told.Available && min(t.Available, told.Available) < few || t.Available < told.Available/2 || t.Available/2 > told.Available ||
		(t.InFlight == 0) != (told.InFlight == 0) || t.Epoch != told.Epoch || t.Generation != told.Generation || t.Limit != told.Limit
}

// Told says that peers are about to be told how the shards of this process stand.
func (b *Board) Told() {
	b.news.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	copy(b.told, b.shards)
}

// Reports returns how the shards of this process stand that have changed since the slots
// of told, which it brings up to date; all of them where told is empty.
func (b *Board) Reports(told map[int]uint64) (all []Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, t := range b.shards {
		next, ok := told[i]
		if !b.mine[i] || !b.known[i] || ok && next == b.slots[i] {
			continue
		}
		told[i] = b.slots[i]
		all = append(all, Report{Shard: i, Next: b.slots[i], Totals: t, Release: b.due[i], Queue: b.loads[i].Queue, Load: b.loads[i].PerSecond, Stuck: b.loads[i].Stuck})
	}
	return all
}

// Heard takes in how a shard of another process stands, unless more is known of it.
func (b *Board) Heard(r Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mine[r.Shard] {
		return
	}
	b.loads[r.Shard] = Load{r.Load, r.Queue, r.Stuck} // which changes without a commit, too
	if b.known[r.Shard] && r.Next <= b.slots[r.Shard] {
		return
	}
	b.shards[r.Shard], b.slots[r.Shard], b.due[r.Shard], b.known[r.Shard] = r.Totals, r.Next, r.Release, true
	b.seen[r.Shard] = max(b.seen[r.Shard], r.Next)
	b.settle()
}

// Where shards are of several processes, none can say that all is sold by what is on its
// board: that is as old as messages are. Two things make it sure.
//
// Whoever asks the owners of all shards how they stand, and hears in each answer the slots
// that were on the board when the first was asked, knows that all shards stood so at that
// instant. This is the double collect by which Afek and others take a snapshot of what
// several write (Atomic Snapshots of Shared Memory, 1993).
//
// And whoever answers promises that no unit comes back to its shards for promiseFor: no
// refund, and no generation that brings units. So it stays true for knownFor after the
// first was asked, and is asked again while somebody wants to know, or may come again. Where a unit is about
// to come back nothing is promised any more, so that it waits for promiseFor at most.
// Whoever takes a shard over keeps what the owner before may have promised.
const (
	knownFor   = 250 * time.Millisecond
	promiseFor = 300 * time.Millisecond
	lookEvery  = 100 * time.Millisecond

	// wantedFor is for how long it is looked again after somebody wanted to know: whoever was
	// told NoneNow, since it was not sure then, asks again after a second.
	wantedFor = 2 * time.Second
)

// Unsure says whether to look whether all is sold: it is by what is on the board, and that
// is not known for sure, or not for much longer. It returns the slots behind which the
// shards are.
func (b *Board) Unsure(now clock.Now) (slots []uint64, unsure bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.unsure(now) {
		return nil, false
	}
	return slices.Clone(b.slots), true
}

func (b *Board) unsure(now clock.Now) bool {
	at := b.sureAt.Load()
	return at != nil && b.adds() && (!b.soldOut.Load() || now.Since(*at) >= lookEvery && b.isWanted(now))
}

func (b *Board) isWanted(now clock.Now) bool { return now.Mono < time.Duration(b.wanted.Load()) }

// Due returns when there is News or Unsure will say yes, as far as that is known by now: by
// the monotonic clock; 0: not before something else happens, of which Notify tells.
func (b *Board) Due(now clock.Now) time.Duration {
	if b.News() {
		return now.Mono
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.sureAt.Load()
	switch {
	case b.unsure(now):
		return now.Mono
	case at != nil && b.adds() && b.isWanted(now):
		return at.Mono + lookEvery
	}
	return 0
}

// Sure says that all shards were at these slots at an instant, and that their owners have
// promised since. A commit that becomes known ends it.
func (b *Board) Sure(slots []uint64, at clock.Now) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sure = slots
	b.sureAt.Store(&at)
	b.settle()
}

// Promise promises that no unit comes back to the shards of this process for a while.
// false: one may.
func (b *Board) Promise(now clock.Now) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.Contains(b.returning, true) {
		return false
	}
	for i := range b.promised {
		b.promised[i] = now.Mono + promiseFor
	}
	return true
}

// Owns says that this process has taken a shard over: it keeps what may have been promised.
func (b *Board) Owns(shard int, now clock.Now) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mine) > 1 {
		b.promised[shard] = now.Mono + promiseFor
	}
}

// Return asks whether units may come back to a shard by its next commit, and has nothing
// promised until that is known. It returns the monotonic time from which they may; 0: now.
func (b *Board) Return(shard int, now clock.Now) (at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returning[shard] = true
	if now.Mono < b.promised[shard] {
		return b.promised[shard]
	}
	return 0
}

// Returned says that no unit comes back after all.
func (b *Board) Returned(shard int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returning[shard] = false
}

// Doubt says that it is not known any more how shards of other processes stand: whether
// all is sold is to be looked at again.
func (b *Board) Doubt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sure = nil
	b.settle()
}

// Releases returns when the next hold of each shard is to be released; zero: none is, or it is
// not known.
func (b *Board) Releases() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.due)
}

// Totals returns how the shards stand, of which that is known, by what is on the board.
func (b *Board) Totals() (totals []ledger.Totals, slots []uint64, known []bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.shards), slices.Clone(b.slots), slices.Clone(b.known)
}
