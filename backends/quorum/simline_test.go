package quorum_test

import (
	"fmt"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// crowd is several users of one process who want the same key over and over, and
// the line in which they stand.
type crowd struct {
	*quorum.Line
	p       *proc
	ageing  time.Duration // 0: first come, first served
	tickets map[*quorum.Ticket]wish
	holder  *quorum.Ticket

	hold, think time.Duration // at most
	idle        bool          // nothing is left to be done
	steadfast   bool          // nobody gives up waiting

	served []int // how often each user has had the key
	last   time.Duration
	gap    time.Duration // the longest for which none of them had it
}

// wish is a ticket that waits or holds.
type wish struct {
	user, priority int
	since          time.Duration // by the clock of the process
}

// crowdIn makes a process serve users in a line.
func crowdIn(p *proc, ageing time.Duration, users int) *crowd {
	order := quorum.Fifo
	if ageing > 0 {
		order = quorum.Priority(ageing)
	}
	c := &crowd{
		Line: quorum.NewLine(p.m, order, "k0"), p: p, ageing: ageing, tickets: map[*quorum.Ticket]wish{},
		idle: true, hold: 100 * time.Millisecond, think: p.w.ttl, served: make([]int, users),
	}
	p.line = c
	return c
}

// join makes a user request the key.
func (c *crowd) join(user int) {
	if c.p.w.calm {
		return
	}
	c.p.input(fmt.Sprintf("joins %d", user), func(now clock.Now) quorum.Effects {
		rnd, until := c.p.w.rnd, time.Duration(0)
		once := !c.steadfast && rnd.IntN(8) == 0
		if !c.steadfast && rnd.IntN(4) == 0 {
			until = now.Mono + 1 + c.p.some(2*c.p.w.ttl)
		}
		mine := wish{user, rnd.IntN(3), now.Mono}
		t := quorum.NewTicket(mine.priority, once, until)
		c.tickets[t] = mine
		return c.did(c.Join(now, t))
	})
}

// did takes what a step of the line came to.
func (c *crowd) did(e quorum.LineEffects) quorum.Effects {
	for _, t := range e.Turned {
		c.turned(t)
	}
	if e.Watch {
		c.p.watch()
	}
	c.idle = e.Idle
	if e.Idle && len(c.tickets) > 0 {
		c.p.w.faultf("%s is idle with %d users", c.p.name, len(c.tickets))
	}
	return quorum.Effects{Calls: e.Calls, Wake: e.Wake}
}

func (c *crowd) turned(t *quorum.Ticket) {
	w, mine := c.p.w, c.tickets[t]
	user := mine.user
	w.logf("%s user %d %s: %v", c.p.name, user, t.State(), t.Err())
	if t.State() == "holds" {
		if c.holder != nil {
			w.faultf("%s has two holders", c.p.name)
		}
		for _, other := range c.tickets {
			if c.before(other, mine) {
				w.faultf("%s lets user %d pass before user %d", c.p.name, user, other.user)
			}
		}
		c.holder = t
		c.served[user]++
		c.gap = max(c.gap, w.now-c.last)
		w.after(c.p.some(c.hold), func() {
			c.p.input(fmt.Sprintf("leaves %d", user), func(now clock.Now) quorum.Effects { return c.did(c.Leave(now, t)) })
		})
		return
	}
	if c.holder == t {
		c.holder, c.last = nil, w.now
	}
	delete(c.tickets, t)
	w.after(c.p.some(c.think), func() { c.join(user) })
}

// before reports whether one wish counts as having waited longer than another.
func (c *crowd) before(a, b wish) bool {
	return a.since-time.Duration(a.priority)*c.ageing < b.since-time.Duration(b.priority)*c.ageing
}

// check holds the line to its promise.
func (c *crowd) check() {
	if c.holder != nil && c.p.m.State() != quorum.Held {
		c.p.w.faultf("%s has let one have what is %v", c.p.name, c.p.m.State())
	}
}

// populate lets users come.
func (c *crowd) populate() {
	for user := range c.served {
		c.p.w.after(c.p.some(c.think), func() { c.join(user) })
	}
}
