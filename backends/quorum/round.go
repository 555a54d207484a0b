package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// round is one ballot about a key for all nodes. It begins when the previous round is decided or
// out of time. A node that is still busy gets its ballot when it is free.
type round struct {
	id           uint64
	sent         time.Duration // send time of the first ballot
	wide         bool          // all nodes are queried, not only those that narrow chose
	queryWaiters bool          // nodes report whether anyone waits for the held key
}

// standing is the state of one lease on one node.
type standing struct {
	answer Answer
	// stray reports that a call that may acquire the key got no answer. The node may still
	// execute it, even after later calls.
	stray  bool
	holder *Holding // holder that the node named with a No
}

// mayHave reports whether the node needs a release when the key is released.
func (s standing) mayHave() bool { return s.answer == Yes || s.answer == Silent || s.stray }

// node is the state of one node for a key.
type node struct {
	inFlight   due    // kind of the call under way that has a part of this key
	ballotSent uint64 // last round whose ballot was sent to the node
	answered   uint64 // last round that the node answered, even with an error
	first      bool   // one of the nodes that narrow chose
	listed     bool   // the node may list this group as a waiter for the key

	// releases must precede the next ballot. They are tried from releaseAt on, and dropped at
	// releaseUntil, when the keys have expired on the node.
	releases       []LeaseRequest
	failedReleases int // consecutive failed releases
	releaseAt      time.Duration
	releaseUntil   time.Duration
}

// due is the kind of a node's next call.
type due int

const (
	dueNothing due = iota
	dueRelease
	dueBallot
)

// try begins a round that requests the key.
func (k *key) try() {
	k.g.stats.Tries++
	k.lease = &lease{token: k.g.tokens.next(), at: make([]standing, len(k.nodes))}
	k.begin()
	k.narrow()
}

// begin begins a round. serve sends its ballots.
func (k *key) begin() {
	k.round = round{id: k.round.id + 1, sent: k.g.aged, wide: true}
	k.beats++
	k.note = ""
	k.renewAt = k.g.renewal(k.g.aged)
	k.lease.yes, k.lease.noWaiters = 0, 0
}

// due returns the kind of request that the key has for a free node. Releases come first, but a
// failed release is delayed and lets a ballot pass.
func (k *key) due(i int) due {
	n := &k.nodes[i]
	if k.g.aged >= n.releaseUntil {
		n.releases = nil
	}
	switch {
	case len(n.releases) > 0 && k.g.aged >= n.releaseAt:
		return dueRelease
	case n.ballotSent != k.round.id && (k.round.wide || n.first) && k.lease != nil:
		return dueBallot
	}
	return dueNothing
}

// nextRelease returns when a release falls due or expires.
func (n *node) nextRelease() time.Duration {
	if len(n.releases) == 0 {
		return never
	}
	return min(n.releaseAt, n.releaseUntil)
}

// ballot returns the request for node i in this round.
//
// A held key is only extended where the node still has it. Elsewhere it is acquired anew if a
// majority has confirmed it in this round or the last, so that nodes that restart one after the
// other do not use up the majority. Such a vote does not count before the next round: only an
// unbroken majority holds a key.
func (k *key) ballot(i int) LeaseRequest {
	g, n, st := k.g, &k.nodes[i], &k.lease.at[i]
	n.ballotSent = k.round.id
	if k.note == "" {
		k.note = Note{Address: g.cfg.Address, Beats: k.beats, TTL: g.cfg.TTL}.String()
	}
	firm := k.lease.won+1 >= k.round.id
	renew := k.state == Held && (st.answer == Yes || !firm)
	if !renew && st.answer != Yes {
		st.answer = Silent
	}
	request := LeaseRequest{Key: k.name, Token: k.lease.token, Note: k.note, Renew: renew, QueryWaiters: k.state == Held && k.round.queryWaiters}
	switch {
	case k.state == Held || g.cfg.Waiter == "":
	case !g.cfg.Listed:
		request.Waiter, request.Waited = g.cfg.Waiter, notListed
	case k.refusals > 0 || g.watched:
		// A first try does not list the group: most first tries are granted.
		request.Waiter, request.Waited = g.cfg.Waiter, max(0, g.aged-k.waitFrom)
		n.listed = true
	}
	return request
}

