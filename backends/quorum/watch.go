package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// seen is the state of a node, from its answers.
type seen struct {
	err       error // of its last answer; nil: none
	trouble   error // last err since it voted: a release of nothing needs no disk, so it proves little
	errors    uint64
	answers   uint64
	votesFrom time.Time // while it abstains

	// clock is the node's time halfway between call and answer, at is that instant by the local
	// monotonic clock, and aged is the time base when the answer arrived.
	clock time.Time
	at    time.Duration
	aged  time.Duration
}

// NodeView is a machine's view of a node, for status and metrics.
type NodeView struct {
	Name      string
	Has       int       // held keys that the node is known to have promised to this machine
	Owes      int       // keys whose release it has not confirmed
	Err       error     // error of the last failed call; nil if there was none, or it has voted since
	Answers   uint64    // number of calls it has answered
	Errors    uint64    // number of calls that failed or timed out
	VotesFrom time.Time // set while it abstains: time of its next vote, by its own clock
}

// Keys returns the held keys, in the order in which they were won.
func (m *Machine) Keys() []string {
	keys := make([]string, len(m.held))
	for i, l := range m.held {
		keys[i] = l.key
	}
	return keys
}

// Settled reports whether no call is under way and no node owes a release.
func (m *Machine) Settled() bool {
	return !slices.ContainsFunc(m.nodes, func(n node) bool { return n.call != nil || len(n.owed) > 0 })
}

// parted reports whether each node has confirmed all releases, or failed to twice.
func (m *Machine) parted() bool {
	return !slices.ContainsFunc(m.nodes, func(n node) bool { return n.deaf < 2 && (n.call != nil || len(n.owed) > 0) })
}

// Nodes returns a view of each node, in the order of Config.Nodes.
func (m *Machine) Nodes() []NodeView {
	views := make([]NodeView, len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i]
		views[i] = NodeView{
			Name: m.cfg.Nodes[i], Owes: len(n.owed), Err: n.seen.trouble,
			Answers: n.seen.answers, Errors: n.seen.errors, VotesFrom: n.seen.votesFrom,
		}
		for _, l := range m.held {
			if l.at[i].answer == Yes {
				views[i].Has++
			}
		}
	}
	return views
}

// clockOff returns how far the process's wall clock is ahead of the node's.
func (s *seen) clockOff(now clock.Now) time.Duration {
	return now.Wall.Sub(s.clock.Add(now.Mono - s.at))
}

// median returns the median of clock offsets.
func median(off []time.Duration) time.Duration {
	slices.Sort(off)
	low, high := off[(len(off)-1)/2], off[len(off)/2]
	return low + (high-low)/2
}

// learn records what an answer reveals about a node.
func (m *Machine) learn(n *node, c *call, r Reply) {
	err := r.Err
	if err == nil && c.frees == 0 {
		err = r.Ballot.validate(len(c.asks))
	}
	n.seen.learn(r.Ballot, err, c.frees == 0, c.sent.Mono, m.last.Mono, m.aged)
	if err == nil && m.last.Mono-c.sent.Mono < m.cfg.Hedge {
		m.cfg.LateNodes.late[r.Node].Store(false)
	}
}

// learn records the answer to a call, with the monotonic times of call and answer, and the time
// base at the answer.
func (s *seen) learn(b BallotReply, err error, vote bool, sent, answered, aged time.Duration) {
	s.err = err
	if err != nil {
		s.trouble = err
		s.errors++
		return
	}
	s.answers++
	if !vote {
		return
	}
	s.trouble, s.votesFrom = nil, time.Time{}
	if b.Abstained {
		s.votesFrom = b.VotesFrom
	}
	s.clock, s.at, s.aged = b.Time, (sent+answered)/2, aged
}

// Stats counts the events of a machine since its creation.
type Stats struct {
	Tries    uint64 // attempts to acquire keys
	Won      uint64 // tries that acquired their keys
	Refused  uint64 // tries that did not
	Renewals uint64 // rounds in which a majority renewed all keys
	Lost     uint64 // losses of all held keys
	Forced   uint64 // faulty holders that nodes were requested to remove
	Repaired uint64 // keys without an expiry, or with one too far ahead, that nodes gave a new one

	// Votes: nodes' answers about single keys, by kind.
	Yes, No, Abstained, Failed uint64

	Acquiring time.Duration // total time from Acquire until its keys were held
	Waited    time.Duration // part of it before the ballots of the tries that won
}

// Stats returns the counts.
func (m *Machine) Stats() Stats { return m.stats }

// Plus returns the sum of the counts of two machines.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		Tries: s.Tries + t.Tries, Won: s.Won + t.Won, Refused: s.Refused + t.Refused,
		Renewals: s.Renewals + t.Renewals, Lost: s.Lost + t.Lost, Forced: s.Forced + t.Forced, Repaired: s.Repaired + t.Repaired,
		Yes: s.Yes + t.Yes, No: s.No + t.No, Abstained: s.Abstained + t.Abstained, Failed: s.Failed + t.Failed,
		Acquiring: s.Acquiring + t.Acquiring, Waited: s.Waited + t.Waited,
	}
}
