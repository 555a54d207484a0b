package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// State is the state of a machine.
//
//	Released ──Acquire──▶ Acquiring ──majority──▶ Held ──out of time, or forgotten──▶ Lost
//
// Release leads from each state to Released, Acquire from Lost to Acquiring. With Config.Once,
// a refusal leads from Acquiring to Released. Acquiring further keys leaves the state at Held.
type State int

// A machine begins as Released.
const (
	Released  State = iota // nothing is held and nothing wanted
	Acquiring              // keys are wanted, none is held
	Held                   // a majority of the nodes has promised the keys
	Lost                   // the keys were held; another process may hold them now
)

func (s State) String() string {
	return [...]string{"released", "acquiring", "held", "lost"}[s]
}

// Machine holds a growing set of keys by majority vote of some nodes. It does no I/O and starts
// no goroutines: every input gets the time and returns the Effects to carry out. It is not safe
// for concurrent use.
//
// While Validity is not over, a majority of the nodes has promised every held key to this
// machine alone. This requires that the clocks of nodes and process differ in speed by less
// than 1%, and that a node that lost its memory abstains (see Node). Validity counts from
// before the first ballot was sent, so before any node can start to count its ttl. Neither
// clock can detect one case: a wall clock set back by as much as the host was suspended, with
// no input in between.
//
// A node has at most one call of a machine under way. So calls to a node are ordered, a release
// always follows its ballot, and nothing stale is queued for a node that hangs.
//
// All keys are lost together. They share one token, but a refused try is repeated under a new
// token: the release of the refused try may still be in flight, and would release what the same
// token has won since.
type Machine struct {
	cfg Config
	tm  times

	timeline

	state   State
	parting bool     // all keys are released, and Freed is not emitted yet
	token   string   // token of the next try; "": a new one is needed
	wants   []string // keys requested and not held
	held    []*lease
	wanted  []*lease      // keys of the try under way: one for each of wants, or none
	since   time.Duration // send time of the oldest ballot that a held key relies on

	round    round
	beats    uint64        // rounds begun, for the notes
	note     string        // note of the round's ballots; "": not written yet
	refusals int           // tries refused in a row
	began    time.Duration // time of the last Acquire that added wanted keys
	waitFrom time.Duration // start of the waiting time
	watched  bool          // nodes notify of freed keys
	woken    bool          // a key was freed during the try under way: a refusal continues it
	took     time.Duration // duration of the last successful try, from ballots to majority
	stale    int           // consecutive rounds that did not renew every held key
	retryAt  time.Duration // time of the next try for wants, if none is under way
	renewAt  time.Duration // time of the next renewal

	nodes  []node
	tokens *tokens
	seq    uint64 // number of the last call
	stats  Stats
	out    Effects

	sighted map[string][]sighting // by wanted key: the holder that each node names

	group *pace // shared by the machines of a Group; nil: not in a Group
}

// NewMachine returns a machine that holds nothing.
func NewMachine(cfg Config) (*Machine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Nodes = slices.Clone(cfg.Nodes)
	if cfg.LateNodes == nil {
		cfg.LateNodes = NewLateNodes(len(cfg.Nodes))
	}
	return &Machine{
		cfg: cfg, tm: timesOf(cfg.TTL), nodes: make([]node, len(cfg.Nodes)), round: round{wide: true}, tokens: newTokens(cfg),
	}, nil
}

// Acquire requests keys, all or none of them. Held keys stay held whatever the result. Keys
// that were requested earlier and are not held yet join the request.
func (m *Machine) Acquire(now clock.Now, keys ...string) Effects {
	m.observe(now)
	fresh, missing := m.want(keys)
	switch {
	case fresh > 0:
		m.began = m.aged
		if m.state == Released || m.state == Lost {
			m.state, m.token, m.parting, m.refusals, m.woken = Acquiring, "", false, 0, false
			m.waitFrom = m.aged
		}
		m.dropWanted()
		m.try()
	case m.state == Held && missing == 0:
		m.emit(Event{Kind: Won, Keys: slices.Clone(keys)})
	}
	return m.effects()
}

// want adds each key that is neither held nor wanted to wants. It returns the number of added
// keys, and the number of keys that are not held.
func (m *Machine) want(keys []string) (fresh, missing int) {
	const held, wanted = 1, 2
	known := make(map[string]int, len(m.held)+len(m.wants)+len(keys))
	for _, l := range m.held {
		known[l.key] = held
	}
	for _, key := range m.wants {
		known[key] = wanted
	}
	for _, key := range keys {
		switch known[key] {
		case held:
			continue
		case 0:
			known[key] = wanted
			m.wants = append(m.wants, key)
			fresh++
		}
		missing++
	}
	return fresh, missing
}

