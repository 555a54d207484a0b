package quorum

import (
	"slices"
	"time"
)

// State is the state of a key.
//
//	Released ──Acquire──▶ Acquiring ──majority──▶ Held ──out of time, or forgotten──▶ Lost
//
// Release leads from each state to Released, Acquire from Lost to Acquiring.
type State int

// A key begins as Released.
const (
	Released  State = iota // neither held nor wanted
	Acquiring              // wanted and not held
	Held                   // a majority of the nodes has promised it
	Lost                   // it was held; another process may hold it now
)

func (s State) String() string {
	return [...]string{"released", "acquiring", "held", "lost"}[s]
}

// key is the state machine of one key of a Group. A refused try is repeated under a new token:
// the release of the refused try may still be in flight, and would release what the same token
// has won since.
type key struct {
	g    *Group
	name string

	state       State
	releasing   bool   // the key is released, and Freed is not emitted yet
	lease       *lease // held, or of the try under way; nil: neither
	round       round
	beats       uint64        // rounds begun, for the notes
	note        string        // note of the round's ballots; "": not written yet
	refusals    int           // tries refused in a row
	began       time.Duration // time of the last Acquire
	waitFrom    time.Duration // start of the waiting time
	woken       bool          // the key was freed during the try under way: a refusal continues it
	tryDuration time.Duration // duration of the last successful try, from ballots to majority
	stale       int           // consecutive rounds that did not renew the held key
	retryAt     time.Duration // time of the next try, if none is under way
	renewAt     time.Duration // time of the next renewal

	nodes     []node
	sightings []sighting // the holder that each node names
}

// lease is a key under one token: a try, or what it has won.
type lease struct {
	token     string
	won       uint64        // last round in which a majority granted it
	since     time.Duration // send time of that round
	yes       int           // votes in the round under way
	noWaiters int           // votes among them that report no waiter
	at        []standing    // by node
}

// acquire begins to try for the key.
func (k *key) acquire() {
	k.state, k.releasing, k.refusals, k.woken = Acquiring, false, 0, false
	k.began, k.waitFrom = k.g.aged, k.g.aged
	k.try()
}

// release ends the lease of the key, or the try for it. A held key is handed over to the waiter
// next, if not "".
func (k *key) release(next string) {
	if k.state != Held {
		next = ""
	}
	k.dropAll(next)
	k.state, k.releasing = Released, true
	for i := range k.nodes {
		k.nodes[i].failedReleases = 0
	}
}

// expire ends the lease, the narrow part of a round, or the try, if its time is up.
func (k *key) expire() {
	if k.state == Held && k.g.aged >= k.lease.since+k.g.tm.usable {
		k.lose("it could not be renewed in time")
	}
	if !k.round.wide && k.g.aged >= k.round.sent+k.g.cfg.Hedge {
		k.widen()
	}
	if k.state == Acquiring && k.lease != nil && k.g.aged >= k.round.sent+k.g.tm.try {
		k.refuse("too few nodes answered in time")
	}
}

// advance starts the next try or renewal if it is due.
func (k *key) advance() {
	switch {
	case k.state == Acquiring && k.lease == nil && k.g.aged >= k.retryAt:
		k.try()
	case k.state == Held && k.g.aged >= k.renewAt:
		k.begin()
	}
}

// emitFreed emits Freed once the nodes have confirmed the release of the key.
func (k *key) emitFreed() {
	if k.releasing && k.idle(false) {
		k.releasing = false
		k.emit(Freed, nil)
	}
}

// idle reports whether no call is under way and every node has confirmed its releases. If
// failed is set, it ignores nodes that have failed twice to confirm one.
func (k *key) idle(failed bool) bool {
	return !slices.ContainsFunc(k.nodes, func(n node) bool {
		return (n.inFlight != dueNothing || len(n.releases) > 0) && !(failed && n.failedReleases >= 2)
	})
}

