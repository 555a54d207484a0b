package ownership

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/executor/status"
)

// peers are the other processes of the sale, by id. The lock nodes list them. Each peer reports
// which shards it owns, and is reachable as long as it reports.
type peers struct {
	*process
	all           map[string]*peer
	holder        []string      // by shard: peer that reports to own it
	discoveredAt  time.Duration // monotonic: time of the first list of peers; 0: none yet
	noted         Process       // note of this process on the lock nodes
	isolatedSince time.Duration // monotonic: start of the isolation of this process; 0: it is not isolated
	changedAt     time.Duration // monotonic: time of the last change that peers have not been sent; 0: none
}

// peer is another process of the sale.
type peer struct {
	Process
	listed     bool          // it is in the lock nodes' list
	since      time.Duration // monotonic: time at which it was first listed
	up         bool          // it is linked
	lastSeen   time.Duration // monotonic: time of its last update or link
	reached    time.Duration // monotonic: time of its last update over a link
	reported   *string       // state in its last update with a new state
	reportedAt time.Duration
	owns       map[int]uint64 // epoch by shard
	traffic    *Traffic       // nil: unknown
	sent       map[int]uint64 // by shard: slot of the last report sent to it
}

// A peer is sent an update every beatEvery, all reports every allEvery, and changes within
// UpdateEvery. It is unreachable after a silence of silentAfter. So the shards of a dead process
// are served again about a ttl and a second later, when its leases have expired, too. A peer's own
// report of its state overrides its note on the lock nodes for reportedFor.
const (
	beatEvery   = 250 * time.Millisecond
	allEvery    = time.Second
	UpdateEvery = 20 * time.Millisecond
	silentAfter = 900 * time.Millisecond
	reportedFor = 2 * time.Second

	// GoneAfter is the silence after which a listed peer is assigned no shards: it has died, or is
	// unreachable at the address in its note. A starting process waits as long for the peers that
	// it discovers.
	GoneAfter = 5 * time.Second

	// unreachedAfter is the silence after which a listed peer counts as not reached. Lock nodes with
	// the default ttl have dropped a dead process by then, and notes change before GoneAfter.
	unreachedAfter = 4 * time.Second
)

// begin starts a session with n shards and no peers.
func (p *peers) begin(n int) {
	*p = peers{process: p.process, all: make(map[string]*peer), holder: make([]string, n)}
}

// ids returns the ids of all peers, in order.
func (p *peers) ids() []string { return slices.Sorted(maps.Keys(p.all)) }

// reaches returns how many processes this one reaches and how many count, itself included in both.
// Processes count if they are reached, or listed and not reached for unreachedAfter. A shorter
// silence may mean that the process has died. Processes that were listed when this one started
// count at once. A link alone does not count: a link to the note of a dead process, at whose
// address another one runs, is made and refused again and again.
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

// isolatedTooLong tracks the isolation of this process, and reports whether it has lasted for a
// ttl, so that the process releases its shards.
func (ps *peers) isolatedTooLong(now clock.Now) bool {
	switch {
	case !ps.isolated(now):
		ps.isolatedSince = 0
	case ps.isolatedSince == 0:
		ps.isolatedSince = now.Mono
	}
	return ps.isolatedSince != 0 && now.Mono >= ps.isolatedSince+ps.ttl
}

// linked records that the link to a peer was made (up) or cut.
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

// isUp reports whether a peer is linked and has sent something within silentAfter.
func (ps *peers) isUp(now clock.Now, id string) bool {
	p := ps.all[id]
	return p != nil && p.up && now.Mono < p.lastSeen+silentAfter
}

// ownerOf returns the reachable peer that reports to own a shard, or "" if there is none.
func (ps *peers) ownerOf(now clock.Now, i int) string {
	if id := ps.holder[i]; id != "" && ps.isUp(now, id) {
		return id
	}
	return ""
}

// problemAfter is how long a listed peer is not reached until it is a problem. The lock nodes list a killed
// process for a ttl, and no process that has ended.
const problemAfter = 2 * time.Second

// problems returns the peers that this process does not reach, and whether it is isolated.
func (ps *peers) problems(now clock.Now) (all []status.Problem) {
	for _, id := range ps.ids() {
		if p := ps.all[id]; p.listed && !ps.isUp(now, id) && now.Mono >= max(p.reached, p.since)+problemAfter {
			all = append(all, status.Problem{Kind: status.PeerUnreached, Where: p.Address})
		}
	}
	if ps.isolated(now) {
		reached, counted := ps.reaches(now)
		why := fmt.Sprintf("it reaches %d of %d others, and the ttl is %v", reached-1, counted-1, ps.ttl)
		all = append(all, status.Problem{Kind: status.Isolated, Where: ps.cfg.Address, Why: why})
	}
	return all
}

// lost reports whether a process was reachable and no longer is.
func (ps *peers) lost(now clock.Now, id string) bool {
	p := ps.all[id]
	return p != nil && p.lastSeen != 0 && !ps.isUp(now, id)
}
