package request

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Underway is a table of a shard's tickets that came with a key and have no answer yet, with or without
// a requester. While it has a ticket, no other request of the same user and key may be answered that
// the claim is not accepted.
//
// All methods are safe for concurrent use.
type Underway struct {
	mu         sync.Mutex
	lists      []*Ticket    // by the low bits of Ticket.hash, linked by Ticket.next; a power of two of them
	size       atomic.Int64 // of tickets; written under mu
	lastNumber uint64       // tickets in all
}

// requestKey is what one request has in common with its repetitions.
type requestKey struct{ user, key string }

func (r *Request) requestKey() requestKey { return requestKey{r.User, r.Key} }

var hashSeed = maphash.MakeSeed()

// hash returns the hash of a key in the table Underway.
func (k requestKey) hash() uint64 {
	return maphash.String(hashSeed, k.user)*0x9e3779b97f4a7c15 ^ maphash.String(hashSeed, k.key)
}

// Len returns how many tickets the table has.
func (u *Underway) Len() int { return int(u.size.Load()) }

// Conclude removes a ticket that has an answer, unless its request is to be decided again. It reports
// whether a request of the same user and key that entered before is still under way.
func (u *Underway) Conclude(t *Ticket) (earlier bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.removeAnswered(t)
	return u.hasBefore(t)
}

// enter adds a ticket. The ticket of a request that is decided again replaces the earlier one.
func (u *Underway) enter(t *Ticket) {
	t.hash = t.requestKey().hash()
	u.mu.Lock()
	defer u.mu.Unlock()
	if int(u.size.Load()) == len(u.lists) {
		u.grow()
	}
	before := t.before
	t.before = nil
	if before != nil && u.exchange(before, t) {
		t.next, t.number = before.next, before.number
		before.next, before.retained = nil, false
		return
	}
	u.size.Add(1)
	u.lastNumber++
	list := u.list(t.hash)
	t.number, t.next, *list = u.lastNumber, *list, t
}

// list returns the list of the tickets with a hash. mu is held.
func (u *Underway) list(hash uint64) **Ticket { return &u.lists[hash&uint64(len(u.lists)-1)] }

// grow doubles the number of lists. mu is held.
func (u *Underway) grow() {
	old := u.lists
	u.lists = make([]*Ticket, max(64, 2*len(old)))
	for _, t := range old {
		for t != nil {
			list, next := u.list(t.hash), t.next
			t.next, *list, t = *list, t, next
		}
	}
}

// exchange puts a ticket or nil in the place of another one. It returns false if the table does not have that
// one. mu is held.
func (u *Underway) exchange(before, t *Ticket) bool {
	for at := u.list(before.hash); *at != nil; at = &(*at).next {
		if *at == before {
			*at = t
			return true
		}
	}
	return false
}

// removeAnswered removes a ticket that has an answer, unless its request is to be decided again. mu is
// held.
func (u *Underway) removeAnswered(t *Ticket) {
	if t.retained = t.Answer.OtherRules && !t.fromPeer && !t.abandoned; !t.retained {
		u.remove(t)
	}
}

// Abandon records that the requester of a ticket has gone, so that the request is not decided again.
func (u *Underway) Abandon(t *Ticket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t.abandoned = true
	if t.retained {
		t.retained = false
		u.remove(t)
	}
}

// Withdraw withdraws a claim that a peer has forwarded under an id, and returns its ticket; nil: there is none
// of the user and key, or it is being decided. superseded is that of Ticket.MarkFromPeer.
func (u *Underway) Withdraw(user, key string, id uint64, superseded *atomic.Bool) *Ticket {
	u.mu.Lock() // a ticket is in the table until it may be freed
	defer u.mu.Unlock()
	if u.lists == nil {
		return nil
	}
	wanted := requestKey{user, key}
	for t := *u.list(wanted.hash()); t != nil; t = t.next {
		if t.requestKey() == wanted && t.superseded == superseded && t.ForwardID == id && t.Withdraw() {
			return t
		}
	}
	return nil
}

