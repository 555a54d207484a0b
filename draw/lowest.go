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
	most int64
	heap []Entry // the highest of them first
}

// NewLowest keeps so many.
func NewLowest(most int64) *Lowest { return &Lowest{most: most} }

// Add gives it an entry.
func (l *Lowest) Add(e Entry) {
	switch {
	case int64(len(l.heap)) < l.most:
		l.heap = append(l.heap, e)
		l.up()
	case l.most > 0 && e.Compare(l.heap[0]) < 0:
		l.heap[0] = e
		l.down()
	}
}

func (l *Lowest) up() {
	for at := len(l.heap) - 1; at > 0; {
		parent := (at - 1) / 2
		if l.heap[at].Compare(l.heap[parent]) < 0 {
			return
		}
		l.heap[at], l.heap[parent] = l.heap[parent], l.heap[at]
		at = parent
	}
}

func (l *Lowest) down() {
	for at := 0; ; {
		child := 2*at + 1
		if child+1 < len(l.heap) && l.heap[child].Compare(l.heap[child+1]) < 0 {
			child++
		}
		if child >= len(l.heap) || l.heap[child].Compare(l.heap[at]) < 0 {
			return
		}
		l.heap[at], l.heap[child] = l.heap[child], l.heap[at]
		at = child
	}
}

// Ranked returns them, the lowest first. Lowest is of no use afterwards.
func (l *Lowest) Ranked() []Entry {
	slices.SortFunc(l.heap, Entry.Compare)
	return l.heap
}
