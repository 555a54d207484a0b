package ownership

import (
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
)

// peers are the other processes of the sale, by id. The lock nodes list them. A peer itself
// reports which shards it owns, and counts as reachable as long as it reports anything.
type peers struct {
	*process
	all           map[string]*peer
	holder        []string      // by shard: the peer that says it owns it
	discoveredAt  time.Duration // monotonic: when the peers were first listed; 0: they are not
	noted         Process       // the note of this process on the lock nodes
	isolatedSince time.Duration // monotonic: since when this process is isolated; 0: it is not
	changedAt     time.Duration // monotonic: when what this process owns changed; 0: peers know
}

// peer is another process of the sale.
type peer struct {
	Process
	note       string        // as the lock nodes have it
	noted      Process       // what that says, decoded
	listed     bool          // the lock nodes have it
	since      time.Duration // monotonic: when they first had it
	up         bool          // there is a link to it
	dialed     bool          // or one is being made
	lastSeen   time.Duration // monotonic: when something last came from it
	reached    time.Duration // monotonic: the same, while there was a link to it
	reported   *string       // its state by its own updates
	reportedAt time.Duration
	owns       map[int]uint64 // epoch by shard
	traffic    *Traffic       // nil: it is not known
	sent       map[int]uint64 // by shard: the slot of the last report that it was sent
}

// A peer is sent an update every beatEvery, all reports every allEvery, and news within updateEvery.
// It counts as away when it has been silent for silentAfter, so that the shards of a process that
// has died are served again about a ttl and a second later, when its leases have expired, too. What
// a peer reports of its own state overrides its note on the lock nodes for reportedFor.
const (
	beatEvery   = 250 * time.Millisecond
	allEvery    = time.Second
	UpdateEvery = 20 * time.Millisecond
	silentAfter = 900 * time.Millisecond
	reportedFor = 2 * time.Second

	// GoneAfter is the silence after which a peer that the lock nodes still list is assigned nothing:
	// it has died, or it cannot be reached at the address in its note. A process that starts waits
	// as long for the peers that it discovers.
	GoneAfter = 5 * time.Second

	// unreachedAfter is the silence after which a listed peer counts as not reached. Lock nodes with
	// the default ttl have dropped a dead process by then, and notes change before GoneAfter.
	unreachedAfter = 4 * time.Second
)

// begin begins a session with n shards and no peers.
func (p *peers) begin(n int) {
	*p = peers{process: p.process, all: make(map[string]*peer), holder: make([]string, n)}
}

// ids returns the ids of all peers, in order.
func (p *peers) ids() []string { return slices.Sorted(maps.Keys(p.all)) }

// reaches returns how many processes this one reaches, itself included, and how many count: those, and
// the listed ones that it has not reached for unreachedAfter. One that has been silent for less may
// have died. The processes that were listed when this one started count at once. A link alone does
// not count: a link to the record of a dead process, at whose address another one runs, is made and
// refused again and again.
func (ps *peers) reaches(now clock.Now) (reached, counted int) {
	counted, reached = 1, 1
	for _, p := range ps.all {
		switch {
		case !p.listed:
		case p.up && p.reached != 0 && now.Mono < p.reached+silentAfter:
			counted++
			reached++
		case p.reached == 0 && p.since == ps.discoveredAt, now.Mono >= max(p.reached, p.since)+unreachedAfter:
			counted++
		}
	}
	return reached, counted
}

// isolated reports whether this process reaches fewer than half of the listed processes, while a peer
// that it has not reached for GoneAfter reaches half or more. It may be listed under a wrong address,
// or be unable to make links. Clients would reach its shards through this process alone, so it takes
// no others, and releases those it owns after a ttl. A dead peer is not listed for so long. Of two
// processes that do not reach each other each reaches half, and neither is isolated.
func (ps *peers) isolated(now clock.Now) bool {
	if ps.noted.Linked {
		return false
	}
	for _, p := range ps.all {
		if p.listed && p.State == "" && p.Linked && (p.reached == 0 || now.Mono >= p.reached+GoneAfter) {
			return true
		}
	}
	return false
}

// isolatedTooLong notes since when this process is isolated, and reports whether it has been for a
// ttl, so that it releases its shards.
func (ps *peers) isolatedTooLong(now clock.Now) bool {
	switch {
	case !ps.isolated(now):
		ps.isolatedSince = 0
	case ps.isolatedSince == 0:
		ps.isolatedSince = now.Mono
	}
	return ps.isolatedSince != 0 && now.Mono >= ps.isolatedSince+ps.ttl
}

// linked takes in that the link to a peer was made (up) or cut.
func (ps *peers) linked(now clock.Now, id string, up bool) {
	p := ps.all[id]
	if p == nil {
		return
	}
	if p.up = up; up {
		p.lastSeen = now.Mono
		clear(p.sent)
		ps.changedAt = now.Mono
		return
	}
	ps.forgetOwned(id)
}

// forgetOwned forgets which shards a peer owns.
func (ps *peers) forgetOwned(id string) {
	for i := range ps.holder {
		if ps.holder[i] == id {
			ps.holder[i] = ""
		}
	}
	clear(ps.all[id].owns)
}

// isUp reports whether there is a link to a peer, and the peer has sent something within
// silentAfter.
func (ps *peers) isUp(now clock.Now, id string) bool {
	p := ps.all[id]
	return p != nil && p.up && now.Mono < p.lastSeen+silentAfter
}

// ownerOf returns the reachable peer that reports to own a shard, "" if there is none.
func (ps *peers) ownerOf(now clock.Now, i int) string {
	if id := ps.holder[i]; id != "" && ps.isUp(now, id) {
		return id
	}
	return ""
}

// Reach is which processes of the sale this process reaches.
type Reach struct {
	Peers    []PeerReach
	Isolated bool // see isolated
	Reached  int  // processes, with this one
	Counted  int  // processes that should be reached, with this one
	TTL      time.Duration
}

// PeerReach is one of the peers of Reach.
type PeerReach struct {
	ID, Address string
	Up          bool
	Since       time.Duration // monotonic: when a listed peer was last reached, or could first have been; 0: it is not listed
}

// reach returns which processes this one reaches.
func (ps *peers) reach(now clock.Now) (r Reach) {
	for _, id := range ps.ids() {
		p := ps.all[id]
		one := PeerReach{ID: id, Address: p.Address, Up: ps.isUp(now, id)}
		if p.listed {
			one.Since = max(p.reached, ps.discoveredAt)
		}
		r.Peers = append(r.Peers, one)
	}
	r.Isolated, r.TTL = ps.isolated(now), ps.ttl
	r.Reached, r.Counted = ps.reaches(now)
	return r
}

// lost reports whether a process could be reached before and cannot be now.
func (ps *peers) lost(now clock.Now, id string) bool {
	p := ps.all[id]
	return p != nil && p.lastSeen != 0 && !ps.isUp(now, id)
}
