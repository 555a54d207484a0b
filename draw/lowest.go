package draw

import (
	"bytes"
	"cmp"
	"slices"
)

// Entry is an entry with its value, and the place of its claim in the ledger.
type Entry struct {
	Value, Label Digest
	Shard        int
	Slot         uint64
	Index        int // among the ops of its commit
}

// Compare says which of two entries is ranked first.
func (e Entry) Compare(other Entry) int {
	return cmp.Or(bytes.Compare(e.Value[:], other.Value[:]), bytes.Compare(e.Label[:], other.Label[:]))
}

// Lowest keeps the lowest entries of those that it is given. Whichever order they come
// in, and whether they were thinned out by others of its kind before, the lowest are the
// same.
type Lowest struct {
	most    int64
	entries []Entry // fewer than twice as many
	cut     bool    // the first most are the lowest so far, sorted
}

// NewLowest keeps so many.
func NewLowest(most int64) *Lowest { return &Lowest{most: most} }

// Add gives it an entry.
func (l *Lowest) Add(e Entry) {
	if l.cut && (l.most == 0 || e.Compare(l.entries[l.most-1]) > 0) {
		return
	}
	if l.entries = append(l.entries, e); int64(len(l.entries)) >= 2*l.most {
		l.Ranked()
		l.cut = true
	}
}

// Ranked returns them, the lowest first.
func (l *Lowest) Ranked() []Entry {
	slices.SortFunc(l.entries, Entry.Compare)
	l.entries = l.entries[:min(l.most, int64(len(l.entries)))]
	return l.entries
}
