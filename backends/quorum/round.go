package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"salectl/backends/clock"
)

// round is one ballot for all nodes. It begins when the one before is over or
// out of time; a node that is still busy then gets its ballot when it is free.
type round struct {
	id   uint64
	sent time.Duration // when the first ballot was handed out
	wide bool          // all nodes are asked, not only those of narrow
	tell bool          // nodes are to say whether anybody waits for the held keys
}

// lease is one key as the machine knows it.
type lease struct {
	key, token string
	held       bool
	won        uint64        // the last round that a majority granted it in
	since      time.Duration // when that round was sent
	yes        int           // votes in the round under way
	alone      int           // those of them that say that nobody waits for it
	at         []standing    // an element for each node
}

// standing is what one node makes of one key.
type standing struct {
	answer Answer
	// stray says that a call which may take the key had no answer. It may yet
	// reach the node, behind anything that is sent since.
	stray  bool
	holder *Holding // who has it, where the node said no
}

// mayHave reports whether the node must be told when the key is given back.
func (s standing) mayHave() bool { return s.answer == Yes || s.answer == Silent || s.stray }

// node is what the machine knows of one node.
type node struct {
	call     *call  // under way; nil: free
	asked    uint64 // the last round it got a ballot of
	answered uint64 // the last round it has answered, if only by an error
	first    bool   // it is among those whom the last try asked first
	listed   bool   // it may have this machine on the lists of wanted keys

	// owed is what it must release before it is asked for anything more. It is
	// tried from owedAt on, until the node must have forgotten by itself.
	owed      []Ask
	deaf      int // how often in a row it has failed to release
	owedAt    time.Duration
	owedUntil time.Duration

	seen seen
}

// call is what a node is asked, until it answers.
type call struct {
	seq    uint64
	sent   clock.Now
	frees  int // asks of a release; 0: a ballot
	round  uint64
	asks   []Ask
	leases []*lease // of a ballot: an element for each ask
}

// majority is the number of nodes that decide.
func (m *Machine) majority() int { return len(m.nodes)/2 + 1 }

// try begins a round that asks for the wanted keys, beside renewing the others.
func (m *Machine) try() {
	if m.token == "" {
		m.token = m.cfg.Token()
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

// begin opens a round. Nodes get its ballots in serve.
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

// serve gives a free node its next call, if there is one for it.
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

// ask begins the next call of a node; nil if there is none for it. What the node owes
// comes first; a release that failed waits a little and lets a ballot pass.
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

// due is what a node is to be asked next.
type due int

const (
	dueNothing due = iota
	dueRelease
	dueBallot
)

// due says what a node is to be asked next: nothing while it is busy.
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

// owedNext is when a release that is owed falls due, or is owed no longer.
func (n *node) owedNext() time.Duration {
	if len(n.owed) == 0 {
		return never
	}
	return min(n.owedAt, n.owedUntil)
}

// ballot writes what node i is asked in this round.
//
// A held key is only extended where the node still has it. Where it has not, it
// is taken anew if a majority has confirmed the key in this round or the last,
// so that nodes which restart one after the other do not use the majority up.
// Such a vote does not count until the next round: a majority that was never
// broken is what makes the key ours.
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
			// Not at the first try: most are granted then.
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

// count notes a node's votes. Only those of the round under way count for it,
// but any of them tells what the node has.
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
				if j < len(got.Alone) && got.Alone[j] {
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

// decide draws what follows from the votes so far. It does not wait for more
// than a majority.
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
		// A node that failed when last asked is not waited for: contenders who
		// split the others would sit on their votes until it times out.
		m.refuse(weakest, "too few nodes granted it")
	}
}

// renewed notes which held keys rest on this round now. When all nodes have
// answered and a key does not, the next round comes sooner.
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

// forgotten reports whether so many nodes answered that they do not have a key
// that the others are no majority.
func (m *Machine) forgotten(l *lease) bool {
	without := 0
	for _, st := range l.at {
		if st.answer == No || st.answer == Abstained {
			without++
		}
	}
	return len(m.nodes)-without < m.majority()
}

// oldest returns the held key that rests on the oldest round.
func (m *Machine) oldest() *lease {
	return slices.MinFunc(m.held, func(a, b *lease) int { return cmp.Compare(a.won, b.won) })
}

// weakest returns the wanted key that has the fewest votes.
func (m *Machine) weakest() *lease {
	return slices.MinFunc(m.wanted, func(a, b *lease) int { return cmp.Compare(a.yes, b.yes) })
}

// drop owes the release of a key to every node that may have it, for a waiter who
// is next or for nobody.
func (m *Machine) drop(l *lease, next string) {
	if m.group == nil {
		m.spent.add(l.token)
	}
	for i, st := range l.at {
		if n := &m.nodes[i]; st.mayHave() {
			m.owe(n, Ask{Key: l.key, Token: l.token, Next: next})
		}
	}
}

// owe has a node release something before it is asked for anything more.
func (m *Machine) owe(n *node, ask Ask) {
	n.owed = append(n.owed, ask)
	n.owedAt, n.owedUntil = m.aged, m.aged+m.tm.try+m.cfg.TTL
}

// unlist owes every node that may list this machine to take it off the lists of
// the keys that are wanted.
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

// mostFree reports whether a majority of the nodes owes no release.
func (m *Machine) mostFree() bool {
	free := 0
	for i := range m.nodes {
		if len(m.nodes[i].owed) == 0 {
			free++
		}
	}
	return free >= m.majority()
}

// freed takes the answer to a release.
func (m *Machine) freed(n *node, c *call) {
	if n.seen.err != nil {
		n.deaf++
		n.owedAt = m.aged + m.cfg.TTL/16
		return
	}
	n.deaf = 0
	n.owed = n.owed[c.frees:] // what has come to be owed since stays
}

// whole says what is wrong with the shape of an answer.
func (c BallotReply) whole(asks int) error {
	if len(c.Yes) != asks || len(c.Holders) != asks {
		return fmt.Errorf("the node gave %d votes and %d holders for %d asks", len(c.Yes), len(c.Holders), asks)
	}
	return nil
}
