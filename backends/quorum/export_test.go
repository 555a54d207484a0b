package quorum

import (
	"time"

	"salectl/backends/clock"
)

// Line lets tests outside of the package step a line.
type Line struct{ line *line }

// Ticket is a ticket of a Line.
type Ticket = ticket

// LineEffects is what the shell of a Line must do after an input.
type LineEffects struct {
	Calls             []Call
	Turned            []*Ticket
	Wake              time.Duration
	Watch, Free, Idle bool
}

// NewLine returns the line of a machine's key.
func NewLine(m *Machine, order Order, key string) *Line {
	m.key = key
	return &Line{&line{g: m.Group, order: order, key: key}}
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

// Machine is a group with one key, which nodes list.
type Machine struct {
	*Group
	key string // the last one that was requested
}

func NewMachine(cfg Config) (*Machine, error) {
	cfg.Listed = true
	g, err := NewGroup(cfg)
	return &Machine{Group: g}, err
}

func (m *Machine) Acquire(now clock.Now, key string) Effects {
	m.key = key
	return m.Group.Acquire(now, key)
}

func (m *Machine) Release(now clock.Now) Effects { return m.Group.Release(now, "", m.key) }
func (m *Machine) Woken(now clock.Now) Effects   { return m.Group.Woken(now, m.key) }
func (m *Machine) Waiting(waited time.Duration)  { m.Group.waiting(m.key, waited) }

// Key returns the key.
func (m *Machine) Key() string { return m.key }

// State returns the state of the key.
func (m *Machine) State() State { return m.Group.State(m.key) }

// Validity returns the validity of the key.
func (m *Machine) Validity() Validity { return m.Group.Validity(m.key) }

// Valid reports whether the key still is ours.
func (m *Machine) Valid(now clock.Now) bool { return m.Validity().At(now) }

// ValidUntil returns the monotonic instant at which the key stops being ours, 0 if it is not.
func (m *Machine) ValidUntil() time.Duration { return m.Validity().Until() }

// Holds reports whether the key is held.
func (m *Machine) Holds(key string) bool { return m.Group.State(key) == Held }

// Unconfirmed returns the number of releases that a node has not confirmed.
func (g *Group) Unconfirmed(node int) int { return g.unconfirmed(node) }

// Machines returns for how many keys the group has a state.
func (g *Group) Machines() int { return len(g.keys) }

// Pace exposes the times at which machines of a group continue to tests outside of the package.
type Pace struct{ pace *pace }

func NewPace(cfg Config) Pace {
	p := newPace(cfg)
	return Pace{&p}
}

func (p Pace) Renewal(aged time.Duration) time.Duration { return p.pace.renewal(aged) }

func (p Pace) Pause(aged, least, most time.Duration) time.Duration {
	return p.pace.pause(aged, least, most)
}

func (p Pace) Instants() int { return len(p.pace.tries) }

// Keys returns the keys that are held, in the order of the requests.
func (g *Group) Keys() (keys []string) {
	for _, k := range g.keys {
		if k.state == Held {
			keys = append(keys, k.name)
		}
	}
	return keys
}