// Leave removes a ticket that is in the table, and will not be decided.
func (u *Underway) Leave(t *Ticket) {
	u.mu.Lock()
	u.remove(t)
	u.mu.Unlock()
}

// remove removes a ticket that is in the table. mu is held.
func (u *Underway) remove(t *Ticket) {
	u.exchange(t, t.next)
	t.next = nil
	u.size.Add(-1)
}

// Has reports whether another request of the same user and key is under way.
func (u *Underway) Has(r *Request) bool {
	if u.size.Load() == 0 {
		return false
	}
	key := r.requestKey()
	hash := key.hash()
	u.mu.Lock()
	defer u.mu.Unlock()
	for t := *u.list(hash); t != nil; t = t.next {
		if t != r.before && t.requestKey() == key {
			return true
		}
	}
	return false
}

// hasBefore reports whether a request of the same user and key entered before a ticket and is under way.
// mu is held.
func (u *Underway) hasBefore(t *Ticket) bool {
	at := *u.list(t.hash)
	for at != nil && (at.number >= t.number || at.requestKey() != t.requestKey()) {
		at = at.next
	}
	return at != nil
}

// Doubts remembers requests that were answered with Unknown, or that a node may have received without a
// reply: each may have been accepted, or may be yet. Doubts belong to the process and outlive sessions. A
// doubt on a shard ends when this process has taken the shard over, and so has read its log behind
// everything that it ever sent there. With a list, it ends when the list was filled again. All methods
// are safe for concurrent use.
type Doubts struct {
	n atomic.Int64 // number of all doubts, so that readers seldom need mu

	mu     sync.Mutex
	uid    string // of the run of the doubts
	shards map[int]map[requestKey]struct{}
}

// AnyKey denotes all requests of a user. A request that has no key of its own gets
// one that nobody else has, so that none is known by this one.
const AnyKey = ""

// maxDoubts bounds the doubts of one shard: with that many, everything on it is in doubt. They arise at
// the rate of requests to a node that does not reply, about a thousand a second.
const maxDoubts = 100_000

// Len returns how many requests are in doubt.
func (d *Doubts) Len() int64 { return d.n.Load() }

// Add remembers a request of a shard.
func (d *Doubts) Add(uid string, shard int, user, key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uid != uid {
		d.uid, d.shards = uid, nil
		d.n.Store(0)
	}
	if d.shards == nil {
		d.shards = make(map[int]map[requestKey]struct{})
	}
	all := d.shards[shard]
	if all == nil {
		all = make(map[requestKey]struct{})
		d.shards[shard] = all
	}
	if _, known := all[requestKey{user, key}]; !known && len(all) < maxDoubts {
		all[requestKey{user, key}] = struct{}{}
		d.n.Add(1)
	}
}

// Has reports whether a request is in doubt, on whichever shard.
func (d *Doubts) Has(user, key string) bool {
	if d.n.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, all := range d.shards {
		if len(all) == maxDoubts {
			return true
		}
		for _, key := range [...]string{key, AnyKey} {
			if _, known := all[requestKey{user, key}]; known {
				return true
			}
		}
	}
	return false
}

// Drop forgets a request whose outcome is known now.
func (d *Doubts) Drop(shard int, user, key string) {
	if d.n.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.shards[shard]
	if _, known := all[requestKey{user, key}]; known && len(all) < maxDoubts {
		delete(all, requestKey{user, key})
		d.n.Add(-1)
	}
}

// forget forgets the doubts of a shard, and all of other runs.
func (d *Doubts) forget(uid string, shard int) {
	if d.n.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uid != uid {
		d.shards = nil
		d.n.Store(0)
		return
	}
	d.n.Add(-int64(len(d.shards[shard])))
	delete(d.shards, shard)
}
