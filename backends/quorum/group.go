package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// Group holds keys independently of each other: each is won and lost on its own. The calls for
// all keys are combined, with at most one call per node under way.
//
// Each key has a Machine, which gives Machine's guarantees for that key. While a call of the
// group to a node is under way, all machines wait for that node; nothing stale is queued for a
// node that hangs. If the call fails, every try that waits for the node learns of it. All held
// keys are renewed at once, and refused keys are retried at once, so the number of calls does
// not grow with the number of keys.
//
// Like a Machine, a Group does no I/O and is not safe for concurrent use.
type Group struct {
	cfg  Config
	tm   times
	pace *pace

	timeline // of all machines: they get aged as their wall time, so one that is stepped rarely ages as the group does

	members []*member // in order of their first Acquire
	byKey   map[string]*member
	nodes   []groupNode
	seq     uint64 // number of the last call
	retired Stats  // sums of the machines that were dropped
	out     Effects
}

// member is a key of a Group, with its machine.
type member struct {
	key  string
	m    *Machine
	next time.Duration // time of the next step, on the time base of aged
	done bool          // the key is not wanted and no node has it
}

// NewGroup returns a group that holds nothing. It ignores Once and Hedge of cfg: a key is
// retried until it is won or released, and all nodes are queried at once. Waiter is the ID by
// which others hand keys over to this group; nodes do not list it.
func NewGroup(cfg Config) (*Group, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Nodes = slices.Clone(cfg.Nodes)
	cfg.Once, cfg.Hedge = false, 0
	g := &Group{
		cfg: cfg, tm: timesOf(cfg.TTL), pace: newPace(cfg),
		byKey: make(map[string]*member), nodes: make([]groupNode, len(cfg.Nodes)),
	}
	return g, nil
}

// Acquire requests keys, each independently, and retries each until it is won or released. It
// does nothing for a key that is held or wanted. A lost key is not wanted any more until the
// next Acquire for it.
func (g *Group) Acquire(now clock.Now, keys ...string) Effects {
	g.observe(now)
	for _, key := range keys {
		k := g.byKey[key]
		if k == nil {
			k = g.add(key)
		}
		if k.m.state == Released || k.m.state == Lost {
			g.step(k, k.m.Acquire(g.time(), key))
		}
	}
	return g.effects()
}

// Release releases keys, or ends the tries for them. A Freed event follows for each key once
// the nodes have confirmed the release. Nodes keep a held key for the waiter next for HandOver;
// next is the Config.Waiter of its group, "" for none.
func (g *Group) Release(now clock.Now, next string, keys ...string) Effects {
	g.observe(now)
	for _, key := range keys {
		if k := g.byKey[key]; k != nil {
			g.step(k, k.m.release(g.time(), next))
		}
	}
	return g.effects()
}

// Woken handles the notification that another process releases keys for this group. Wanted keys
// are tried at once, and again at once if the try under way is refused.
func (g *Group) Woken(now clock.Now, keys ...string) Effects {
	g.observe(now)
	for _, key := range keys {
		k := g.byKey[key]
		switch {
		case k == nil || len(k.m.wants) == 0:
		case len(k.m.wanted) > 0:
			k.m.woken = true
		default:
			k.m.retryAt = g.aged
			g.step(k, k.m.Tick(g.time()))
		}
	}
	return g.effects()
}

// Tick advances the time. An early or unneeded Tick does no harm.
func (g *Group) Tick(now clock.Now) Effects {
	g.observe(now)
	return g.effects()
}

// observe advances the time, and steps every machine for which something is due.
func (g *Group) observe(now clock.Now) {
	g.advance(now)
	for _, k := range g.members {
		if k.next <= g.aged {
			g.step(k, k.m.Tick(g.time()))
		}
	}
}

// time returns the current time in the form that the machines get.
func (g *Group) time() clock.Now {
	return clock.Now{Mono: g.last.Mono, Wall: time.Unix(1, 0).Add(g.aged)}
}

// add creates the machine of a key, with what the group knows of the nodes.
func (g *Group) add(key string) *member {
	m := &Machine{
		cfg: g.cfg, tm: g.tm, nodes: make([]node, len(g.nodes)), round: round{wide: true},
		timeline: timeline{g.aged, g.time()}, tokens: g.pace.tokens, group: g.pace,
	}
	for i := range m.nodes {
		m.nodes[i].seen = g.nodes[i].seen
	}
	k := &member{key: key, m: m, next: never}
	g.members = append(g.members, k)
	g.byKey[key] = k
	return k
}

// step collects the effects of a machine's step.
func (g *Group) step(k *member, e Effects) {
	for _, event := range e.Events {
		event.Keys = []string{k.key} // a machine's Freed names no keys
		if event.Kind == Freed {
			k.done = true
		}
		g.emit(event)
	}
	k.next = k.m.next()
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

// effects gives every free node its next call, drops machines that are done, and returns the
// collected effects.
func (g *Group) effects() Effects {
	next := never
	for i := range g.nodes {
		next = min(next, g.serve(i))
	}
	done := false
	for _, k := range g.members {
		if k.m.parting {
			k.m.part()
			g.step(k, k.m.take())
		}
		next = min(next, k.next)
		done = done || k.done
	}
	if done {
		g.members = slices.DeleteFunc(g.members, g.drop)
	}
	out := g.out
	g.out = Effects{}
	out.Wake = g.mono(next)
	return out
}

// drop removes a machine that is done, and reports whether it was.
func (g *Group) drop(k *member) bool {
	if k.done {
		g.retired = g.retired.Plus(k.m.stats)
		delete(g.byKey, k.key)
	}
	return k.done
}

// State returns the state of a key.
func (g *Group) State(key string) State {
	if k := g.byKey[key]; k != nil {
		return k.m.state
	}
	return Released
}

// Validity returns the validity of a key's lease.
func (g *Group) Validity(key string) Validity {
	k := g.byKey[key]
	if k == nil || k.m.state != Held {
		return Validity{}
	}
	return Validity{from: g.last, left: k.m.since + g.tm.valid - g.aged}
}

// Settled reports whether no call is under way and no node owes a release.
func (g *Group) Settled() bool {
	return !slices.ContainsFunc(g.members, func(k *member) bool { return !k.m.Settled() })
}

// Nodes returns a view of each node, in the order of Config.Nodes.
func (g *Group) Nodes() []NodeView {
	views := make([]NodeView, len(g.nodes))
	for i := range g.nodes {
		s := &g.nodes[i].seen
		views[i] = NodeView{Name: g.cfg.Nodes[i], Err: s.trouble, Answers: s.answers, Errors: s.errors, VotesFrom: s.votesFrom}
	}
	for _, k := range g.members {
		for i := range views {
			views[i].Owes += len(k.m.nodes[i].owed)
			if k.m.state == Held && k.m.held[0].at[i].answer == Yes {
				views[i].Has++
			}
		}
	}
	return views
}

// Stats returns the sums of the statistics of all keys since the group was created: one renewal
// of 1,024 keys counts as 1,024 renewals.
func (g *Group) Stats() Stats {
	sum := g.retired
	for _, k := range g.members {
		sum = sum.Plus(k.m.stats)
	}
	return sum
}

// ClockOff returns the median of NodeClockOff over all nodes; false without a majority of them.
func (g *Group) ClockOff(now clock.Now) (time.Duration, bool) {
	var off []time.Duration
	for i := range g.nodes {
		if d, ok := g.NodeClockOff(now, i); ok {
			off = append(off, d)
		}
	}
	if len(off) <= len(g.nodes)/2 {
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
	return s.clockOff(now), true
}
