package explore

import "hash/maphash"

// table finds the number of a state among those seen. It keeps numbers only, so that
// each state is in memory once.
type table[S comparable] struct {
	seed  maphash.Seed
	slots []int32 // the number of a state + 1; 0: free
	count int
}

func newTable[S comparable]() *table[S] {
	return &table[S]{seed: maphash.MakeSeed(), slots: make([]int32, 1<<10)}
}

// find returns the number of s among states. If s is not among them it is given the
// next number, unless the table is full at limit states: then the number is -1.
func (t *table[S]) find(s S, states []S, limit int) (number int32, known bool) {
	mask := uint64(len(t.slots) - 1)
	at := maphash.Comparable(t.seed, s) & mask
	for ; t.slots[at] != 0; at = (at + 1) & mask {
		if i := t.slots[at] - 1; states[i] == s {
			return i, true
		}
	}
	if t.count == limit {
		return -1, false
	}
	t.slots[at] = int32(len(states)) + 1
	if t.count++; t.count*2 > len(t.slots) {
		t.grow(states, s)
	}
	return int32(len(states)), false
}

// grow doubles the table. The state that was given a number last is not in states yet.
func (t *table[S]) grow(states []S, last S) {
	t.slots = make([]int32, 2*len(t.slots))
	mask := uint64(len(t.slots) - 1)
	put := func(s S, i int) {
		at := maphash.Comparable(t.seed, s) & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = int32(i) + 1
	}
	for i, s := range states {
		put(s, i)
	}
	put(last, len(states))
}
