package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// Group holds keys by majority vote of some nodes, independently of each other: each key is won
// and lost on its own, as a state machine of its own (key). The calls for all keys are combined.
// A Group does no I/O and starts no goroutines: every input gets the time and returns the Effects
// to carry out. It is not safe for concurrent use.
//
// While the Validity of a key lasts, a majority of the nodes has promised the key to this
// group alone. This requires that the clocks of nodes and process differ in speed by less than
// 1%, and that a node that lost its memory abstains (see Node). Validity counts from before the
// first ballot was sent, so before any node can start to count its ttl. Neither clock can detect
// one case: a wall clock set back by as much as the host was suspended, with no input in between.
//
// A node has at most one call of a group under way. So calls to a node are ordered, a release
// always follows its ballot, and nothing stale is queued for a node that hangs. If the call
// fails, every try that waits for the node gets the error. All held keys are renewed at once, and
// refused keys are retried at once, so the number of calls does not grow with the number of keys.
type Group struct {
	cfg Config
	tm  times
	pace

	timeline

	keys    []*key // in order of their first Acquire
	byName  map[string]*key
	nodes   []groupNode
	watched bool   // nodes notify of freed keys
	seq     uint64 // number of the last call
	stats   Stats
	out     Effects
}

// groupNode is the state of one node of a group.
type groupNode struct {
	call *groupCall // under way; nil: free
	last due        // kind of the last call: releases and ballots alternate
	seen seen
}

// groupCall is one call that combines requests of several keys.
type groupCall struct {
	seq   uint64
	sent  time.Duration // monotonic
	vote  bool
	parts []part
}

// part is one key's share of a groupCall.
type part struct {
	k        *key
	releases int // of a release: number of its requests

	// Of a ballot, which has one request for each part:
	lease *lease
	round uint64
	renew bool
}

// NewGroup returns a group that holds nothing.
func NewGroup(cfg Config) (*Group, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Nodes = slices.Clone(cfg.Nodes)
	if cfg.LateNodes == nil {
		cfg.LateNodes = NewLateNodes(len(cfg.Nodes))
	}
	return &Group{
		cfg: cfg, tm: timesOf(cfg.TTL), pace: newPace(cfg),
		byName: make(map[string]*key), nodes: make([]groupNode, len(cfg.Nodes)),
	}, nil
}

// Acquire requests keys, each independently, and retries each until it is won or released. It
// does nothing for a key that is held or wanted. A lost key is not wanted any more until the
// next Acquire for it.
func (g *Group) Acquire(now clock.Now, names ...string) Effects {
	g.observe(now)
	for _, name := range names {
		k := g.byName[name]
		if k == nil {
			k = &key{g: g, name: name, nodes: make([]node, len(g.nodes)), round: round{wide: true}}
			g.keys = append(g.keys, k)
			g.byName[name] = k
		}
		if k.state == Released || k.state == Lost {
			k.acquire()
		}
	}
	return g.effects()
}

// Release releases keys, or ends the tries for them. From now on they are neither valid nor
// wanted. A Freed event follows for each key once the nodes have confirmed the release. Nodes
// keep a held key for the waiter next for HandOver; next is the Config.Waiter of its group, ""
// for none.
func (g *Group) Release(now clock.Now, next string, names ...string) Effects {
	g.observe(now)
	for _, name := range names {
		if k := g.byName[name]; k != nil {
			k.release(next)
		}
	}
	return g.effects()
}

// Woken handles the notification that keys are released for this group, or that a node sends
// such notifications from now on. Wanted keys are tried at once, and again at once if the try
// under way is refused.
func (g *Group) Woken(now clock.Now, names ...string) Effects {
	g.observe(now)
	g.watched = true
	for _, name := range names {
		switch k := g.byName[name]; {
		case k == nil || k.state != Acquiring:
		case k.lease != nil:
			k.woken = true
		default:
			k.retryAt = g.aged
			k.advance()
		}
	}
	return g.effects()
}

// waiting sets how long this group counts as having waited for a key. Nodes notify the waiter
// with the longest time first. From Acquire on, the time grows by itself.
func (g *Group) waiting(name string, waited time.Duration) {
	if k := g.byName[name]; k != nil {
		k.waitFrom = g.aged - waited
	}
}

