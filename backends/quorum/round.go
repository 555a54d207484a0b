package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"salectl/backends/clock"
)

// round is one ballot for all nodes. It begins when the previous round is decided or out of
// time. A node that is still busy gets its ballot when it is free.
type round struct {
	id   uint64
	sent time.Duration // send time of the first ballot
	wide bool          // all nodes are queried, not only those that narrow chose
	tell bool          // nodes report whether anyone waits for the held keys
}

// lease is a machine's state of one key.
type lease struct {
	key, token string
	held       bool
	won        uint64        // last round in which a majority granted it
	since      time.Duration // send time of that round
	yes        int           // votes in the round under way
	alone      int           // votes among them that report no waiter
	at         []standing    // by node
}

// standing is the state of one key on one node.
type standing struct {
	answer Answer
	// stray reports that a call that may acquire the key got no answer. The node may still
	// execute it, even after later calls.
	stray  bool
	holder *Holding // holder that the node named with a No
}

// mayHave reports whether the node needs a release when the key is released.
func (s standing) mayHave() bool { return s.answer == Yes || s.answer == Silent || s.stray }

// node is a machine's state of one node.
type node struct {
	call     *call  // under way; nil: free
	asked    uint64 // last round whose ballot was sent to it
	answered uint64 // last round that it answered, if only with an error
	first    bool   // one of the nodes that narrow chose
	listed   bool   // it may list this machine for the wanted keys

	// owed holds the releases that must precede the next ballot. They are tried from owedAt on,
	// and dropped at owedUntil, when the node has forgotten the keys.
	owed      []Ask
	deaf      int // consecutive failed releases
	owedAt    time.Duration
	owedUntil time.Duration

	seen seen
}

// call is a call to a node that has no answer yet.
type call struct {
	seq    uint64
	sent   clock.Now
	frees  int // number of asks of a release; 0: a ballot
	round  uint64
	asks   []Ask
	leases []*lease // of a ballot: one for each ask
}

// majority returns the size of a majority.
func (m *Machine) majority() int { return len(m.nodes)/2 + 1 }

// try begins a round that requests the wanted keys and renews the held ones.
func (m *Machine) try() {
	if m.token == "" {
		m.token = m.tokens.next()
	}
	m.stats.Tries++
	standings := make([]standing, len(m.wants)*len(m.nodes))
	leases := make([]lease, len(m.wants))
	m.wanted = make([]*lease, len(m.wants))
	for i, key := range m.wants {
		n := len(m.nodes)
		leases[i] = lease{key: key, token: m.token, at: standings[i*n : (i+1)*n : (i+1)*n]}
		m.wanted[i] = &leases[i]
	}
	m.begin()
	m.narrow()
}

// begin begins a round. serve sends its ballots.
func (m *Machine) begin() {
	m.round = round{id: m.round.id + 1, sent: m.aged, wide: true}
	m.beats++
	m.note = ""
	m.renewAt = m.aged + m.tm.renew
	if m.group != nil {
		m.renewAt = m.group.renewal(m.aged)
	}
	for _, l := range m.held {
		l.yes, l.alone = 0, 0
	}
	for _, l := range m.wanted {
		l.yes = 0
	}
}

// serve sends a free node its next call, if there is one.
func (m *Machine) serve(i int) {
	c := m.ask(i)
	if c == nil {
		return
	}
	out := Call{Node: i, Seq: c.seq, Timeout: CallTimeout(m.cfg.TTL)}
	if c.frees > 0 {
		out.Release = c.asks
	} else {
		out.Vote = &Ballot{Marker: m.cfg.Marker, TTL: m.cfg.TTL, Asks: c.asks}
	}
	m.out.Calls = append(m.out.Calls, out)
}

// ask begins the next call to a node; it returns nil if there is none. Releases come first, but
// a failed release is delayed and lets a ballot pass.
func (m *Machine) ask(i int) (c *call) {
	n := &m.nodes[i]
	switch m.due(i) {
	case dueRelease:
		c = &call{frees: len(n.owed), asks: n.owed[:len(n.owed):len(n.owed)]}
	case dueBallot:
		n.asked = m.round.id
		c = m.ballot(i)
	default:
		return nil
	}
	m.seq++
	c.seq, c.sent = m.seq, m.last
	n.call = c
	return c
}

