package quorum

import (
	"fmt"
	"slices"
	"time"

	"salectl/backends/clock"
)

// Order is the strategy by which those who wait for a key are served. The zero
// Order is Fifo.
type Order struct{ ageing time.Duration }

// Fifo serves who has waited longest.
var Fifo = Order{}

// Priority serves who has the highest priority. Each step of it is worth as much
// as having waited for ageing, so that nobody waits for ever.
func Priority(ageing time.Duration) Order { return Order{ageing} }

// waited is for how long a ticket counts as having waited.
func (o Order) waited(now time.Duration, t *ticket) time.Duration {
	return now - t.since + time.Duration(t.priority)*o.ageing
}

// ticket is somebody who waits for the keys of a line, or has them.
type ticket struct {
	priority int
	once     bool          // it does not wait
	until    time.Duration // monotonic: it gives up then; 0: never
	since    time.Duration // monotonic: when it came

	state ticketState
	err   error // of refused and lost
}

type ticketState int

const (
	ticketWaits ticketState = iota
	ticketHolds
	ticketRefused
	ticketLost
	ticketOver // it has given the keys back, or did not want them any more
)

// turn is how long the keys go from one waiter to the next within a process
// before those of other processes are let in between, if any wait.
const turn = 200 * time.Millisecond

// inquiry is how long before the end of a turn the nodes are asked whether anybody
// else waits, and after it what they said is too old.
const inquiry = 10 * time.Millisecond

// line is who in one process waits for the keys of a machine, in order, and who
// has them. Only the line asks the nodes, however many wait in it, and hands the
// keys on without asking them. It is a step machine like the one that it steps.
type line struct {
	m     *Machine
	keys  []string
	order Order

	holder  *ticket
	waiting []*ticket // the next first
	cause   *Failure  // of the last try that was refused

	turnEnds time.Duration // monotonic
	inquired bool          // the nodes were asked in this turn whether anybody else waits
	resumeAt time.Duration // monotonic: when to ask again, others having been let in; 0: not waiting for that
	partAt   time.Duration // monotonic: while nobody wants anything, until when releases are waited for; 0: somebody does

	wake time.Duration // of the machine
	out  lineEffects
}

// lineEffects is what an input asks the shell to do.
type lineEffects struct {
	calls  []Call
	turned []*ticket     // whose state has changed
	wake   time.Duration // tick when the monotonic clock has come this far; 0: no need
	watch  bool          // the keys are to be watched from now on, for as long as anybody wants them
	free   bool          // a majority of the nodes has confirmed the release, if there was one
	idle   bool          // nobody wants anything, and nothing more is waited for
}

// join puts a ticket into the line.
func (l *line) join(now clock.Now, t *ticket) lineEffects {
	t.since = now.Mono
	at := slices.IndexFunc(l.waiting, func(other *ticket) bool {
		return l.order.waited(now.Mono, t) > l.order.waited(now.Mono, other)
	})
	if at < 0 {
		at = len(l.waiting)
	}
	busy := l.wanted()
	l.waiting = slices.Insert(l.waiting, at, t)
	switch {
	case t.once && busy:
		l.refuse(t, "it could not be acquired at once")
	case !busy:
		l.partAt = 0
		l.follow(now, l.m.Acquire(now, l.keys...))
	}
	return l.effects(now)
}

// wanted reports whether anybody has the keys or waits for them.
func (l *line) wanted() bool { return l.holder != nil || len(l.waiting) > 0 }

// leave takes a ticket out, whether it waits or holds.
func (l *line) leave(now clock.Now, t *ticket) lineEffects {
	switch t.state {
	case ticketWaits:
		l.turnTo(t, ticketOver, nil)
	case ticketHolds:
		l.follow(now, l.m.Tick(now))
		if t.state == ticketHolds { // it was not lost by now
			l.holder = nil
			l.turnTo(t, ticketOver, nil)
			l.handOn(now)
		}
	}
	return l.effects(now)
}

// handOn gives the keys to the next in line, or back to the nodes.
func (l *line) handOn(now clock.Now) {
	switch {
	case len(l.waiting) > 0 && l.goesOn(now):
		l.grant()
	case len(l.waiting) > 0:
		// Those of other processes are told by the nodes, and ask at once. That
		// takes them as long as it took us.
		l.resumeAt = now.Mono + 2*time.Millisecond + 2*l.m.took
		l.follow(now, l.m.Release(now))
	}
}