// queryWaiters renews a held key, and queries with the renewal whether the key's lists are empty.
func (g *Group) queryWaiters(now clock.Now, name string) Effects {
	g.observe(now)
	if k := g.byName[name]; k != nil && k.state == Held {
		k.begin()
		k.round.queryWaiters = true
	}
	return g.effects()
}

// hasNoWaiters reports whether a majority of the nodes has answered the last query for the waiters of a
// key and has none on its lists. Every waiter is on the lists of a majority.
func (g *Group) hasNoWaiters(name string) bool {
	k := g.byName[name]
	return k != nil && k.state == Held && k.round.queryWaiters && k.lease.noWaiters >= g.majority()
}

// Tick advances the time. An early or unneeded Tick does no harm.
func (g *Group) Tick(now clock.Now) Effects {
	g.observe(now)
	return g.effects()
}

// Reply handles the reply to a call. A duplicate reply is ignored.
func (g *Group) Reply(now clock.Now, r Reply) Effects {
	// Advance the time first: no reply restores an expired key, or continues a try that took too
	// long.
	g.observe(now)
	n := &g.nodes[r.Node]
	c := n.call
	if c == nil || c.seq != r.Seq {
		return g.effects()
	}
	n.call = nil
	if r.Err == nil && c.vote {
		r.Err = r.Ballot.validate(len(c.parts))
	}
	n.seen.record(r.Ballot, r.Err, c.vote, c.sent, g.last.Mono, g.aged)
	if r.Err == nil {
		g.stats.Repaired += uint64(r.Ballot.Repaired)
		if g.last.Mono-c.sent < g.cfg.Hedge {
			g.cfg.LateNodes.late[r.Node].Store(false)
		}
	}
	for i, p := range c.parts {
		p.k.nodes[r.Node].inFlight = dueNothing
		if c.vote {
			p.k.count(r.Node, p, i, r.Ballot)
			p.k.decide()
		} else {
			p.k.freed(r.Node, p.releases)
		}
		p.k.advance()
	}
	if r.Err != nil {
		for _, k := range g.keys {
			if k.state == Acquiring {
				k.decide() // a try that has not queried the node yet no longer waits for it
			}
		}
	}
	return g.effects()
}

// observe advances the time, and lets each key for which something is due proceed.
func (g *Group) observe(now clock.Now) {
	g.timeline.advance(now)
	for _, k := range g.keys {
		if k.next() <= g.aged {
			k.expire()
			k.advance()
		}
	}
}

// effects emits the next call of every free node, drops keys that are neither wanted nor on any
// node, and returns the collected effects.
func (g *Group) effects() Effects {
	next := never
	for i := range g.nodes {
		next = min(next, g.serve(i))
	}
	for _, k := range g.keys {
		k.emitFreed()
		next = min(next, k.next())
	}
	g.keys = slices.DeleteFunc(g.keys, g.drop)
	out := g.out
	g.out = Effects{}
	out.Wake = g.mono(next)
	return out
}

// drop removes a key that is neither wanted nor on any node, and reports whether it was one.
func (g *Group) drop(k *key) bool {
	unused := !k.releasing && (k.state == Released || k.state == Lost)
	if unused {
		delete(g.byName, k.name)
	}
	return unused
}

// serve emits the next call of a free node: all pending requests of one kind. It returns the time
// at which the node's next release falls due; never for a busy node, whose reply is followed by all
// pending requests.
func (g *Group) serve(i int) time.Duration {
	n := &g.nodes[i]
	if n.call != nil {
		return never
	}
	next := never
	var any [dueBallot + 1]bool
	for _, k := range g.keys {
		any[k.due(i)] = true
		next = min(next, k.nodes[i].nextRelease())
	}
	switch {
	case any[dueRelease] && !(any[dueBallot] && n.last == dueRelease):
		g.send(i, dueRelease)
	case any[dueBallot]:
		g.send(i, dueBallot)
	default:
		return next
	}
	return never
}

