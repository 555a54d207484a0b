package quorum_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/quorum"
)

// simNode is a lock node as plain functions of its own time: what the contract
// of quorum.Node requires, and nothing more.
type simNode struct {
	name    string
	run     int
	markers map[string]simMarker
	keys    map[string]simKey

	waiting map[string]map[string]time.Duration // by key and waiter: since when
	knows   func() bool                         // whether it reports waiters; nil: it does
	woken   func(key, next string)              // notifies the waiter of a freed key; may be nil

	members map[string]map[string]simMember // by registry and id
}

type simMember struct {
	note  string
	until time.Duration
}

type simMarker struct {
	run  int
	from time.Duration // votes from here on
}

// simKey is a lease. One without a token keeps a key that was freed for the
// waiter who is next, whose name is in the note.
type simKey struct {
	token, note string
	until       time.Duration
}

// keptForNext is how long that is.
const keptForNext = 25 * time.Millisecond

func (k simKey) isFor(a quorum.LeaseRequest) bool {
	return k.token == a.Token || k.token == "" && k.note == a.Waiter && a.Waiter != ""
}

func newSimNode(name string) *simNode {
	return &simNode{
		name: name, markers: map[string]simMarker{}, keys: map[string]simKey{}, members: map[string]map[string]simMember{},
	}
}

// epoch is the wall time at which every clock of a simulation starts.
var epoch = time.Unix(1_800_000_000, 0)

// has returns who has a key at a node time, if anybody has.
func (n *simNode) has(now time.Duration, key string) (simKey, bool) {
	k, ok := n.keys[key]
	return k, ok && now < k.until
}

func (n *simNode) mark(marker string) { n.markers[marker] = simMarker{run: n.run} }

func (n *simNode) vote(now time.Duration, b quorum.Ballot) quorum.BallotReply {
	m, ok := n.markers[b.Marker]
	if !ok || m.run != n.run {
		m = simMarker{run: n.run, from: now + quorum.MaxTTL}
		n.markers[b.Marker] = m
	}
	c := quorum.BallotReply{
		Yes:       make([]bool, len(b.Requests)),
		Holders:   make([]quorum.Holding, len(b.Requests)),
		NoWaiters: make([]bool, len(b.Requests)),
		Time:      epoch.Add(now),
	}
	if now < m.from {
		c.Abstained, c.VotesFrom = true, epoch.Add(m.from)
		return c
	}
	for i, a := range b.Requests {
		k, taken := n.has(now, a.Key)
		switch {
		case taken && k.isFor(a), !taken && !a.Renew:
			n.keys[a.Key] = simKey{a.Token, a.Note, now + b.TTL}
			c.Yes[i] = true
			delete(n.waiting[a.Key], a.Waiter)
			c.NoWaiters[i] = a.QueryWaiters && len(n.waiting[a.Key]) == 0 && (n.knows == nil || n.knows())
		case taken:
			n.enlist(now, a)
			c.Holders[i] = quorum.Holding{Key: a.Key, Token: k.token, Note: k.note, Left: k.until - now}
		}
	}
	return c
}

func (n *simNode) release(now time.Duration, requests []quorum.LeaseRequest) (freed int) {
	for _, a := range requests {
		delete(n.waiting[a.Key], a.Waiter)
		k, ok := n.has(now, a.Key)
		if ok && k.isFor(a) && (a.Note == "" || k.note == a.Note) {
			if k.token != "" {
				freed++
			}
			delete(n.keys, a.Key)
			n.wake(now, a)
		}
	}
	return freed
}

func (n *simNode) announce(now time.Duration, m quorum.Announcement) (members []quorum.Member) {
	if n.members[m.Registry] == nil {
		n.members[m.Registry] = map[string]simMember{}
	}
	registry := n.members[m.Registry]
	delete(registry, m.Member.ID)
	if m.TTL > 0 {
		registry[m.Member.ID] = simMember{m.Member.Note, now + m.TTL}
	}
	for _, id := range slices.Sorted(maps.Keys(registry)) {
		if left := registry[id].until - now; left > 0 {
			members = append(members, quorum.Member{ID: id, Note: registry[id].note, Left: left})
		} else {
			delete(registry, id)
		}
	}
	return members
}

// enlist adds the waiter of a request to the waiting list.
func (n *simNode) enlist(now time.Duration, a quorum.LeaseRequest) {
	if a.Waiter == "" || a.Waited < 0 {
		return
	}
	if n.waiting == nil {
		n.waiting = map[string]map[string]time.Duration{}
	}
	if n.waiting[a.Key] == nil {
		n.waiting[a.Key] = map[string]time.Duration{}
	}
	n.waiting[a.Key][a.Waiter] = now - a.Waited
}

// wake takes who is next off the list of a key, unless the release names another,
// keeps the key for it, and notifies it.
func (n *simNode) wake(now time.Duration, freed quorum.LeaseRequest) {
	key, next, keep := freed.Key, freed.Next, quorum.HandOver
	if next == "" {
		next, keep = n.first(key), keptForNext
	}
	if next == "" {
		return
	}
	delete(n.waiting[key], next)
	n.keys[key] = simKey{note: next, until: now + keep}
	if n.woken != nil {
		n.woken(key, next)
	}
}

// first returns who has waited longest for a key, "" if nobody waits.
func (n *simNode) first(key string) (next string) {
	for waiter, since := range n.waiting[key] {
		if first := n.waiting[key][next]; next == "" || since < first || since == first && waiter < next {
			next = waiter
		}
	}
	return next
}

// save copies what the node remembers; restart gives it another run and what
// had been saved, or nothing.
func (n *simNode) save() *simNode {
	s := &simNode{markers: maps.Clone(n.markers), keys: maps.Clone(n.keys), members: map[string]map[string]simMember{}}
	for registry, members := range n.members {
		s.members[registry] = maps.Clone(members)
	}
	return s
}

func (n *simNode) restart(from *simNode) {
	n.run++
	n.waiting = nil
	if from == nil {
		from = newSimNode(n.name)
	}
	old := from.save()
	n.markers, n.keys, n.members = old.markers, old.keys, old.members
}

func (n *simNode) String() string { return fmt.Sprintf("%s run %d", n.name, n.run) }
