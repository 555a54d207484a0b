package ledger

import (
	"hash/maphash"
	"sort"
)

// claims remembers every accepted claim of a shard: who has what, and what each
// request was answered. It holds a million of them at under 300 bytes each and
// without a pointer in a record, so that the garbage collector has nothing to
// trace: texts lie in arenas, records in chunks, and both are named by index.
//
// Two maps lead in, from the hash of a user and from the hash of a request. A
// hash that two of them share makes a chain in the records, and the texts
// decide. The seed is drawn anew in each process, so nobody can choose
// colliding names; nothing depends on its value.
type claims struct {
	seed    maphash.Seed
	byUser  map[uint64]uint32 // to the newest record of that hash, +1
	byKey   map[uint64]uint32
	users   chunked[userRecord]
	records chunked[claimRecord]
	text    arena
	times   []int64 // of each slot, in microseconds since 1970

	// The few claims whose units are not one run, and those that are held.
	scattered map[uint32][]int64
	heldUntil map[uint32]int64
}

type userRecord struct {
	name  text
	same  uint32 // the next user of the same hash, +1
	last  uint32 // the user's newest claim, +1
	units int64  // held and sold
}

type claimRecord struct {
	key   text
	user  uint32
	prev  uint32 // the user's claim before this one, +1
	same  uint32 // the next claim of the same hash, +1
	slot  uint32
	index uint32 // among the ops of the commit
	count int32  // of units
	first int64  // lowest unit, the others follow; see scattered
	state ClaimState
}

// ClaimState is where a claim stands. All but Held are terminal.
type ClaimState uint8

// The states of a claim.
const (
	StateSold ClaimState = iota
	StateHeld
	StateCancelled
	StateExpired
)

func (s ClaimState) String() string {
	return [...]string{"sold", "held", "cancelled", "expired"}[s]
}

// Claim is one accepted claim as its log has it.
type Claim struct {
	Slot        uint64
	Index       int // among the ops of the commit
	User        string
	Key         string
	Units       []int64
	State       ClaimState
	TimeUs      int64 // of its commit
	HeldUntilUs int64 // 0: never held
}

func newClaims() claims {
	return claims{
		seed:      maphash.MakeSeed(),
		byUser:    make(map[uint64]uint32),
		byKey:     make(map[uint64]uint32),
		scattered: make(map[uint32][]int64),
		heldUntil: make(map[uint32]int64),
	}
}

// findUser returns the index of a user, if there is one.
func (c *claims) findUser(user string) (uint32, bool) {
	for i := c.byUser[maphash.String(c.seed, user)]; i != 0; {
		r := c.users.at(i - 1)
		if c.text.equal(r.name, user) {
			return i - 1, true
		}
		i = r.same
	}
	return 0, false
}

// unitsOf returns how many units a user has, held and sold.
func (c *claims) unitsOf(user string) int64 {
	if i, ok := c.findUser(user); ok {
		return c.users.at(i).units
	}
	return 0
}

// find returns the index of the claim that a request was given, if it was.
func (c *claims) find(user, key string) (uint32, bool) {
	for i := c.byKey[c.identity(user, key)]; i != 0; {
		r := c.records.at(i - 1)
		if c.text.equal(r.key, key) && c.text.equal(c.users.at(r.user).name, user) {
			return i - 1, true
		}
		i = r.same
	}
	return 0, false
}

func (c *claims) identity(user, key string) uint64 {
	return maphash.String(c.seed, user)*0x9e3779b97f4a7c15 ^ maphash.String(c.seed, key)
}

// insert remembers a new claim. Its identity must be new.
func (c *claims) insert(slot uint64, index int, user, key string, units []int64, heldUntilUs int64) {
	u, ok := c.findUser(user)
	if !ok {
		h := maphash.String(c.seed, user)
		u = c.users.add(userRecord{name: c.text.put(user), same: c.byUser[h]})
		c.byUser[h] = u + 1
	}
	owner := c.users.at(u)
	h := c.identity(user, key)
	r := claimRecord{
		key: c.text.put(key), user: u, prev: owner.last, same: c.byKey[h],
		slot: uint32(slot), index: uint32(index), count: int32(len(units)), first: units[0],
	}
	if heldUntilUs != 0 {
		r.state = StateHeld
	}
	i := c.records.add(r)
	c.byKey[h] = i + 1
	owner.last = i + 1
	owner.units += int64(len(units))
	for j, unit := range units {
		if unit != units[0]+int64(j) {
			c.scattered[i] = append([]int64(nil), units...)
			break
		}
	}
	if heldUntilUs != 0 {
		c.heldUntil[i] = heldUntilUs
	}
}

// at returns a claim in full.
func (c *claims) at(i uint32) Claim {
	r := c.records.at(i)
	return Claim{
		Slot: uint64(r.slot), Index: int(r.index),
		User: c.text.get(c.users.at(r.user).name), Key: c.text.get(r.key),
		Units: c.units(i), State: r.state, TimeUs: c.times[r.slot], HeldUntilUs: c.heldUntil[i],
	}
}

func (c *claims) units(i uint32) []int64 {
	if units, ok := c.scattered[i]; ok {
		return append([]int64(nil), units...)
	}
	r := c.records.at(i)
	units := make([]int64, r.count)
	for j := range units {
		units[j] = r.first + int64(j)
	}
	return units
}

// ofUser returns the claims of a user in the order of their acceptance.
func (c *claims) ofUser(user string) []Claim {
	u, ok := c.findUser(user)
	if !ok {
		return nil
	}
	var out []Claim
	for i := c.users.at(u).last; i != 0; i = c.records.at(i - 1).prev {
		out = append(out, c.at(i-1))
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// locate returns the index of the claim at a place in the log.
func (c *claims) locate(slot uint64, index int) (uint32, bool) {
	n := c.records.len()
	i := sort.Search(n, func(i int) bool {
		r := c.records.at(uint32(i))
		return uint64(r.slot) > slot || uint64(r.slot) == slot && int(r.index) >= index
	})
	if i == n {
		return 0, false
	}
	r := c.records.at(uint32(i))
	return uint32(i), uint64(r.slot) == slot && int(r.index) == index
}

// text names bytes in an arena: place and length in one word.
type text uint64

// arena keeps short texts, at most 64 KiB each, in chunks of as much.
type arena struct {
	chunks [][]byte
}

const arenaChunk = 1 << 16

func (a *arena) put(s string) text {
	switch n := len(a.chunks); {
	case n == 0:
		a.chunks = append(a.chunks, nil) // grows as it fills: most shards stay small
	case len(a.chunks[n-1])+len(s) > arenaChunk:
		a.chunks = append(a.chunks, make([]byte, 0, arenaChunk))
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

// chunked is a list that copies nothing when it grows beyond its first chunk.
// A pointer into it is good until the next add.
type chunked[T any] struct {
	chunks [][]T
}

const chunkLen = 1 << 10

func (l *chunked[T]) len() int {
	if len(l.chunks) == 0 {
		return 0
	}
	return (len(l.chunks)-1)*chunkLen + len(l.chunks[len(l.chunks)-1])
}

func (l *chunked[T]) at(i uint32) *T { return &l.chunks[i/chunkLen][i%chunkLen] }

func (l *chunked[T]) add(v T) uint32 {
	n := l.len()
	switch {
	case n == 0:
		l.chunks = append(l.chunks, nil) // grows as it fills: most shards stay small
	case n%chunkLen == 0:
		l.chunks = append(l.chunks, make([]T, 0, chunkLen))
	}
	last := len(l.chunks) - 1
	l.chunks[last] = append(l.chunks[last], v)
	return uint32(n)
}