// count records vote j of a node's reply. Only votes of the current round count towards its
// majority; every vote updates the state of the lease on the node.
func (k *key) count(i int, p part, j int, got BallotReply) {
	n, st, stats := &k.nodes[i], &p.lease.at[i], &k.g.stats
	n.answered = max(n.answered, p.round)
	if err := k.g.nodes[i].seen.err; err != nil {
		k.round.wide = true
		stats.Failed++
		unsent := errors.Is(err, ErrUnsent)
		st.stray = st.stray || !p.renew && !unsent
		if unsent && st.answer == Silent {
			st.answer = NotQueried
		}
		return
	}
	switch {
	case got.Yes[j]:
		stats.Yes++
		st.answer, st.holder = Yes, nil
		if p.round == k.round.id && (p.renew || k.state != Held) {
			p.lease.yes++
			if j < len(got.NoWaiters) && got.NoWaiters[j] {
				p.lease.noWaiters++
			}
		}
	case got.Abstained:
		k.round.wide = true
		stats.Abstained++
		st.answer, st.holder = Abstained, nil
	default:
		k.round.wide = true
		stats.No++
		st.answer, st.holder = No, &got.Holders[j]
		k.reclaim(n, got.Holders[j])
	}
}

// decide acts on the votes so far. It does not wait for more than a majority.
func (k *key) decide() {
	pending, hopeful := 0, 0
	for i := range k.nodes {
		if k.nodes[i].answered != k.round.id {
			pending++
			if k.g.nodes[i].seen.err == nil {
				hopeful++
			}
		}
	}
	switch {
	case k.state == Held:
		k.renewed(pending)
		if k.forgotten() {
			k.lose("most nodes do not have it any more")
		}
	case k.lease == nil:
	case k.lease.yes >= k.g.majority():
		k.win()
	case k.lease.yes+hopeful < k.g.majority():
		// Do not wait for a node whose last call failed: contenders that have split the other
		// nodes would keep their votes until its timeout.
		k.refuse("too few nodes granted it")
	}
}

// renewed records the newest round in which a majority renewed the held key. If all nodes have answered and the key
// was not renewed, the next round begins sooner.
func (k *key) renewed(pending int) {
	l := k.lease
	before := k.stale == 0 && l.won == k.round.id
	if l.yes >= k.g.majority() && l.won != k.round.id {
		l.won, l.since = k.round.id, k.round.sent
	}
	switch {
	case l.won == k.round.id:
		if !before {
			k.g.stats.Renewals++
		}
		k.stale = 0
	case pending == 0:
		k.renewAt = min(k.renewAt, k.g.aged+k.pause(k.stale))
		k.stale++
	}
}

// forgotten reports whether the nodes that may still have the key are no majority.
func (k *key) forgotten() bool {
	without := 0
	for _, st := range k.lease.at {
		if st.answer == No || st.answer == Abstained {
			without++
		}
	}
	return len(k.nodes)-without < k.g.majority()
}

// drop ends the lease without an event, and queues its release on every node that may have it,
// handing it over to the waiter next if not "". Its token is not used again.
func (k *key) drop(next string) {
	if k.lease == nil {
		return
	}
	for i, st := range k.lease.at {
		if st.mayHave() {
			k.queueRelease(&k.nodes[i], LeaseRequest{Key: k.name, Token: k.lease.token, Next: next})
		}
	}
	k.lease = nil
}

// queueRelease queues a release that precedes the node's next ballot.
func (k *key) queueRelease(n *node, request LeaseRequest) {
	n.releases = append(n.releases, request)
	n.releaseAt, n.releaseUntil = k.g.aged, k.g.aged+k.g.tm.try+k.g.cfg.TTL
}

// unlist queues the removal of this group from the key's list, on every node that may list it.
func (k *key) unlist() {
	for i := range k.nodes {
		if n := &k.nodes[i]; n.listed {
			n.listed = false
			k.queueRelease(n, LeaseRequest{Key: k.name, Token: k.g.cfg.Waiter, Waiter: k.g.cfg.Waiter})
		}
	}
}

// reclaim queues the release of the key if a node has promised it to a spent token of this group.
// That happens when a node that was stopped executes a timed-out ballot after the release of its
// try. Without reclaim the key would be blocked for a ttl.
func (k *key) reclaim(n *node, h Holding) {
	queued := func(r LeaseRequest) bool { return r.Token == h.Token }
	current := k.lease != nil && k.lease.token == h.Token
	if k.g.tokens.issued(h.Token) && !current && !slices.ContainsFunc(n.releases, queued) {
		k.queueRelease(n, LeaseRequest{Key: k.name, Token: h.Token})
	}
}

// freed handles the reply of a node to the first count releases.
func (k *key) freed(i, count int) {
	n := &k.nodes[i]
	if k.g.nodes[i].seen.err != nil {
		n.failedReleases++
		n.releaseAt = k.g.aged + k.g.cfg.TTL/16
		return
	}
	n.failedReleases = 0
	n.releases = n.releases[count:] // keep what was queued since
}

// validate returns an error if the reply does not have one element for each request.
func (c BallotReply) validate(requests int) error {
	if len(c.Yes) != requests || len(c.Holders) != requests {
		return fmt.Errorf("the node returned %d votes and %d holders for %d requests", len(c.Yes), len(c.Holders), requests)
	}
	return nil
}