// Reply handles the reply to a call. A duplicate reply is ignored.
func (m *Machine) Reply(now clock.Now, r Reply) Effects {
	// Advance the time first: an expired key is lost, and a try that took too long is over,
	// whatever the reply contains.
	m.observe(now)
	n := &m.nodes[r.Node]
	c := n.call
	if c == nil || c.seq != r.Seq {
		return m.effects()
	}
	n.call = nil
	m.learn(n, c, r)
	if c.frees > 0 {
		m.freed(n, c)
	} else {
		m.count(r.Node, c, r.Ballot)
		m.decide()
	}
	return m.effects()
}

// Waiting sets how long this machine counts as having waited for its keys. Nodes notify the
// waiter with the longest time first. From Acquire on, the time grows by itself.
func (m *Machine) Waiting(waited time.Duration) { m.waitFrom = m.aged - waited }

// Woken handles the notification that a node has freed a key and Config.Waiter was first on its
// list, or that the node sends such notifications from now on.
func (m *Machine) Woken(now clock.Now) Effects {
	m.observe(now)
	m.watched = true
	switch {
	case len(m.wants) == 0:
	case len(m.wanted) > 0:
		m.woken = true
	default:
		m.retryAt = m.aged
	}
	return m.effects()
}

// inquire renews the held keys, and queries with the renewal whether the keys' lists are empty.
func (m *Machine) inquire(now clock.Now) Effects {
	m.observe(now)
	if m.state == Held {
		m.begin()
		m.round.tell = true
	}
	return m.effects()
}

// alone reports whether a majority of the nodes has answered the last inquiry and has no waiter
// on its lists. Every waiter is on the lists of a majority.
func (m *Machine) alone() bool {
	return m.state == Held && m.round.tell && !slices.ContainsFunc(m.held, func(l *lease) bool { return l.alone < m.majority() })
}

// Tick advances the time. An early or unneeded Tick does no harm.
func (m *Machine) Tick(now clock.Now) Effects {
	m.observe(now)
	return m.effects()
}

// Release releases all keys and ends all tries. From now on no key is valid or wanted. A Freed
// event follows when the nodes have confirmed the release.
func (m *Machine) Release(now clock.Now) Effects { return m.release(now, "") }

// release is Release, with a waiter to hand the held keys over to; "" for none.
func (m *Machine) release(now clock.Now, next string) Effects {
	m.observe(now)
	m.dropAll(next)
	m.state, m.parting = Released, true
	for i := range m.nodes {
		m.nodes[i].deaf = 0
	}
	return m.effects()
}

// observe advances the time and applies what time alone decides.
func (m *Machine) observe(now clock.Now) {
	m.advance(now)
	if m.state == Held && m.aged >= m.since+m.tm.usable {
		m.lose(m.oldest(), "it could not be renewed in time")
	}
	if !m.round.wide && m.aged >= m.round.sent+m.cfg.Hedge {
		m.widen()
	}
	if len(m.wanted) > 0 && m.aged >= m.round.sent+m.tm.try {
		m.refuse(m.weakest(), "too few nodes answered in time")
	}
}

// effects starts what is due, gives every free node its next call, and returns the collected
// effects.
func (m *Machine) effects() Effects {
	switch {
	case len(m.wants) > 0 && len(m.wanted) == 0 && m.aged >= m.retryAt:
		m.try()
	case m.state == Held && m.aged >= m.renewAt:
		m.begin()
	}
	if m.group != nil { // the group serves the nodes after it has stepped all machines
		return m.take()
	}
	for i := range m.nodes {
		m.serve(i)
	}
	m.part()
	out := m.take()
	out.Wake = m.wake()
	return out
}

// part emits Freed once the nodes have forgotten all released keys.
func (m *Machine) part() {
	if m.parting && m.Settled() {
		m.parting = false
		m.emit(Event{Kind: Freed})
	}
}

// take returns the collected effects, and resets them.
func (m *Machine) take() Effects {
	out := m.out
	m.out = Effects{}
	return out
}

// wake returns the monotonic time at which the next Tick is due, 0 for never.
func (m *Machine) wake() time.Duration {
	at := m.next()
	for i := range m.nodes {
		if n := &m.nodes[i]; n.call == nil {
			at = min(at, n.owedNext())
		}
	}
	return m.mono(at)
}

// next returns when something other than a release falls due, on the time base of aged.
func (m *Machine) next() time.Duration {
	at := never
	if m.state == Held {
		at = min(m.since+m.tm.usable, m.renewAt)
	}
	if !m.round.wide {
		at = min(at, m.round.sent+m.cfg.Hedge)
	}
	switch {
	case len(m.wanted) > 0:
		at = min(at, m.round.sent+m.tm.try)
	case len(m.wants) > 0:
		at = min(at, m.retryAt)
	}
	return at
}

