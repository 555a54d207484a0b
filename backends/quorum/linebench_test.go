package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// bench is a few processes with a line each on nodes that answer at once, and a
// clock that the test moves.
type bench struct {
	t     interface{ Fatalf(string, ...any) }
	now   clock.Now
	nodes []*simNode
	lines []*benchLine
	woken []*benchLine // lines with a notification under way
}

// benchLine is a line, and a shell that performs its effects.
type benchLine struct {
	*quorum.Line
	b           *bench
	m           *quorum.Machine
	waiter      string
	order       quorum.Order
	calls       []quorum.Call // not yet answered
	unreachable bool          // its calls get no reply
	wake        time.Duration
	watches     bool
	free        bool
	idle        bool
	made        int              // calls made
	inside      []*quorum.Ticket // that wait or hold, in the order in which they came
	turned      []*quorum.Ticket // whose state has changed since the last check
	tokens      int
}

func newBench(t interface{ Fatalf(string, ...any) }, nodes int, orders ...quorum.Order) *bench {
	b := &bench{t: t, now: clock.Now{Mono: time.Hour, Wall: epoch}}
	for i := range nodes {
		n := newSimNode(fmt.Sprintf("n%d", i))
		n.mark("marker")
		n.woken = func(_, next string) {
			for _, l := range b.lines {
				if l.watches && l.waiter == next {
					b.woken = append(b.woken, l)
				}
			}
		}
		b.nodes = append(b.nodes, n)
	}
	for i, order := range orders {
		l := &benchLine{b: b, waiter: fmt.Sprintf("p%d.waiter", i), order: order}
		l.begin()
		b.lines = append(b.lines, l)
	}
	return b
}

// begin gives the shell a line, as for the first who comes.
func (l *benchLine) begin() {
	cfg := quorum.Config{
		Marker: "marker", TTL: ttl, Address: l.waiter, Waiter: l.waiter,
		Token:  func() string { l.tokens++; return fmt.Sprintf("%s.%d", l.waiter, l.tokens) },
		Jitter: func() float64 { return 0.5 },
	}
	for _, n := range l.b.nodes {
		cfg.Nodes = append(cfg.Nodes, n.name)
	}
	m, err := quorum.NewMachine(cfg)
	if err != nil {
		l.b.t.Fatalf("%v", err)
	}
	l.m, l.Line = m, quorum.NewLine(m, l.order, "k")
	l.calls, l.watches, l.idle = nil, false, false
}

// did performs the effects of a step.
func (l *benchLine) did(e quorum.LineEffects) {
	l.made += len(e.Calls)
	l.calls = append(l.calls, e.Calls...)
	l.wake, l.free, l.idle = e.Wake, e.Free, e.Idle
	l.watches = l.watches || e.Watch
	for _, t := range e.Turned {
		l.turned = append(l.turned, t)
		if t.State() != "holds" {
			l.inside = slices.DeleteFunc(l.inside, func(other *quorum.Ticket) bool { return other == t })
		}
	}
	holders := 0
	for _, t := range l.inside {
		if t.State() == "holds" {
			holders++
		}
	}
	if holders > 1 || holders > 0 && l.m.State() != quorum.Held {
		l.b.t.Fatalf("%d hold while the machine is %v", holders, l.m.State())
	}
	believers := 0
	for _, l := range l.b.lines {
		if l.m.Valid(l.b.now) {
			believers++
		}
	}
	if believers > 1 {
		l.b.t.Fatalf("%d lines believe that they have the key", believers)
	}
}

// enter has somebody join whose patience ends after a while, never if that is 0.
func (l *benchLine) enter(priority int, patience time.Duration) *quorum.Ticket {
	until := time.Duration(0)
	if patience > 0 {
		until = l.b.now.Mono + patience
	}
	return l.admit(quorum.NewTicket(priority, false, until))
}

// once has somebody join who does not wait.
func (l *benchLine) once() *quorum.Ticket { return l.admit(quorum.NewTicket(0, true, 0)) }

func (l *benchLine) admit(t *quorum.Ticket) *quorum.Ticket {
	if l.idle {
		l.begin()
	}
	l.inside = append(l.inside, t)
	l.did(l.Join(l.b.now, t))
	l.b.settle()
	return t
}

func (l *benchLine) leave(t *quorum.Ticket) {
	if !l.idle {
		l.did(l.Leave(l.b.now, t))
		l.b.settle()
	}
}

// answer makes a node execute a call; with an error the reply is lost.
func (l *benchLine) answer(i int, err error) {
	c := l.calls[i]
	l.calls = slices.Delete(l.calls, i, i+1)
	r := quorum.Reply{Node: c.Node, Seq: c.Seq, Err: err}
	n, at := l.b.nodes[c.Node], l.b.now.Wall.Sub(epoch)
	if c.Vote != nil {
		r.Ballot = n.vote(at, *c.Vote)
	} else {
		n.release(at, c.Release)
	}
	if !l.idle {
		l.did(l.Reply(l.b.now, r))
	}
}

// settle delivers all replies and notifications until none is left.
func (b *bench) settle() {
	for again := true; again; {
		again = false
		for _, l := range b.lines {
			for !l.unreachable && len(l.calls) > 0 {
				l.answer(0, nil)
				again = true
			}
		}
		for _, l := range b.woken {
			again = true
			if !l.idle {
				l.did(l.Woken(b.now))
			}
		}
		b.woken = nil
	}
}

// pass lets time pass, and ticks who wants that.
func (b *bench) pass(d time.Duration) {
	for end := b.now.Mono + d; ; {
		at, next := end, -1
		for i, l := range b.lines {
			if l.wake != 0 && !l.idle && l.wake <= at {
				at, next = l.wake, i
			}
		}
		b.move(max(0, at-b.now.Mono))
		if next < 0 {
			return
		}
		b.lines[next].did(b.lines[next].Tick(b.now))
		b.settle()
	}
}

func (b *bench) move(d time.Duration) {
	b.now.Mono += d
	b.now.Wall = b.now.Wall.Add(d)
}

// are compares the states of tickets.
func (b *bench) are(t *testing.T, want string, tickets ...*quorum.Ticket) {
	t.Helper()
	var got []string
	for _, k := range tickets {
		got = append(got, k.State())
	}
	if strings.Join(got, " ") != want {
		t.Fatalf("are %v, want %v", got, want)
	}
}

// clean checks that no node has any lease or waiter.
func (b *bench) clean(t *testing.T) {
	t.Helper()
	for _, n := range b.nodes {
		if k, ok := n.has(b.now.Wall.Sub(epoch), "k"); ok {
			t.Errorf("%s has the key for %s", n.name, k.token)
		}
		if waiting := n.waiting["k"]; len(waiting) > 0 {
			t.Errorf("%s has %v on its list", n.name, waiting)
		}
	}
}

// served has each holder leave after a while, until nobody is left, and returns
// the order in which the tickets held.
func (l *benchLine) served(hold time.Duration, tickets ...*quorum.Ticket) (order []int) {
	for len(l.inside) > 0 {
		i := slices.IndexFunc(tickets, func(t *quorum.Ticket) bool { return t.State() == "holds" })
		l.b.pass(hold)
		if i >= 0 {
			order = append(order, i)
			l.leave(tickets[i])
		}
	}
	return order
}
