package quorum

import (
	"math"
	"slices"
	"time"

	"salectl/backends/clock"
)

// State is where a machine stands with its keys.
//
//	Released ──Acquire──▶ Acquiring ──majority──▶ Held ──out of time, or forgotten──▶ Lost
//
// Release leads from each of them to Released, Acquire from Lost to Acquiring.
// A refused machine that is to try only once goes from Acquiring to Released.
// More keys are acquired while others are held: the state stays Held.
type State int

// A machine begins as Released.
const (
	Released  State = iota // nothing is held and nothing wanted
	Acquiring              // keys are wanted, none is held
	Held                   // a majority of the nodes has promised the keys
	Lost                   // the keys were held, and may be somebody else's now
)

func (s State) String() string {
	return [...]string{"released", "acquiring", "held", "lost"}[s]
}

// Machine holds a growing set of keys by majority vote of some nodes. It does
// no I/O and starts nothing: every input takes the time and returns Effects to
// be carried out. It is not safe for concurrent use.
//
// The promise: while Validity says yes, a majority of the nodes has promised every
// held key to this machine and to nobody else, as long as the clocks of nodes
// and process differ in speed by less than one in a hundred and a node that
// lost its memory abstains (Node). Validity counts from the instant a ballot
// was handed out, before any node can have begun to count its ttl. (One thing
// neither of the two clocks can see: a wall clock set back by as much as the
// host was suspended, with no input between.)
//
// A node has at most one call of a machine under way. So what follows for a
// node always follows what it was sent before, a release its ballot too, and a
// node that hangs has nothing stale waiting for it.
//
// All keys are lost together. They have one token in common, except that a
// refused try is repeated under a new one: the release of the refused try may
// still be on its way, and would free what the same token has won since.
type Machine struct {
	cfg Config
	tm  times

	// aged is the time base of everything below: it adds up what passes between
	// one input and the next, on the faster of the two clocks each time.
	aged time.Duration
	last clock.Now // of the input that brought aged up to date

	state   State
	parting bool     // all was given back, and Freed is still due
	token   string   // for the keys of the next try; "": it needs a new one
	wants   []string // keys asked for and not held
	held    []*lease
	wanted  []*lease      // those of the try under way: one each of wants, or none
	since   time.Duration // when the oldest ballot was sent that a held key rests on

	round    round
	beats    uint64        // rounds begun, for the notes
	note     string        // of the ballots of the round; "": none is written yet
	refusals int           // tries refused in a row
	began    time.Duration // when the keys were first asked for that are wanted
	waitFrom time.Duration // since when it counts as waiting
	watched  bool          // nodes tell when a key is freed
	woken    bool          // a key was freed during the try under way: if that is refused, it goes on
	took     time.Duration // of the last try that won, from ballots to majority
	stale    int           // rounds in a row that did not renew every held key
	retryAt  time.Duration // when wants are tried again, if no try is under way
	renewAt  time.Duration // when held keys are renewed

	nodes []node
	spent spent
	seq   uint64 // of the last call
	stats Stats
	out   Effects

	sighted map[string][]sighting // of wanted keys: what each node says of who has them

	group *pace // what the machines of a Group have in common; nil: the machine is alone
}

// NewMachine returns a machine that holds nothing.
func NewMachine(cfg Config) (*Machine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Nodes = slices.Clone(cfg.Nodes)
	cfg.Faulty = cfg.Faulty.withDefaults(cfg.TTL)
	if cfg.LateNodes == nil {
		cfg.LateNodes = NewLateNodes(len(cfg.Nodes))
	}
	return &Machine{cfg: cfg, tm: timesOf(cfg.TTL), nodes: make([]node, len(cfg.Nodes)), round: round{wide: true}}, nil
}

// Acquire asks for keys, all or none of them. Keys that are held stay held
// whatever comes of it. Keys that were asked for before and are not held yet
// join the new ones: all or none of both.
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

// want adds to wants each key that is neither held nor wanted. It returns how
// many those were, and how many of the keys are not held.
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

