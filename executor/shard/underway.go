package shard

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// underway has the requests of a shard that came with a key and have no answer
// yet, whether anybody still waits for it or not. While one is there, another
// request of the same user and key must not hear that the claim is not accepted.
//
// It is a hash table of the tickets themselves, so that to enter and to leave it
// costs a claim no allocation. All methods are safe for concurrent use.
type underway struct {
	mu      sync.Mutex
	buckets []*Ticket    // each the newest of a chain by ticket.older; a power of two of them
	n       atomic.Int64 // of tickets; written under mu
	entered uint64       // tickets in all
}

// leastBuckets is how many there are at first.
const leastBuckets = 64

var underwaySeed = maphash.MakeSeed()

func hashOf(user, key string) uint64 {
	return maphash.String(underwaySeed, user)*0x9e3779b97f4a7c15 ^ maphash.String(underwaySeed, key)
}

func (u *underway) at(hash uint64) **Ticket { return &u.buckets[hash&uint64(len(u.buckets)-1)] }

// enter adds a ticket. One of a request that is decided again takes the place of the one before.
func (u *underway) enter(t *Ticket) {
	t.hash = hashOf(t.User, t.Key)
	u.mu.Lock()
	defer u.mu.Unlock()
	before := t.before
	t.before = nil
	if before != nil && u.replace(before, t) {
		return
	}
	if int(u.n.Load()) == len(u.buckets) {
		u.grow()
	}
	u.n.Add(1)
	u.entered++
	t.number = u.entered
	first := u.at(t.hash)
	t.older, *first = *first, t
}

// replace has a ticket take the place of another, which has an answer; false: that is not here.
// mu is held.
func (u *underway) replace(before, t *Ticket) bool {
	if u.n.Load() == 0 {
		return false
	}
	for at := u.at(t.hash); *at != nil; at = &(*at).older {
		if *at == before {
			*at, t.older, t.number = t, before.older, before.number
			before.older, before.stays = nil, false
			return true
		}
	}
	return false
}

// answered takes a ticket out that has an answer, unless its request is to be decided again.
// mu is held.
func (u *underway) answered(t *Ticket) {
	if t.stays = t.answer.OtherRules && !t.fromPeer && !t.forsaken; !t.stays {
		u.remove(t)
	}
}

// forsake takes in that nobody waits for a ticket any more, so that it is not decided again.
func (u *underway) forsake(t *Ticket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t.forsaken = true
	if t.stays {
		t.stays = false
		u.remove(t)
	}
}

// grow doubles the buckets. They are never fewer again: a queue is bounded.
func (u *underway) grow() {
	old := u.buckets
	u.buckets = make([]*Ticket, max(leastBuckets, 2*len(old)))
	for _, t := range old {
		for t != nil {
			next, first := t.older, u.at(t.hash)
			t.older, *first = *first, t
			t = next
		}
	}
}

// leave removes a ticket, which was there.
func (u *underway) leave(t *Ticket) {
	u.mu.Lock()
	u.remove(t)
	u.mu.Unlock()
}

func (u *underway) remove(t *Ticket) {
	at := u.at(t.hash)
	for *at != t {
		at = &(*at).older
	}
	*at, t.older = t.older, nil
	u.n.Add(-1)
}

// has says whether another request of the same user and key is under way.
func (u *underway) has(r *Request) bool {
	if u.n.Load() == 0 {
		return false
	}
	hash := hashOf(r.User, r.Key)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.hasOther(r.User, r.Key, hash, u.entered+1, r.before)
}

// hasBefore says the same of those that entered before the one of that number.
func (u *underway) hasBefore(user, key string, hash, number uint64) bool {
	return u.hasOther(user, key, hash, number, nil)
}

func (u *underway) hasOther(user, key string, hash, number uint64, but *Ticket) bool {
	if u.n.Load() == 0 {
		return false
	}
	for t := *u.at(hash); t != nil; t = t.older {
		if t != but && t.hash == hash && t.number < number && t.User == user && t.Key == key {
			return true
		}
	}
	return false
}