// send combines all keys' requests of one kind into one call to a node.
func (g *Group) send(i int, kind due) {
	g.seq++
	c := &groupCall{seq: g.seq, sent: g.last.Mono, vote: kind == dueBallot, parts: make([]part, 0, len(g.keys))}
	requests := make([]LeaseRequest, 0, len(g.keys))
	for _, k := range g.keys {
		if k.due(i) != kind {
			continue
		}
		n := &k.nodes[i]
		n.inFlight = kind
		if c.vote {
			request := k.ballot(i)
			requests = append(requests, request)
			c.parts = append(c.parts, part{k: k, lease: k.lease, round: k.round.id, renew: request.Renew})
		} else {
			requests = append(requests, n.releases...)
			c.parts = append(c.parts, part{k: k, releases: len(n.releases)})
		}
	}
	out := Call{Node: i, Seq: g.seq, Timeout: CallTimeout(g.cfg.TTL)}
	if c.vote {
		out.Vote = &Ballot{Marker: g.cfg.Marker, TTL: g.cfg.TTL, Requests: requests}
	} else {
		out.Release = requests
	}
	g.nodes[i].call, g.nodes[i].last = c, kind
	g.out.Calls = append(g.out.Calls, out)
}

// emit adds an event, or merges it into the last one if they differ only in keys.
func (g *Group) emit(e Event) {
	if n := len(g.out.Events); n > 0 && e.Cause == nil {
		if last := &g.out.Events[n-1]; last.Kind == e.Kind {
			last.Keys = append(last.Keys, e.Keys...)
			return
		}
	}
	g.out.Events = append(g.out.Events, e)
}

// majority returns the size of a majority.
func (g *Group) majority() int { return len(g.nodes)/2 + 1 }

// State returns the state of a key.
func (g *Group) State(name string) State {
	if k := g.byName[name]; k != nil {
		return k.state
	}
	return Released
}

// Validity returns the validity of a key's lease.
func (g *Group) Validity(name string) Validity {
	k := g.byName[name]
	if k == nil || k.state != Held {
		return Validity{}
	}
	return Validity{from: g.last, left: k.lease.since + g.tm.valid - g.aged}
}

// Idle reports whether no call is under way and every node has confirmed its releases.
func (g *Group) Idle() bool {
	return !slices.ContainsFunc(g.keys, func(k *key) bool { return !k.idle(false) })
}

// idleExceptFailed is like Idle, except that it ignores nodes that have failed twice to
// confirm a release.
func (g *Group) idleExceptFailed() bool {
	return !slices.ContainsFunc(g.keys, func(k *key) bool { return !k.idle(true) })
}

// unconfirmed returns the number of releases that a node has not confirmed.
func (g *Group) unconfirmed(i int) (n int) {
	for _, k := range g.keys {
		n += len(k.nodes[i].releases)
	}
	return n
}

// majorityConfirmed reports whether a majority of the nodes has confirmed all releases.
func (g *Group) majorityConfirmed() bool {
	free := 0
	for i := range g.nodes {
		if g.unconfirmed(i) == 0 {
			free++
		}
	}
	return free >= g.majority()
}

// Node returns a view of a node.
func (g *Group) Node(i int) NodeView {
	s := &g.nodes[i].seen
	return NodeView{Err: s.errSinceVote, VotesFrom: s.votesFrom}
}

// Stats returns the counts since the group was created: one renewal of 1,024 keys counts as
// 1,024 renewals.
func (g *Group) Stats() Stats { return g.stats }

// ClockOff returns the median of NodeClockOff over all nodes; false without a majority of them.
func (g *Group) ClockOff(now clock.Now) (time.Duration, bool) {
	var off []time.Duration
	for i := range g.nodes {
		if d, ok := g.NodeClockOff(now, i); ok {
			off = append(off, d)
		}
	}
	if len(off) < g.majority() {
		return 0, false
	}
	return median(off), true
}

// NodeClockOff returns how far this process's wall clock is ahead of one node's; false if the
// node did not report its time within the last ttl.
func (g *Group) NodeClockOff(now clock.Now, node int) (time.Duration, bool) {
	s := &g.nodes[node].seen
	if s.clock.IsZero() || g.at(now)-s.aged > g.cfg.TTL {
		return 0, false
	}
	return now.Wall.Sub(s.clock.Add(now.Mono - s.at)), true
}