// Reply takes the answer to a call. An answer that comes twice is ignored.
func (m *Machine) Reply(now clock.Now, r Reply) Effects {
	// Time first: a key whose time is up is lost, and a try that took too long
	// is over, whatever the answer says.
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

// Waiting says for how long whoever wants the keys counts as having waited. The
// nodes tell those who counts most first. From Acquire on it grows by itself.
func (m *Machine) Waiting(waited time.Duration) { m.waitFrom = m.aged - waited }

// Woken says that a node has freed a key while Config.Waiter was first on its
// list, or that it tells such news from now on.
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

// inquire renews what is held, and asks the nodes with it whether anybody waits for
// that.
func (m *Machine) inquire(now clock.Now) Effects {
	m.observe(now)
	if m.state == Held {
		m.begin()
		m.round.tell = true
	}
	return m.effects()
}

// alone reports whether a majority of the nodes has answered the inquiry that was made
// last, and has nobody on its lists. Whoever waits is on the lists of a majority.
func (m *Machine) alone() bool {
	return m.state == Held && m.round.tell && !slices.ContainsFunc(m.held, func(l *lease) bool { return l.alone < m.majority() })
}

// Tick lets time pass. It does no harm early or without need.
func (m *Machine) Tick(now clock.Now) Effects {
	m.observe(now)
	return m.effects()
}

// Release gives everything back and wants nothing any more. From now on no key
// is valid and none is asked for; Freed tells when the nodes know it too.
func (m *Machine) Release(now clock.Now) Effects { return m.release(now, "") }

// release gives everything back, what is held for a waiter who is next.
func (m *Machine) release(now clock.Now, next string) Effects {
	m.observe(now)
	m.dropAll(next)
	m.state, m.parting = Released, true
	for i := range m.nodes {
		m.nodes[i].deaf = 0
	}
	return m.effects()
}

// observe brings the time up to date and does what it alone decides.
func (m *Machine) observe(now clock.Now) {
	if m.last.Wall.IsZero() {
		m.last = now // the first input: nothing has aged yet
	}
	m.aged += max(0, now.Since(m.last))
	m.last = now
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

// effects begins what is due, gives every free node its next call, and hands
// over what the shell has to do.
func (m *Machine) effects() Effects {
	switch {
	case len(m.wants) > 0 && len(m.wanted) == 0 && m.aged >= m.retryAt:
		m.try()
	case m.state == Held && m.aged >= m.renewAt:
		m.begin()
	}
	if m.group != nil { // which serves the nodes when it has stepped all its machines
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

// part tells when all that was given back is forgotten by the nodes.
func (m *Machine) part() {
	if m.parting && m.Settled() {
		m.parting = false
		m.emit(Event{Kind: Freed})
	}
}

// take hands over what has gathered.
func (m *Machine) take() Effects {
	out := m.out
	m.out = Effects{}
	return out
}

// never is when nothing falls due.
const never = time.Duration(math.MaxInt64)

// wake returns the monotonic instant at which something falls due by itself.
func (m *Machine) wake() time.Duration {
	at := m.next()
	for i := range m.nodes {
		if n := &m.nodes[i]; n.call == nil {
			at = min(at, n.owedNext())
		}
	}
	return wakeAt(m.last, m.aged, at)
}

// wakeAt returns the monotonic instant of what falls due on the time base of aged, 0
// for never.
func wakeAt(last clock.Now, aged, at time.Duration) time.Duration {
	if at == never {
		return 0
	}
	return last.Mono + max(at-aged, 1)
}

// next returns when, on the time base of aged, something falls due by itself apart from
// releases.
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

// win makes the wanted keys held: each has its majority.
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
		// Who grants a key takes whoever has it now off its list.
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

// refuse ends the try under way, because of the key of l, and takes back what
// any node may have granted in it.
func (m *Machine) refuse(l *lease, why string) {
	if m.woken {
		// The holder gives the key back node by node. What has been granted so far
		// stays: to return it would pass the key to others here, and to us there.
		m.woken = false
		m.refusals++
		m.begin()
		return
	}
	e := Event{Kind: Refused, Keys: m.wants, Cause: m.failure(l, ErrRefused, why), Again: !m.cfg.Once}
	m.emit(e)
	m.stats.Refused++
	m.see(l)
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

// lose ends everything, because of the key of l.
func (m *Machine) lose(l *lease, why string) {
	m.stats.Lost++
	m.emit(Event{Kind: Losing, Keys: m.Keys(), Cause: m.failure(l, ErrLost, why)})
	m.dropAll("")
	m.state, m.parting = Lost, true
}

// dropAll forgets all keys and owes their release to the nodes, that of held keys
// for a waiter who is next.
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

// dropWanted ends a try without a word about it. Its token is spent.
func (m *Machine) dropWanted() {
	if len(m.wanted) == 0 {
		return
	}
	for _, l := range m.wanted {
		m.drop(l, "")
	}
	m.wanted, m.token = nil, ""
}

// longestPause bounds the pauses between rounds that fail, however long the ttl:
// a key that has fallen free, or a majority that is there again, is noticed well
// within a second.
const longestPause = 360 * time.Millisecond

// pause is how long to wait after a round that failed, and some before it. It
// grows, so that nodes which are gone cost little.
func (m *Machine) pause(before int) time.Duration {
	base := min(m.cfg.TTL/64<<min(before, 3), longestPause*2/3)
	if m.group != nil {
		return m.group.pause(m.aged, base/2, base/2+base)
	}
	return base/2 + time.Duration(m.cfg.Jitter()*float64(base))
}

// freeIn is how long it takes until the leases have run out that were in the way of the try
// under way, if nobody renews them; never: something else was.
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

// afterFree is how long after that instant it is tried at the latest: several may wait for it,
// and not all are to ask at once.
const afterFree = 8 * time.Millisecond

// pauseUntil is pause, but no longer than until leases have run out: their holder has died if it
// has not renewed them by then.
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