// due is the kind of a node's next call.
type due int

const (
	dueNothing due = iota
	dueRelease
	dueBallot
)

// due returns the kind of a node's next call, dueNothing while the node is busy.
func (m *Machine) due(i int) due {
	n := &m.nodes[i]
	if n.call != nil {
		return dueNothing
	}
	if m.aged >= n.owedUntil {
		n.owed = nil
	}
	switch {
	case len(n.owed) > 0 && m.aged >= n.owedAt:
		return dueRelease
	case n.asked != m.round.id && (m.round.wide || n.first) && len(m.held)+len(m.wanted) > 0:
		return dueBallot
	}
	return dueNothing
}

// owedNext returns when a release falls due or expires.
func (n *node) owedNext() time.Duration {
	if len(n.owed) == 0 {
		return never
	}
	return min(n.owedAt, n.owedUntil)
}

// ballot builds the ballot for node i in this round.
//
// A held key is only extended where the node still has it. Elsewhere it is acquired anew if a
// majority has confirmed it in this round or the last, so that nodes that restart one after the
// other do not use up the majority. Such a vote does not count before the next round: only an
// unbroken majority holds a key.
func (m *Machine) ballot(i int) *call {
	size := len(m.held) + len(m.wanted)
	c := &call{round: m.round.id, asks: make([]Ask, 0, size), leases: make([]*lease, 0, size)}
	if m.note == "" {
		m.note = Note{Address: m.cfg.Address, Beats: m.beats, TTL: m.cfg.TTL}.String()
	}
	add := func(l *lease, renew bool) {
		if !renew && l.at[i].answer != Yes {
			l.at[i].answer = Silent
		}
		ask := Ask{Key: l.key, Token: l.token, Note: m.note, Renew: renew, Tell: l.held && m.round.tell}
		switch {
		case l.held || m.cfg.Waiter == "":
		case m.group != nil:
			ask.Waiter, ask.Waited = m.cfg.Waiter, notListed
		case m.refusals > 0 || m.watched:
			// A first try does not list the machine: most first tries are granted.
			ask.Waiter, ask.Waited = m.cfg.Waiter, max(0, m.aged-m.waitFrom)
			m.nodes[i].listed = true
		}
		c.asks = append(c.asks, ask)
		c.leases = append(c.leases, l)
	}
	for _, l := range m.held {
		firm := l.won+1 >= m.round.id
		add(l, l.at[i].answer == Yes || !firm)
	}
	for _, l := range m.wanted {
		add(l, false)
	}
	return c
}

// count records a node's votes. Only votes of the current round count for it, but all of them
// update the node's state.
func (m *Machine) count(i int, c *call, got BallotReply) {
	n := &m.nodes[i]
	n.answered = max(n.answered, c.round)
	if n.seen.err != nil {
		m.round.wide = true
		m.stats.Failed += uint64(len(c.leases))
		unsent := errors.Is(n.seen.err, ErrUnsent)
		for j, l := range c.leases {
			st := &l.at[i]
			st.stray = st.stray || !c.asks[j].Renew && !unsent
			if unsent && st.answer == Silent {
				st.answer = NotAsked
			}
		}
		return
	}
	m.stats.Repaired += uint64(got.Repaired)
	for j, l := range c.leases {
		st := &l.at[i]
		switch {
		case got.Yes[j]:
			m.stats.Yes++
			st.answer, st.holder = Yes, nil
			if c.round == m.round.id && (c.asks[j].Renew || !l.held) {
				l.yes++
				if j < len(got.NoWaiters) && got.NoWaiters[j] {
					l.alone++
				}
			}
		case got.Abstained:
			m.round.wide = true
			m.stats.Abstained++
			st.answer, st.holder = Abstained, nil
		default:
			m.round.wide = true
			m.stats.No++
			st.answer, st.holder = No, &got.Holders[j]
			m.reclaim(n, got.Holders[j])
		}
	}
}

