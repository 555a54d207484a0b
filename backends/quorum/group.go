package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// Group holds keys one by one: each is won and lost by itself, though the calls of
// all travel together, one a node at a time.
//
// Each key has a Machine, which makes the promises of one for its key. A machine
// whose node is busy with a call of the group waits as one does whose own call is
// under way, so nothing stale is kept for a node that hangs, and when that call
// fails the tries that wait for the node know. Held keys are renewed all at once,
// and those that were refused are tried again all at once, so the number of calls
// does not grow with the number of keys.
//
// Like a Machine it does no I/O and is not safe for concurrent use.
type Group struct {
	cfg  Config
	tm   times
	pace *pace

	// aged is the time base of all machines, as Machine.aged is that of one. They
	// are told it as their wall time, so that a machine which is stepped seldom
	// ages by what the group has seen between.
	aged time.Duration
	last clock.Now

	members []*member // in the order in which they were first asked for
	byKey   map[string]*member
	nodes   []groupNode
	seq     uint64 // of the last call
	retired Stats  // of machines that are no more
	out     Effects
}

// member is a key of a Group and its machine.
type member struct {
	key  string
	m    *Machine
	next time.Duration // when it is to be stepped, by aged
	done bool          // nobody wants it, and no node has it
}

// NewGroup returns a group that holds nothing. Once and Hedge of cfg are of no
// meaning: a key is tried for until it is won or released, and nodes are asked all
// at once. Waiter is the name by which others give this process keys; nodes do not
// list it.
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
	g.cfg.Token = g.pace.token
	return g, nil
}

// Acquire asks for keys, each by itself, and goes on trying for each until it is won
// or released. To ask for one that is held or wanted does nothing; one that was lost
// is not wanted any more until it is asked for again.
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

// Release gives keys back, or stops trying for them. Freed tells of each when the
// nodes know, too. next is the waiter for whom they keep what was held for HandOver,
// by the Config.Waiter of its group; "": nobody.
func (g *Group) Release(now clock.Now, next string, keys ...string) Effects {
	g.observe(now)
	for _, key := range keys {
		if k := g.byKey[key]; k != nil {
			g.step(k, k.m.release(g.time(), next))
		}
	}
	return g.effects()
}

// Woken says that somebody gives keys back for this group: those that are wanted are
// tried for at once, and if a try is under way that is refused, at once again.
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

// Tick lets time pass. It does no harm early or without need.
func (g *Group) Tick(now clock.Now) Effects {
	g.observe(now)
	return g.effects()
}

// observe brings the time up to date, and tells it every machine for which something
// is due.
func (g *Group) observe(now clock.Now) {
	if g.last.Wall.IsZero() {
		g.last = now
	}
	g.aged += max(0, now.Since(g.last))
	g.last = now
	for _, k := range g.members {
		if k.next <= g.aged {
			g.step(k, k.m.Tick(g.time()))
		}
	}
}

// time is the present as machines are told it.
func (g *Group) time() clock.Now {
	return clock.Now{Mono: g.last.Mono, Wall: time.Unix(1, 0).Add(g.aged)}
}

// add gives a key its machine, which knows of the nodes what the group does.
func (g *Group) add(key string) *member {
	m := &Machine{
		cfg: g.cfg, tm: g.tm, nodes: make([]node, len(g.nodes)), round: round{wide: true},
		aged: g.aged, last: g.time(), group: g.pace,
	}
	m.cfg.Faulty = m.cfg.Faulty.withDefaults(m.cfg.TTL)
	for i := range m.nodes {
		m.nodes[i].seen = g.nodes[i].seen
	}
	k := &member{key: key, m: m, next: never}
	g.members = append(g.members, k)
	g.byKey[key] = k
	return k
}

// step takes in what a step of a machine has come to.
func (g *Group) step(k *member, e Effects) {
	for _, event := range e.Events {
		event.Keys = []string{k.key} // Freed of a machine names none
		if event.Kind == Freed {
			k.done = true
		}
		g.emit(event)
	}
	k.next = k.m.next()
}

// emit tells an event, in one with the last if nothing tells them apart.
func (g *Group) emit(e Event) {
	if n := len(g.out.Events); n > 0 && e.Cause == nil {
		if last := &g.out.Events[n-1]; last.Kind == e.Kind {
			last.Keys = append(last.Keys, e.Keys...)
			return
		}
	}
	g.out.Events = append(g.out.Events, e)
}

// effects gives every free node its next call, parts with machines that are done, and
// hands over what the shell has to do.
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
	out.Wake = wakeAt(g.last, g.aged, next)
	return out
}

// drop forgets a machine that is done.
func (g *Group) drop(k *member) bool {
	if k.done {
		g.retired = g.retired.Plus(k.m.stats)
		delete(g.byKey, k.key)
	}
	return k.done
}
