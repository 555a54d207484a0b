package shard

import (
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// Report is the state of a shard as known to a process, and as its owner reports it to other processes.
type Report struct {
	Shard         int
	Next          uint64 // the slot behind the last that Totals includes; 0: Totals and Release are not known
	ledger.Totals `json:"Totals"`
	Release       time.Time `json:",omitzero"` // when the next of its holds is to be released; zero: none is
	Load
}

// Load is how busy a shard is.
type Load struct {
	PerSecond *float64 `json:",omitzero"` // requests decided a second, lately; nil: it is not known
	Queue     int      `json:",omitzero"` // requests that wait, if that is known
	Stuck     string   `json:",omitzero"` // the part that keeps it from being written, such as "ledger"; "": none
}

// Measured sets the load of a shard of this process.
func (b *SaleTotals) Measured(shard int, l Load) {
	b.update(shard, func(s *shardEntry) { s.Load = l })
}

// Changed reports whether a shard of this process has changed, since Reported, in a way that matters to
// peers.
func (b *SaleTotals) Changed() bool { return b.changed.Load() }

// worthReporting reports whether peers need the totals t soon, and not only with the next message; reported
// are the totals last reported. Peers use them when one of their shards is short of units: whether this
// shard has some, and roughly how many; if few, exactly how many. A shard that has none left always
// counts, for all may be sold.
func worthReporting(reported, t ledger.Totals) bool {
	const few = 16
	return t.Available == 0 || t.Available != reported.Available && min(t.Available, reported.Available) < few || t.Available < reported.Available/2 || t.Available/2 > reported.Available ||
		(t.InFlight == 0) != (reported.InFlight == 0) || t.Epoch != reported.Epoch || t.Generation != reported.Generation || t.Limit != reported.Limit
}

// Reported records that reports are about to be sent to peers.
func (b *SaleTotals) Reported() {
	b.changed.Store(false)
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		b.shards[i].reported = b.shards[i].Totals
	}
}

// Reports returns the reports of this process's shards that have changed since the slots in sent, which
// it updates; all of them if sent is empty.
func (b *SaleTotals) Reports(sent map[int]uint64) (all []Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.shards {
		s := &b.shards[i]
		next, ok := sent[i]
		if !s.owned || s.Next == 0 || ok && next == s.Next {
			continue
		}
		sent[i] = s.Next
		all = append(all, s.Report)
	}
	return all
}

// Receive records the report of another process, unless a newer one is known.
func (b *SaleTotals) Receive(r Report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shards[r.Shard]
	if s.owned {
		return
	}
	s.Load = r.Load // which changes without a commit, too
	if r.Next <= s.Next {
		return
	}
	s.Report = r
	s.seen = max(s.seen, r.Next)
	b.recompute()
}

// Where several processes own the shards, totals alone do not prove that all is sold: those of other
// processes are as old as their messages. The proof has two parts.
//
// A process requests the totals of all shards from their owners. If each reply has the slot known to
// the process when it sent the first request, then all shards had these totals at that instant. This
// is the double collect by which Afek and others take a snapshot of several writers (Atomic Snapshots
// of Shared Memory, 1993).
//
// An owner that replies promises that no unit comes back to its shards for promiseFor: by no refund,
// and by no generation with more units. So the proof holds for proofFor after the first request, and
// is renewed while AllSold is called. While a unit is about to come back an owner promises nothing,
// so that the unit waits for promiseFor at most. A process that takes a shard over keeps the promises
// of the owner before it.
const (
	proofFor   = 250 * time.Millisecond
	promiseFor = 300 * time.Millisecond
	proveEvery = 100 * time.Millisecond

	// queriedFor is for how long the proof is renewed after a call of AllSold: a client that got NoneNow
	// for want of a proof repeats its request after a second.
	queriedFor = 2 * time.Second
)

// NeedsProof reports whether a proof that all is sold is due: the totals add up, and there is no
// proof, or it expires soon. It returns the slots of the totals.
func (b *SaleTotals) NeedsProof(now clock.Now) (slots []uint64, unsure bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.needsProof(now) {
		return nil, false
	}
	for i := range b.shards {
		slots = append(slots, b.shards[i].Next)
	}
	return slots, true
}

func (b *SaleTotals) needsProof(now clock.Now) bool {
	at := b.provenAt.Load()
	return at != nil && b.addsUp() && (!b.soldOut.Load() || now.Since(*at) >= proveEvery && b.isQueried(now))
}

func (b *SaleTotals) isQueried(now clock.Now) bool {
	return now.Mono < time.Duration(b.queriedUntil.Load())
}

// Due returns the monotonic time from which Changed is true or a proof is due; 0: not before Notify is
// called.
func (b *SaleTotals) Due(now clock.Now) time.Duration {
	if b.Changed() {
		return now.Mono
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.provenAt.Load()
	switch {
	case b.needsProof(now):
		return now.Mono
	case at != nil && b.addsUp() && b.isQueried(now):
		return at.Mono + proveEvery
	}
	return 0
}

// SetProof records that all shards were at these slots at an instant, and that their owners have promised.
// The next commit that becomes known ends the proof.
func (b *SaleTotals) SetProof(slots []uint64, at clock.Now) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.provenSlots = slots
	b.provenAt.Store(&at)
	b.recompute()
}

// PromiseNoReturn promises that no unit comes back to the shards of this process for promiseFor. It
// returns false, and promises nothing, if one may.
func (b *SaleTotals) PromiseNoReturn(now clock.Now) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.ContainsFunc(b.shards, func(s shardEntry) bool { return s.returning }) {
		return false
	}
	for i := range b.shards {
		b.shards[i].promised = now.Mono + promiseFor
	}
	return true
}

// TakeOver records that this process has taken a shard over. It keeps the promises that the owner before
// may have made.
func (b *SaleTotals) TakeOver(shard int, now clock.Now) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.shards) > 1 {
		b.shards[shard].promised = now.Mono + promiseFor
	}
}

// BeginReturn announces that units may come back to a shard by its next commit, and ends promises
// until EndReturn or that commit. It returns the monotonic time from which they may; 0: now.
func (b *SaleTotals) BeginReturn(shard int, now clock.Now) (at time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shards[shard]
	s.returning = true
	if now.Mono < s.promised {
		return s.promised
	}
	return 0
}

// EndReturn records that no unit comes back after all.
func (b *SaleTotals) EndReturn(shard int) {
	b.update(shard, func(s *shardEntry) { s.returning = false })
}

// ForgetProof records that the totals of other processes' shards are unknown: a new proof is due.
func (b *SaleTotals) ForgetProof() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.provenSlots = nil
	b.recompute()
}

// Shards returns what is known of each shard.
func (b *SaleTotals) Shards() []Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Report, len(b.shards))
	for i := range b.shards {
		all[i] = b.shards[i].Report
	}
	return all
}