// decide acts on the votes so far. It does not wait for more than a majority.
func (m *Machine) decide() {
	pending, hopeful := 0, 0
	for i := range m.nodes {
		if n := &m.nodes[i]; n.answered != m.round.id {
			pending++
			if n.seen.err == nil {
				hopeful++
			}
		}
	}
	m.renewed(pending)
	for _, l := range m.held {
		if m.forgotten(l) {
			m.lose(l, "most nodes do not have it any more")
			return
		}
	}
	if len(m.wanted) == 0 {
		return
	}
	weakest := m.weakest()
	switch {
	case weakest.yes >= m.majority():
		m.win()
	case weakest.yes+hopeful < m.majority():
		// Do not wait for a node whose last call failed: contenders that have split the other
		// nodes would keep their votes until its timeout.
		m.refuse(weakest, "too few nodes granted it")
	}
}

// renewed updates the round that each held key relies on. If all nodes have answered and a key
// was not renewed, the next round begins sooner.
func (m *Machine) renewed(pending int) {
	if len(m.held) == 0 {
		return
	}
	all, before := true, m.stale == 0 && m.oldest().won == m.round.id
	for _, l := range m.held {
		if l.yes >= m.majority() && l.won != m.round.id {
			l.won, l.since = m.round.id, m.round.sent
		}
		all = all && l.won == m.round.id
	}
	m.since = m.oldest().since
	switch {
	case all:
		if !before {
			m.stats.Renewals++
		}
		m.stale = 0
	case pending == 0:
		m.renewAt = min(m.renewAt, m.aged+m.pause(m.stale))
		m.stale++
	}
}

// forgotten reports whether so many nodes do not have a key that the others are no majority.
func (m *Machine) forgotten(l *lease) bool {
	without := 0
	for _, st := range l.at {
		if st.answer == No || st.answer == Abstained {
			without++
		}
	}
	return len(m.nodes)-without < m.majority()
}

// oldest returns the held key whose last majority is oldest.
func (m *Machine) oldest() *lease {
	return slices.MinFunc(m.held, func(a, b *lease) int { return cmp.Compare(a.won, b.won) })
}

// weakest returns the wanted key with the fewest votes.
func (m *Machine) weakest() *lease {
	return slices.MinFunc(m.wanted, func(a, b *lease) int { return cmp.Compare(a.yes, b.yes) })
}

// drop queues the release of a key on every node that may have it, handing it over to the
// waiter next if not "".
func (m *Machine) drop(l *lease, next string) {
	for i, st := range l.at {
		if n := &m.nodes[i]; st.mayHave() {
			m.owe(n, Ask{Key: l.key, Token: l.token, Next: next})
		}
	}
}

// owe queues a release that precedes the node's next ballot.
func (m *Machine) owe(n *node, ask Ask) {
	n.owed = append(n.owed, ask)
	n.owedAt, n.owedUntil = m.aged, m.aged+m.tm.try+m.cfg.TTL
}

// unlist queues the removal of this machine from the lists of the wanted keys, on every node
// that may list it.
func (m *Machine) unlist() {
	for i := range m.nodes {
		n := &m.nodes[i]
		if !n.listed {
			continue
		}
		n.listed = false
		for _, key := range m.wants {
			m.owe(n, Ask{Key: key, Token: m.cfg.Waiter, Waiter: m.cfg.Waiter})
		}
	}
}

// mostFree reports whether a majority of the nodes has no queued release.
func (m *Machine) mostFree() bool {
	free := 0
	for i := range m.nodes {
		if len(m.nodes[i].owed) == 0 {
			free++
		}
	}
	return free >= m.majority()
}

// freed handles the answer to a release.
func (m *Machine) freed(n *node, c *call) {
	if n.seen.err != nil {
		n.deaf++
		n.owedAt = m.aged + m.cfg.TTL/16
		return
	}
	n.deaf = 0
	n.owed = n.owed[c.frees:] // keep what was queued since
}

// validate returns an error if the answer does not have one element for each ask.
func (c BallotReply) validate(asks int) error {
	if len(c.Yes) != asks || len(c.Holders) != asks {
		return fmt.Errorf("the node gave %d votes and %d holders for %d asks", len(c.Yes), len(c.Holders), asks)
	}
	return nil
}