// win turns the wanted keys into held ones: each has its majority.
func (m *Machine) win() {
	m.took = m.aged - m.round.sent
	m.stats.Won++
	m.stats.Acquiring += m.aged - m.began
	m.stats.Waited += m.round.sent - m.began
	m.sighted = nil
	if m.state != Held {
		m.since = m.round.sent
	}
	for _, l := range m.wanted {
		l.held, l.won, l.since = true, m.round.id, m.round.sent
	}
	for i := range m.nodes {
		// A node that grants a key removes the new holder from the key's list.
		granted := func(l *lease) bool { return l.at[i].answer == Yes }
		if m.nodes[i].listed && !slices.ContainsFunc(m.wanted, func(l *lease) bool { return !granted(l) }) {
			m.nodes[i].listed = false
		}
	}
	m.unlist()
	m.emit(Event{Kind: Won, Keys: m.wants})
	m.held = append(m.held, m.wanted...)
	m.state, m.wants, m.wanted, m.refusals, m.woken = Held, nil, nil, 0, false
}

// refuse ends the try under way because of the key of l, and releases what nodes may have
// granted in it.
func (m *Machine) refuse(l *lease, why string) {
	if m.woken {
		// The holder releases the key node by node. Votes won so far stay: releasing them would
		// pass the key to others on these nodes, and to this machine on the rest.
		m.woken = false
		m.refusals++
		m.begin()
		return
	}
	e := Event{Kind: Refused, Keys: m.wants, Cause: m.failure(l, ErrRefused, why), Again: !m.cfg.Once}
	m.emit(e)
	m.stats.Refused++
	m.observeHolders(l)
	free := m.freeIn()
	m.dropWanted()
	if e.Again {
		m.retryAt = m.aged + m.pauseUntil(free, m.refusals)
		m.refusals++
		return
	}
	m.unlist()
	m.wants = nil
	if m.state == Acquiring {
		m.state, m.parting = Released, true
	}
}

// lose gives up all keys because of the key of l.
func (m *Machine) lose(l *lease, why string) {
	m.stats.Lost++
	m.emit(Event{Kind: Losing, Keys: m.Keys(), Cause: m.failure(l, ErrLost, why)})
	m.dropAll("")
	m.state, m.parting = Lost, true
}

// dropAll forgets all keys and queues their releases. Held keys are handed over to the waiter
// next, if not "".
func (m *Machine) dropAll(next string) {
	for _, l := range m.held {
		m.drop(l, next)
	}
	m.held = nil
	m.dropWanted()
	m.round.wide = true
	m.unlist()
	m.wants, m.sighted = nil, nil
}

// dropWanted ends a try without an event. Its token is not used again.
func (m *Machine) dropWanted() {
	if len(m.wanted) == 0 {
		return
	}
	for _, l := range m.wanted {
		m.drop(l, "")
	}
	m.wanted, m.token = nil, ""
}

// longestPause bounds the pauses between failed rounds, whatever the ttl: a freed key, or a
// majority that has recovered, is discovered well within a second.
const longestPause = 360 * time.Millisecond

// pause returns the delay after a failed round that was preceded by some other failed rounds.
// It grows, so that failed nodes cost little.
func (m *Machine) pause(before int) time.Duration {
	base := min(m.cfg.TTL/64<<min(before, 3), longestPause*2/3)
	if m.group != nil {
		return m.group.pause(m.aged, base/2, base/2+base)
	}
	return base/2 + time.Duration(m.cfg.Jitter()*float64(base))
}

// freeIn returns how long the leases that blocked the try under way still last unless they are
// renewed; never if something else blocked it.
func (m *Machine) freeIn() (longest time.Duration) {
	for _, l := range m.wanted {
		var left []time.Duration
		for i := range l.at {
			if h := l.at[i].holder; l.at[i].answer == No && h != nil && h.Left > 0 {
				left = append(left, h.Left)
			}
		}
		need := m.majority() - l.yes
		if need < 1 {
			continue
		}
		if len(left) < need {
			return never
		}
		slices.Sort(left)
		longest = max(longest, left[need-1])
	}
	if longest == 0 {
		return never
	}
	return longest
}

// afterFree is the maximum delay of a try after the blocking leases expire. The delay is
// random, since several processes may wait for the same lease.
const afterFree = 8 * time.Millisecond

// pauseUntil is pause, limited to when the blocking leases expire: a holder that has not
// renewed by then has died.
func (m *Machine) pauseUntil(free time.Duration, before int) time.Duration {
	d := m.pause(before)
	if free == never || d <= free+time.Millisecond {
		return d
	}
	if m.group != nil {
		return m.group.pause(m.aged, free+time.Millisecond, free+afterFree)
	}
	return free + time.Millisecond + time.Duration(m.cfg.Jitter()*float64(afterFree-time.Millisecond))
}

func (m *Machine) emit(e Event) { m.out.Events = append(m.out.Events, e) }
