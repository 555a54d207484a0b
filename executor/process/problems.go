package process

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/shard"
	"salectl/executor/status"
)

// downAfter is how many answers of a node have to fail until it is a problem: a node that is slow once
// is none.
const downAfter = 2

// unreadAfter is how long ago the last good read of the sale's log is until it is a problem.
const unreadAfter = 2 * time.Second

// nodeProblems returns the problems of the lock nodes.
func nodeProblems(nodes []ownership.NodeStatus) (all []status.Problem) {
	for _, n := range nodes {
		if !n.Up && n.Failures >= downAfter {
			all = append(all, status.Problem{Kind: status.NodeDown, Where: n.Name, Since: n.Since, Why: n.Error})
		}
		if !n.VotesFrom.IsZero() {
			why := "it votes again at " + n.VotesFrom.UTC().Format(time.RFC3339)
			all = append(all, status.Problem{Kind: status.NodeAbstains, Where: n.Name, Why: why})
		}
		if n.Ahead.Abs() > quorum.MaxTTL {
			why := "it is ahead by " + n.Ahead.Round(time.Millisecond).String()
			all = append(all, status.Problem{Kind: status.NodeClock, Where: n.Name, Why: why})
		}
	}
	return all
}

// CompileProblems returns the problems that this process has now: those that it has whether or not it
// serves, and those of its session.
func (m *Machine) CompileProblems(now clock.Now) (ofProcess, ofSession []status.Problem) {
	ofProcess = m.processProblems(now)
	if m.session != nil {
		ofSession = m.sessionProblems(now)
	}
	return ofProcess, ofSession
}

// Publish replaces the problems that Status has, each of one shard at most; nil: they are not known.
func (m *Machine) Publish(all []status.Problem) { m.problems.Store(&all) }

// Problems returns the problems that were published last. It is safe for concurrent use.
func (m *Machine) Problems() []status.Problem { return *m.problems.Load() }

// processProblems returns the problems that a process has whether or not it serves.
func (m *Machine) processProblems(now clock.Now) []status.Problem {
	h := m.health.Load()
	all := nodeProblems(h.Nodes)
	if h.ClockOff != 0 {
		all = append(all, h.wrongClock())
	}
	if h.NoMajority {
		all = append(all, h.noMajority())
	}
	if h.Unread != nil && now.Wall.Sub(h.Logged.ReadAt) >= unreadAfter {
		all = append(all, h.unread())
	}
	// Nothing that salectl does deletes the log of a live run. It is gone when it is found so twice,
	// since a read may lag.
	if gone := h.Missing; gone != nil && gone == m.missing {
		why := fmt.Sprintf("its uid is %s, its generation was %d, and %d slots of it were read", gone.UID, gone.Generation, h.Seen)
		all = append(all, status.Problem{Kind: status.SaleLogGone, Where: fmt.Sprint(gone.Run), Why: why})
	}
	m.missing = h.Missing
	return all
}

// sessionProblems returns the problems of the present session.
func (m *Machine) sessionProblems(now clock.Now) []status.Problem {
	all := m.Ownership.PeerProblems(now)
	if idle := m.health.Load().Idle; idle != "" {
		all = append(all, status.Problem{Kind: status.Idle, Why: idle})
	}
	if e := m.session.eligibility.Load(); e != nil {
		if p := e.problem.Load(); p != nil {
			all = append(all, *p)
		}
	}
	for _, s := range m.session.locals() {
		if s.Serves() {
			delete(m.broken, s.Number())
		}
	}
	for _, i := range slices.Sorted(maps.Keys(m.broken)) {
		if x := m.broken[i]; x.times > 1 {
			all = append(all, status.OfShard(status.ShardLogBroken, i, time.Time{}, x.why))
		}
	}
	all = append(all, m.session.stalls()...)
	for _, s := range m.session.locals() {
		i := s.Number()
		if by := s.WasSetBack(); by != 0 {
			all = append(all, status.OfShard(status.ShardLogAhead, i, time.Time{}, "it was ahead by "+by.Round(time.Millisecond).String()))
		}
		if s.Status().Bytes >= largeLog {
			all = append(all, status.OfShard(status.ShardLogLarge, i, time.Time{}, "it has reached a quarter of the 1 GiB that a store may refuse"))
		}
	}
	return all
}

// largeLog is the size from which a shard's log is a problem. A log is kept whole, in one row, and
// HBase refuses rows of 1 GiB.
const largeLog = 256 << 20

// brokenLog is a shard's log that this process could not go on with.
type brokenLog struct {
	why   string
	times int // that it was found so, for any reason
}

// foundBroken notes that the machine of a shard has ended because its log is gone or damaged. That is a
// problem when it is found so for the second time: a sale that is being destroyed has no logs either,
// until its own log is read again.
func (m *Machine) foundBroken(i int, why error) {
	if !errors.Is(why, ledger.ErrGone) && !errors.Is(why, ledger.ErrCorrupt) {
		return
	}
	text := fmt.Sprintf("%s; %d slots of it were read before", shard.OneLine(why), m.session.totals.Seen(i))
	m.broken[i] = brokenLog{text, m.broken[i].times + 1}
}
