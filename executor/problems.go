package executor

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

// lookEvery is how often the list of problems is compiled.
const lookEvery = time.Second

// downAfter is how many answers of a node have to fail until it is a problem: a node that is slow once
// is none.
const downAfter = 2

// awayAfter is how long a process that the lock nodes list is not reached until it is a problem. They
// list one that was killed for a ttl, and none that has ended.
const awayAfter = 2 * time.Second

// unreadAfter is how long ago the last good read of the sale's log is until it is a problem.
const unreadAfter = 2 * time.Second

// nodeProblems returns the problems of the lock nodes.
func nodeProblems(nodes []NodeStatus) (all []status.Problem) {
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

// peerProblems returns the processes of the sale that this one does not reach, and whether it is
// isolated.
func peerProblems(now clock.Now, r ownership.Reach, address string) (all []status.Problem) {
	for _, p := range r.Peers {
		if !p.Up && p.Since != 0 && now.Mono >= p.Since+awayAfter {
			all = append(all, status.Problem{Kind: status.PeerUnreached, Where: p.Address})
		}
	}
	if r.Isolated {
		why := fmt.Sprintf("it reaches %d of %d others, and the ttl is %v", r.Reached-1, r.Counted-1, r.TTL)
		all = append(all, status.Problem{Kind: status.Isolated, Where: address, Why: why})
	}
	return all
}

// problems returns the problems that a process has whether or not it serves.
func (r *runner) problems() []status.Problem {
	h := r.health.Load()
	all := nodeProblems(h.Nodes)
	if h.ClockOff != 0 {
		all = append(all, h.wrongClock())
	}
	if h.NoMajority {
		all = append(all, h.noMajority())
	}
	if h.Unread != nil && r.clock().Wall.Sub(h.Logged.ReadAt) >= unreadAfter {
		all = append(all, h.unread())
	}
	if err := r.e.payloads.failed.Load(); err != nil {
		all = append(all, status.Problem{Kind: status.Payloads, Why: shard.OneLine(*err)})
	}
	// Nothing that salectl does deletes the log of a live run. It is gone when it is found so twice,
	// since a read may lag.
	if gone := h.Missing; gone != nil && gone == r.missing {
		why := fmt.Sprintf("its uid is %s, its generation was %d, and %d slots of it were read", gone.UID, gone.Generation, h.Seen)
		all = append(all, status.Problem{Kind: status.SaleLogGone, Where: fmt.Sprint(gone.Run), Why: why})
	}
	r.missing = h.Missing
	return all
}

// sessionProblems returns the problems of the present session.
func (r *runner) sessionProblems(now clock.Now) []status.Problem {
	all := peerProblems(now, r.owner.Reach(now), r.cfg.Address)
	if idle := r.health.Load().Idle; idle != "" {
		all = append(all, status.Problem{Kind: status.Idle, Why: idle})
	}
	if e := r.session.eligibility.Load(); e != nil {
		if p := e.problem.Load(); p != nil {
			all = append(all, *p)
		}
	}
	for _, s := range r.session.locals() {
		if s.Serves() {
			delete(r.broken, s.Number())
		}
	}
	for _, i := range slices.Sorted(maps.Keys(r.broken)) {
		if x := r.broken[i]; x.times > 1 {
			all = append(all, status.OfShard(status.ShardLogBroken, i, time.Time{}, x.why))
		}
	}
	all = append(all, r.session.stalls()...)
	for _, s := range r.session.locals() {
		i := s.Number()
		if by := s.WasSetBack(); by != 0 {
			all = append(all, status.OfShard(status.ShardLogAhead, i, time.Time{}, "it was ahead by "+by.Round(time.Millisecond).String()))
		}
		if bytes := s.Bytes(); bytes >= largeLog {
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
	times int // that it was found so, for whichever reason
}

// foundBroken takes in the end of a shard's machine. A log that is gone or damaged is a problem when it
// is found so for the second time: a sale that is being destroyed has no logs either, until its own
// log is read again.
func (r *runner) foundBroken(end shardEnd) {
	if !errors.Is(end.why, ledger.ErrGone) && !errors.Is(end.why, ledger.ErrCorrupt) {
		return
	}
	why := fmt.Sprintf("%s; %d slots of it were read before", shard.OneLine(end.why), r.session.totals.Seen(end.shard))
	r.broken[end.shard] = brokenLog{why, r.broken[end.shard].times + 1}
}

// look compiles the list of problems, and logs what has changed.
func (r *runner) look() {
	now, log := r.clock(), r.e.cfg.Logger.With("sale", r.e.cfg.Sale)
	all := r.problems()
	r.process.Report(now, all, log)
	if r.session != nil {
		r.logShare(log)
		ofSession := r.sessionProblems(now)
		r.ofSession.Report(now, ofSession, log)
		all = append(all, ofSession...)
	}
	all = slices.DeleteFunc(all, func(p status.Problem) bool { return p.Past })
	r.e.problems.Store(&all)
}