// next returns when something other than a release falls due, on the time base of aged.
func (k *key) next() time.Duration {
	at := never
	if !k.round.wide {
		at = k.round.sent + k.g.cfg.Hedge
	}
	switch {
	case k.state == Held:
		at = min(at, k.lease.since+k.g.tm.usable, k.renewAt)
	case k.state == Acquiring && k.lease != nil:
		at = min(at, k.round.sent+k.g.tm.try)
	case k.state == Acquiring:
		at = min(at, k.retryAt)
	}
	return at
}

// win makes the wanted key a held one: a majority has granted it.
func (k *key) win() {
	g := k.g
	k.tryDuration = g.aged - k.round.sent
	g.stats.Won++
	g.stats.Acquiring += g.aged - k.began
	g.stats.Waited += k.round.sent - k.began
	k.sightings = nil
	k.lease.won, k.lease.since = k.round.id, k.round.sent
	for i := range k.nodes {
		// A node that grants a key removes the new holder from the key's list.
		if k.lease.at[i].answer == Yes {
			k.nodes[i].listed = false
		}
	}
	k.unlist()
	k.emit(Won, nil)
	k.state, k.refusals, k.woken = Held, 0, false
}

// refuse ends the try under way, and releases what nodes may have granted in it.
func (k *key) refuse(why string) {
	if k.woken {
		// The holder releases the key node by node. Votes won so far stay: releasing them would
		// pass the key to others on these nodes, and to this group on the rest.
		k.woken = false
		k.refusals++
		k.begin()
		return
	}
	k.emit(Refused, k.failure(ErrRefused, why))
	k.g.stats.Refused++
	k.observeHolders()
	free := k.freeIn()
	k.drop("")
	k.retryAt = k.g.aged + k.pauseUntil(free, k.refusals)
	k.refusals++
}

// lose ends the lease of a held key that other processes may acquire.
func (k *key) lose(why string) {
	k.g.stats.Lost++
	k.emit(Losing, k.failure(ErrLost, why))
	k.dropAll("")
	k.state, k.releasing = Lost, true
}

// dropAll queues the releases of the key and of its waiting list, and clears what is known of them.
func (k *key) dropAll(next string) {
	k.drop(next)
	k.round.wide = true
	k.unlist()
	k.sightings = nil
}

// longestPause bounds the pauses between failed rounds, whatever the ttl: a freed key, or a
// majority that has recovered, is discovered well within a second.
const longestPause = 360 * time.Millisecond

// pause returns the delay after a failed round that was preceded by some other failed rounds.
// It grows, so that failed nodes cost little.
func (k *key) pause(before int) time.Duration {
	base := min(k.g.cfg.TTL/64<<min(before, 3), longestPause*2/3)
	return k.g.pace.pause(k.g.aged, base/2, base/2+base)
}

// freeIn returns how long the leases that blocked the try under way still last unless they are
// renewed; never if something else blocked it.
func (k *key) freeIn() time.Duration {
	var left []time.Duration
	for _, st := range k.lease.at {
		if h := st.holder; st.answer == No && h != nil && h.Left > 0 {
			left = append(left, h.Left)
		}
	}
	need := k.g.majority() - k.lease.yes
	if need < 1 || len(left) < need {
		return never
	}
	slices.Sort(left)
	return left[need-1]
}

// afterFree is the maximum delay of a try after the blocking leases expire. The delay is
// random, since several processes may wait for the same lease.
const afterFree = 8 * time.Millisecond

// pauseUntil is pause, limited to when the blocking leases expire: a holder that has not
// renewed by then has died.
func (k *key) pauseUntil(free time.Duration, before int) time.Duration {
	d := k.pause(before)
	if free == never || d <= free+time.Millisecond {
		return d
	}
	return k.g.pace.pause(k.g.aged, free+time.Millisecond, free+afterFree)
}

// emit adds an event of the key.
func (k *key) emit(kind EventKind, cause *Failure) {
	k.g.emit(Event{Kind: kind, Keys: []string{k.name}, Cause: cause})
}
