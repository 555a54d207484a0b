package draw

import (
	"bytes"
	"cmp"
	"slices"
)

// Entry is an entry with its value, and the position of its claim in the ledger.
type Entry struct {
	Value, Label Digest
	Shard        int
	Slot         uint64
	Index        int // among the ops of its commit
}

// Compare returns a negative number if e is ranked before other, and a positive one if after.
func (e Entry) Compare(other Entry) int {
	return cmp.Or(bytes.Compare(e.Value[:], other.Value[:]), bytes.Compare(e.Label[:], other.Label[:]))
}

// Lowest keeps the lowest of the entries that are added to it. The result depends neither
// on their order nor on whether another Lowest has reduced them before.
type Lowest struct {
	most    int64
	entries []Entry // fewer than twice most
	cut     bool    // entries[:most] are the lowest so far, sorted
}

// NewLowest returns a Lowest that keeps so many entries.
func NewLowest(most int64) *Lowest { return &Lowest{most: most} }

// Add adds an entry.
func (l *Lowest) Add(e Entry) {
	if l.cut && (l.most == 0 || e.Compare(l.entries[l.most-1]) > 0) {
		return
	}
	if l.entries = append(l.entries, e); int64(len(l.entries)) >= 2*l.most {
		l.Ranked()
		l.cut = true
	}
}

// Ranked returns the lowest entries, the lowest first.
func (l *Lowest) Ranked() []Entry {
	slices.SortFunc(l.entries, Entry.Compare)
	l.entries = l.entries[:min(l.most, int64(len(l.entries)))]
	return l.entries
}
