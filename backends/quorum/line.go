package quorum

import (
	"fmt"
	"slices"
	"time"

	"salectl/backends/clock"
)

// Order is the order in which waiters for a key are served. The zero Order is Fifo.
type Order struct{ ageing time.Duration }

// Fifo serves the longest waiter first.
var Fifo = Order{}

// Priority serves the waiter with the highest priority first. One step of priority equals a
// waiting time of ageing, so that no waiter starves.
func Priority(ageing time.Duration) Order { return Order{ageing} }

// waited returns the waiting time of a ticket, including its priority.
func (o Order) waited(now time.Duration, t *ticket) time.Duration {
	return now - t.since + time.Duration(t.priority)*o.ageing
}

// ticket is a waiter for the key of a line, or its holder.
type ticket struct {
	priority int
	once     bool          // fail instead of waiting
	until    time.Duration // monotonic: end of the waiting time; 0: none
	since    time.Duration // monotonic: time of arrival
	lease    *Lease        // nil in tests of a line alone

	state ticketState
	err   error // for refused and lost
}

type ticketState int

const (
	ticketWaits ticketState = iota
	ticketHolds
	ticketRefused
	ticketLost
	ticketOver // the ticket has released the key, or has left while waiting
)

// turn is how long the key passes from waiter to waiter within a process before waiters of other
// processes get it, if there are any.
const turn = 200 * time.Millisecond

// queryTime is how long before the end of a turn the nodes are queried for other waiters, and how
// long after the end their answers still count.
const queryTime = 10 * time.Millisecond

// line is one process's queue for a key, with its holder. Only the line calls the nodes, whatever
// its length, and it passes the key on without calling them. It is a step machine, like the Group
// of that key that it steps.
type line struct {
	g     *Group
	key   string
	order Order

	holder  *ticket
	waiting []*ticket // next one first
	cause   *Failure  // of the last refused try

	turnEnds time.Duration // monotonic
	queried  bool          // the nodes were queried for other waiters in this turn
	resumeAt time.Duration // monotonic: time of the next Acquire, after a yield to other processes; 0: not yielding
	partAt   time.Duration // monotonic: time limit for releases while the line is empty; 0: it is not empty

	wake time.Duration // next Tick of the group
	out  lineEffects
}

// lineEffects is what the keeper must do after an input.
type lineEffects struct {
	calls  []Call
	turned []*ticket     // tickets whose state has changed
	wake   time.Duration // monotonic time of the next tick; 0: none needed
	watch  bool          // watch the key from now on, until the line is idle
	free   bool          // a majority of the nodes has confirmed the release, if there was one
	idle   bool          // the line is empty, and no release is waited for
}

// join adds a ticket to the line.
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
		l.follow(now, l.g.Acquire(now, l.key))
	}
	return l.effects(now)
}

// wanted reports whether the line has a holder or a waiter.
func (l *line) wanted() bool { return l.holder != nil || len(l.waiting) > 0 }

// leave removes a ticket, whether it waits or holds.
func (l *line) leave(now clock.Now, t *ticket) lineEffects {
	switch t.state {
	case ticketWaits:
		l.turnTo(t, ticketOver, nil)
	case ticketHolds:
		l.follow(now, l.g.Tick(now))
		if t.state == ticketHolds { // still held after the tick
			l.holder = nil
			l.turnTo(t, ticketOver, nil)
			l.handOn(now)
		}
	}
	return l.effects(now)
}

// handOn passes the key to the next waiter, or releases it on the nodes.
func (l *line) handOn(now clock.Now) {
	switch {
	case len(l.waiting) > 0 && l.goesOn(now):
		l.grant()
	case len(l.waiting) > 0:
		// The nodes notify the waiters of other processes, which then try at once. That takes
		// them as long as it took this process.
		l.resumeAt = now.Mono + 2*time.Millisecond + 2*l.g.byName[l.key].tryDuration
		l.follow(now, l.g.Release(now, "", l.key))
	}
}

