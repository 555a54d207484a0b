package ledger

import "hash/maphash"

// Claims are stored as texts and records, both in chunks, and tables that index
// both. No element has a pointer, so the garbage collector has nothing to trace.

// text refers to bytes in texts: chunk, offset and length in one word.
type text uint64

// Offset and length have 16 bits each in a text, which also limits the size of a chunk.
const maxText = 1<<16 - 1

// texts stores short texts of up to maxText bytes each, and hashes texts for the tables. The seed of
// the hashes is new in each process, so nobody can choose texts that collide; nothing depends on its
// value.
type texts struct {
	chunks [][]byte
	seed   maphash.Seed
	mask   uint64 // of hashes; small in tests, so that they collide
}

func (t *texts) put(s string) text {
	switch n := len(t.chunks); {
	case n == 0:
		t.chunks = append(t.chunks, nil) // grows as it fills: most shards stay small
	case len(t.chunks[n-1])+len(s) > maxText:
		t.chunks = append(t.chunks, make([]byte, 0, maxText))
	}
	last := len(t.chunks) - 1
	at := len(t.chunks[last])
	t.chunks[last] = append(t.chunks[last], s...)
	return text(uint64(last)<<32 | uint64(at)<<16 | uint64(len(s)))
}

func (t *texts) bytes(x text) []byte {
	at := int(x >> 16 & 0xffff)
	return t.chunks[x>>32][at : at+int(x&0xffff)]
}

func (t *texts) get(x text) string { return string(t.bytes(x)) }

func (t *texts) equal(x text, s string) bool { return string(t.bytes(x)) == s }

func (t *texts) hash(s string) uint64 { return maphash.String(t.seed, s) & t.mask }

// mix returns the hash of a text that belongs to an element with a hash of its own.
func (t *texts) mix(hash uint64, s string) uint64 {
	return (hash*0x9e3779b97f4a7c15 ^ t.hash(s)) & t.mask
}

// table finds indexes by the hashes of their elements. It uses open addressing over
// words of half a hash and an index + 1. A miss, the usual case for a new claim or a
// sold-out sale, costs one cache line where Go's map costs several. Hashes may collide:
// callers compare the elements.
//
// Words are in the order of their hashes, except for collisions. A table therefore grows by
// a quarter, which wastes little memory, and grow reads and writes it sequentially.
type table struct {
	words []uint64 // 0 is free
	used  int
}

// spread returns half a hash, each bit of which depends on all lower bits of hash, so that it
// suits indexes, which are their own hashes. The multiplier is 2^32 over the golden ratio.
func spread(hash uint64) uint32 { return uint32(hash) * 0x9e3779b1 }

// place returns the index of the first word that may have the hash.
func (t *table) place(half uint32) int { return int(uint64(half) * uint64(len(t.words)) >> 32) }

// after returns the index after p, which wraps around.
func (t *table) after(p int) int {
	if p++; p == len(t.words) {
		return 0
	}
	return p
}

// find returns the index under hash for which is returns true.
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

// add adds an index under hash.
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