// goesOn reports whether the turn goes on: it has not ended yet, or nobody else waits,
// and another begins. Where nodes do not say that, others are let in. Who polls and is on
// no list gets in when nobody in this process wants the keys.
func (l *line) goesOn(now clock.Now) bool {
	switch {
	case now.Mono < l.turnEnds-inquiry:
	case now.Mono < l.turnEnds:
		if !l.inquired {
			l.inquired = true
			l.follow(now, l.m.inquire(now))
		}
	case l.inquired && now.Mono < l.turnEnds+inquiry && l.m.alone():
		l.begins(now)
	default:
		return false
	}
	return true
}

// begins begins a turn.
func (l *line) begins(now clock.Now) { l.turnEnds, l.inquired = now.Mono+turn, false }

func (l *line) grant() {
	l.holder = l.waiting[0]
	l.turnTo(l.holder, ticketHolds, nil)
}

// turnTo gives a ticket another state.
func (l *line) turnTo(t *ticket, s ticketState, err error) {
	if t.state == ticketWaits {
		l.waiting = slices.DeleteFunc(l.waiting, func(other *ticket) bool { return other == t })
	}
	t.state, t.err = s, err
	l.out.turned = append(l.out.turned, t)
}

// refuse sends a ticket away, with what the nodes said last, unless somebody in
// this process has had the keys since.
func (l *line) refuse(t *ticket, why string) {
	f := &Failure{Key: l.keys[0], Kind: ErrRefused, Votes: l.m.majority()}
	switch {
	case l.holder != nil:
		why += "; another goroutine of this process holds it"
	case l.cause != nil:
		*f = *l.cause
		why += "; " + f.Why
	default:
		why += "; other goroutines of this process wait for it"
	}
	f.Why = why
	l.turnTo(t, ticketRefused, f)
}

// reply takes the answer to a call.
func (l *line) reply(now clock.Now, r Reply) lineEffects {
	l.follow(now, l.m.Reply(now, r))
	return l.effects(now)
}

// woken takes the news that a node has freed a key and we are next.
func (l *line) woken(now clock.Now) lineEffects {
	l.follow(now, l.m.Woken(now))
	return l.effects(now)
}

// tick lets time pass.
func (l *line) tick(now clock.Now) lineEffects {
	l.follow(now, l.m.Tick(now))
	for _, t := range slices.Clone(l.waiting) {
		if t.until != 0 && now.Mono >= t.until {
			l.refuse(t, fmt.Sprintf("it could not be acquired within %v", t.until-t.since))
		}
	}
	if l.resumeAt != 0 && now.Mono >= l.resumeAt {
		l.resumeAt = 0
		if len(l.waiting) > 0 {
			l.follow(now, l.m.Acquire(now, l.keys...))
		}
	}
	return l.effects(now)
}

// follow does what follows from a step of the machine.
func (l *line) follow(now clock.Now, e Effects) {
	l.out.calls = append(l.out.calls, e.Calls...)
	l.wake = e.Wake
	for _, ev := range e.Events {
		switch ev.Kind {
		case Won:
			l.cause = nil
			if len(l.waiting) > 0 {
				l.begins(now)
				l.grant()
			}
		case Refused:
			l.cause = ev.Cause
			for _, t := range slices.Clone(l.waiting) {
				if t.once || !ev.Again {
					l.turnTo(t, ticketRefused, ev.Cause)
				}
			}
			l.out.watch = len(l.waiting) > 0
		case Losing:
			if l.holder != nil {
				t := l.holder
				l.holder = nil
				l.turnTo(t, ticketLost, ev.Cause)
			}
			if len(l.waiting) > 0 {
				l.follow(now, l.m.Acquire(now, l.keys...))
			}
		}
	}
}

// effects hands over what the shell has to do. If nobody wants anything any
// more, the machine gives back what it has.
func (l *line) effects(now clock.Now) lineEffects {
	wanted := l.wanted()
	if !wanted && l.partAt == 0 {
		l.partAt = now.Mono + 3*CallTimeout(l.m.cfg.TTL)
		l.resumeAt = 0
		l.follow(now, l.m.Release(now))
	}
	if len(l.waiting) > 0 && l.holder == nil {
		l.m.Waiting(l.order.waited(now.Mono, l.waiting[0]))
	}
	out := l.out
	l.out = lineEffects{}
	out.free = !wanted && l.m.mostFree()
	out.idle = !wanted && (l.m.parted() || now.Mono >= l.partAt)
	if !out.idle {
		out.wake = clock.Soonest(l.wake, l.resumeAt, l.partAt)
		for _, t := range l.waiting {
			out.wake = clock.Soonest(out.wake, t.until)
		}
	}
	return out
}