// goesOn reports whether the key stays in this process: the turn has not ended, or no other
// process waits and a new turn begins. If the nodes do not report that, other processes get the
// key. A process that polls and is on no list gets it when this line is empty.
func (l *line) goesOn(now clock.Now) bool {
	switch {
	case now.Mono < l.turnEnds-queryTime:
	case now.Mono < l.turnEnds:
		if !l.queried {
			l.queried = true
			l.follow(now, l.g.queryWaiters(now, l.key))
		}
	case l.queried && now.Mono < l.turnEnds+queryTime && l.g.hasNoWaiters(l.key):
		l.begins(now)
	default:
		return false
	}
	return true
}

// begins starts a turn.
func (l *line) begins(now clock.Now) { l.turnEnds, l.queried = now.Mono+turn, false }

func (l *line) grant() {
	l.holder = l.waiting[0]
	l.turnTo(l.holder, ticketHolds, nil)
}

// turnTo changes the state of a ticket.
func (l *line) turnTo(t *ticket, s ticketState, err error) {
	if t.state == ticketWaits {
		l.waiting = slices.DeleteFunc(l.waiting, func(other *ticket) bool { return other == t })
	}
	t.state, t.err = s, err
	l.out.turned = append(l.out.turned, t)
}

// refuse refuses a ticket. The error includes the nodes' answers in the last refused try, or in
// the first one, unless this process has held the key since.
func (l *line) refuse(t *ticket, why string) {
	f := &Failure{Key: l.key, Kind: ErrRefused, Votes: l.g.majority()}
	trying := l.g.byName[l.key]
	switch {
	case l.holder != nil:
		why += "; another goroutine of this process holds it"
	case l.cause != nil:
		*f = *l.cause
		why += "; " + f.Why
	case trying != nil && trying.lease != nil && !t.once:
		f.Answers = trying.failure(ErrRefused, why).Answers
	default:
		why += "; other goroutines of this process wait for it"
	}
	f.Why = why
	l.turnTo(t, ticketRefused, f)
}

// reply handles the reply to a call.
func (l *line) reply(now clock.Now, r Reply) lineEffects {
	l.follow(now, l.g.Reply(now, r))
	return l.effects(now)
}

// woken handles the notification that a node has freed a key and this process is next.
func (l *line) woken(now clock.Now) lineEffects {
	l.follow(now, l.g.Woken(now, l.key))
	return l.effects(now)
}

// tick advances the time.
func (l *line) tick(now clock.Now) lineEffects {
	l.follow(now, l.g.Tick(now))
	for _, t := range slices.Clone(l.waiting) {
		if t.until != 0 && now.Mono >= t.until {
			l.refuse(t, fmt.Sprintf("it could not be acquired within %v", t.until-t.since))
		}
	}
	if l.resumeAt != 0 && now.Mono >= l.resumeAt {
		l.resumeAt = 0
		if len(l.waiting) > 0 {
			l.follow(now, l.g.Acquire(now, l.key))
		}
	}
	return l.effects(now)
}

// follow applies the effects of the group's step.
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
				if t.once || ev.Cause.Denied() {
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
				l.follow(now, l.g.Acquire(now, l.key))
			}
		}
	}
}

// effects returns the collected effects. If the line is empty, the group releases the key.
func (l *line) effects(now clock.Now) lineEffects {
	wanted := l.wanted()
	if !wanted && l.partAt == 0 {
		l.partAt = now.Mono + 3*CallTimeout(l.g.cfg.TTL)
		l.resumeAt = 0
		l.follow(now, l.g.Release(now, "", l.key))
	}
	if len(l.waiting) > 0 && l.holder == nil {
		l.g.waiting(l.key, l.order.waited(now.Mono, l.waiting[0]))
	}
	out := l.out
	l.out = lineEffects{}
	out.free = !wanted && l.g.majorityConfirmed()
	out.idle = !wanted && (l.g.idleExceptFailed() || now.Mono >= l.partAt)
	if !out.idle {
		out.wake = clock.Soonest(l.wake, l.resumeAt, l.partAt)
		for _, t := range l.waiting {
			out.wake = clock.Soonest(out.wake, t.until)
		}
	}
	return out
}
