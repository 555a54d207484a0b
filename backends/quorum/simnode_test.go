package quorum_test

import (
	"fmt"
	"maps"
	"time"

	"salectl/backends/quorum"
)

// simNode is a lock node as plain functions of its own time: what the contract
// of quorum.Node says, and nothing more.
type simNode struct {
	name    string
	run     int
	markers map[string]simMarker
	keys    map[string]simKey
}

type simMarker struct {
	run  int
	from time.Duration // votes from here on
}

type simKey struct {
	token, note string
	until       time.Duration
}

func newSimNode(name string) *simNode {
	return &simNode{name: name, markers: map[string]simMarker{}, keys: map[string]simKey{}}
}

// epoch is the wall time at which every clock of a simulation starts.
var epoch = time.Unix(1_800_000_000, 0)

// has returns who has a key at a node time, if anybody has.
func (n *simNode) has(now time.Duration, key string) (simKey, bool) {
	k, ok := n.keys[key]
	return k, ok && now < k.until
}

func (n *simNode) mark(marker string) { n.markers[marker] = simMarker{run: n.run} }

func (n *simNode) vote(now time.Duration, b quorum.Ballot) quorum.Count {
	m, ok := n.markers[b.Marker]
	if !ok || m.run != n.run {
		m = simMarker{run: n.run, from: now + quorum.MaxTTL}
		n.markers[b.Marker] = m
	}
	c := quorum.Count{
		Yes:     make([]bool, len(b.Asks)),
		Holders: make([]quorum.Holding, len(b.Asks)),
		Time:    epoch.Add(now),
	}
	if now < m.from {
		c.Abstained, c.VotesFrom = true, epoch.Add(m.from)
		return c
	}
	for i, a := range b.Asks {
		k, taken := n.has(now, a.Key)
		switch {
		case taken && k.token == a.Token, !taken && !a.Renew:
			n.keys[a.Key] = simKey{a.Token, a.Note, now + b.TTL}
			c.Yes[i] = true
		case taken:
			c.Holders[i] = quorum.Holding{Key: a.Key, Token: k.token, Note: k.note, Left: k.until - now}
		}
	}
	return c
}

func (n *simNode) release(now time.Duration, asks []quorum.Ask) (freed int) {
	for _, a := range asks {
		if k, ok := n.has(now, a.Key); ok && k.token == a.Token {
			delete(n.keys, a.Key)
			freed++
		}
	}
	return freed
}

// save copies what the node remembers; restart gives it another run and what
// had been saved, or nothing.
func (n *simNode) save() *simNode {
	return &simNode{markers: maps.Clone(n.markers), keys: maps.Clone(n.keys)}
}

func (n *simNode) restart(from *simNode) {
	n.run++
	n.markers, n.keys = map[string]simMarker{}, map[string]simKey{}
	if from != nil {
		n.markers, n.keys = maps.Clone(from.markers), maps.Clone(from.keys)
	}
}

func (n *simNode) String() string { return fmt.Sprintf("%s run %d", n.name, n.run) }
