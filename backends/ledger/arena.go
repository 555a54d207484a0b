package ledger

// The memory that claims lie in: texts in an arena, records in chunks, and
// tables that find both. None of it has a pointer in an element, so the garbage
// collector has nothing to trace.

// text names bytes in an arena: chunk, place and length in one word.
type text uint64

// arena keeps short texts, up to maxText bytes each.
type arena struct {
	chunks [][]byte
}

// Place and length each have 16 bits of a text, so a chunk ends where they do.
const maxText = 1<<16 - 1

func (a *arena) put(s string) text {
	switch n := len(a.chunks); {
	case n == 0:
		a.chunks = append(a.chunks, nil) // grows as it fills: most shards stay small
	case len(a.chunks[n-1])+len(s) > maxText:
		a.chunks = append(a.chunks, make([]byte, 0, maxText))
	}
	last := len(a.chunks) - 1
	at := len(a.chunks[last])
	a.chunks[last] = append(a.chunks[last], s...)
	return text(uint64(last)<<32 | uint64(at)<<16 | uint64(len(s)))
}

func (a *arena) bytes(t text) []byte {
	at := int(t >> 16 & 0xffff)
	return a.chunks[t>>32][at : at+int(t&0xffff)]
}

func (a *arena) get(t text) string { return string(a.bytes(t)) }

func (a *arena) equal(t text, s string) bool { return string(a.bytes(t)) == s }

// table finds indexes by the hash of what they stand for. It is open addressing
// over words of half a hash and an index + 1: a miss, which is what a new claim
// and a sold-out sale mostly see, costs one cache line where Go's map costs
// several. Hashes may be alike; whoever asks tells by the thing itself.
//
// Words lie in the order of their hashes, but for those that collide. So a table grows by a
// quarter, which wastes little, and reads and writes it from one end to the other meanwhile.
type table struct {
	words []uint64 // 0 is free
	used  int
}

// spread is half a hash whose every bit depends on the lower ones of what it is made of, as
// of indexes, which are their own hashes. The multiplier is 2^32 over the golden ratio.
func spread(hash uint64) uint32 { return uint32(hash) * 0x9e3779b1 }

// place is the first word in which a hash may be.
func (t *table) place(half uint32) int { return int(uint64(half) * uint64(len(t.words)) >> 32) }

// after is the word that follows a word.
func (t *table) after(p int) int {
	if p++; p == len(t.words) {
		return 0
	}
	return p
}

// find returns the index under a hash for which is returns true.
func (t *table) find(hash uint64, is func(i uint32) bool) (uint32, bool) {
	if t.used == 0 {
		return 0, false
	}
	half := spread(hash)
	for p := t.place(half); t.words[p] != 0; p = t.after(p) {
		w := t.words[p]
		if uint32(w>>32) == half && is(uint32(w)-1) {
			return uint32(w) - 1, true
		}
	}
	return 0, false
}

// add puts an index under a hash.
func (t *table) add(hash uint64, i uint32) {
	if 4*(t.used+1) > 3*len(t.words) {
		t.grow()
	}
	t.put(uint64(spread(hash))<<32 | uint64(i+1))
	t.used++
}

func (t *table) put(word uint64) {
	p := t.place(uint32(word >> 32))
	for t.words[p] != 0 {
		p = t.after(p)
	}
	t.words[p] = word
}

func (t *table) grow() {
	old := t.words
	t.words = make([]uint64, max(16, len(old)+len(old)/4))
	for _, w := range old {
		if w != 0 {
			t.put(w)
		}
	}
}

// clear empties the table and keeps its memory.
func (t *table) clear() {
	if t.used > 0 {
		clear(t.words)
		t.used = 0
	}
}
