package quorum

import (
	"slices"
	"time"

	"salectl/backends/clock"
)

// Line lets tests outside of the package step a line.
type Line struct{ line *line }

// Ticket is a ticket of a Line.
type Ticket = ticket

// LineEffects is what an input asks the shell of a Line to do.
type LineEffects struct {
	Calls             []Call
	Turned            []*Ticket
	Wake              time.Duration
	Watch, Free, Idle bool
}

func NewLine(m *Machine, order Order, keys ...string) *Line {
	return &Line{&line{m: m, order: order, keys: keys}}
}

// NewTicket returns a ticket that gives up at an instant of the monotonic clock,
// never if that is 0.
func NewTicket(priority int, once bool, until time.Duration) *Ticket {
	return &ticket{priority: priority, once: once, until: until}
}

func (t *ticket) State() string {
	return [...]string{"waits", "holds", "refused", "lost", "over"}[t.state]
}

func (t *ticket) Err() error { return t.err }

func outside(e lineEffects) LineEffects {
	return LineEffects{e.calls, e.turned, e.wake, e.watch, e.free, e.idle}
}

func (l *Line) Join(now clock.Now, t *Ticket) LineEffects  { return outside(l.line.join(now, t)) }
func (l *Line) Leave(now clock.Now, t *Ticket) LineEffects { return outside(l.line.leave(now, t)) }
func (l *Line) Reply(now clock.Now, r Reply) LineEffects   { return outside(l.line.reply(now, r)) }
func (l *Line) Tick(now clock.Now) LineEffects             { return outside(l.line.tick(now)) }
func (l *Line) Woken(now clock.Now) LineEffects            { return outside(l.line.woken(now)) }

// Keepers returns how many keys are being cared for.
func (k *Locks) Keepers() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.keepers)
}

// State returns where the machine stands.
func (m *Machine) State() State { return m.state }

// Valid reports whether all held keys still are ours, and there are any.
func (m *Machine) Valid(now clock.Now) bool { return m.Validity().At(now) }

// ValidUntil returns the monotonic instant at which the held keys stop being
// ours, 0 if none are held.
func (m *Machine) ValidUntil() time.Duration { return m.Validity().Until() }

// Holds reports whether a key is among those held.
func (m *Machine) Holds(key string) bool {
	return slices.ContainsFunc(m.held, func(l *lease) bool { return l.key == key })
}

// Machines returns how many keys the group has a machine for.
func (g *Group) Machines() int { return len(g.members) }

// Pace lets tests outside of the package ask when machines of a group go on.
type Pace struct{ pace *pace }

func NewPace(cfg Config) Pace { return Pace{newPace(cfg)} }

func (p Pace) Renewal(aged time.Duration) time.Duration { return p.pace.renewal(aged) }

func (p Pace) Pause(aged, least, most time.Duration) time.Duration {
	return p.pace.pause(aged, least, most)
}

func (p Pace) Instants() int { return len(p.pace.tries) }

// Keys returns the keys that are held, in the order in which they were asked for.
func (g *Group) Keys() (keys []string) {
	for _, k := range g.members {
		if k.m.state == Held {
			keys = append(keys, k.key)
		}
	}
	return keys
}

// ClockOff returns how far this process's wall clock is ahead of the median of
// the nodes' clocks (the mean of the middle two, where their number is even).
// Only answers of the last ttl count; false if fewer than a majority of the
// nodes gave one. Each clock is known to half the time its answer took.
func (m *Machine) ClockOff(now clock.Now) (time.Duration, bool) {
	var off []time.Duration
	for i := range m.nodes {
		if d, ok := m.NodeClockOff(now, i); ok {
			off = append(off, d)
		}
	}
	if len(off) < m.majority() {
		return 0, false
	}
	return median(off), true
}

// NodeClockOff returns how far this process's wall clock is ahead of one node's; false if the
// node did not report its time within the last ttl.
func (m *Machine) NodeClockOff(now clock.Now, node int) (time.Duration, bool) {
	s := &m.nodes[node].seen
	if s.clock.IsZero() || m.at(now)-s.aged > m.cfg.TTL {
		return 0, false
	}
	return s.clockOff(now), true
}
