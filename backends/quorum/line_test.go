package quorum_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"salectl/backends/quorum"
	_ "salectl/internal/rapidseed"
)

func TestLine(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"first come, first served": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			var tickets []*quorum.Ticket
			for i := range 5 {
				tickets = append(tickets, l.enter(i, 0)) // the priority is of no meaning
				b.pass(ms)
			}
			b.are(t, "holds waits waits waits waits", tickets...)
			if got := l.served(time.Second, tickets...); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
				t.Errorf("served in order %v", got)
			}
			b.clean(t)
		},
		"a step of priority is worth a time of waiting": func(t *testing.T) {
			b := newBench(t, 3, quorum.Priority(10*time.Second))
			l := b.lines[0]
			tickets := []*quorum.Ticket{l.enter(0, 0)}
			for _, next := range []struct {
				after    time.Duration
				priority int
			}{{0, 0}, {time.Second, 1}, {8 * time.Second, 1}, {time.Second, 1}, {0, 2}, {0, -1}} {
				b.pass(next.after)
				tickets = append(tickets, l.enter(next.priority, 0))
			}
			// 1 came at 0 s, 2 at 1 s, 3 at 9 s, 4 to 6 at 10 s; a step is worth 10 s.
			if got := l.served(ms, tickets...); !slices.Equal(got, []int{0, 5, 2, 3, 1, 4, 6}) {
				t.Errorf("served in order %v", got)
			}
		},
		"who does not wait is refused where others are": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			holder := l.enter(0, 0)
			made := l.made
			refused := l.once()
			b.are(t, "holds refused", holder, refused)
			wantWhy(t, refused, "it could not be acquired at once; another goroutine of this process holds it")
			if l.made != made {
				t.Error("the nodes were called")
			}
			l.leave(holder)
			b.are(t, "holds", l.once())
		},
		"who does not wait is refused by nodes": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Fifo)
			holder := b.lines[0].enter(0, 0)
			refused := b.lines[1].once()
			b.are(t, "holds refused", holder, refused)
			wantWhy(t, refused, "n0 has promised it to p0.waiter")
			if b.lines[1].watches {
				t.Error("the key is watched for nobody")
			}
			if !b.lines[1].idle {
				t.Error("something is left to be done")
			}
			b.lines[0].leave(holder)
			b.clean(t)
		},
		"an error after the timeout names the holder": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Fifo)
			holder := b.lines[0].enter(0, 0)
			one, two := b.lines[1].enter(0, time.Second), b.lines[1].enter(0, 3*time.Second)
			b.pass(time.Second - 1)
			b.are(t, "waits waits", one, two)
			b.pass(1)
			b.are(t, "refused waits", one, two)
			wantWhy(t, one, "it could not be acquired within 1s; too few nodes granted it", "n1 has promised it to p0.waiter")
			b.pass(2 * time.Second)
			b.are(t, "refused", two)
			if !b.lines[1].idle {
				t.Error("something is left to be done")
			}
			b.lines[0].leave(holder)
			b.clean(t)
		},
		"a wait that ends while one of us has it blames nobody else": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Fifo)
			other := b.lines[0].enter(0, 0)
			mine := b.lines[1].enter(0, 0)
			impatient := b.lines[1].enter(0, 2*time.Second)
			b.pass(time.Second)
			b.lines[0].leave(other)
			b.are(t, "over holds waits", other, mine, impatient)
			b.pass(time.Second)
			wantWhy(t, impatient, "it could not be acquired within 2s; another goroutine of this process holds it")
			var f *quorum.Failure
			if errors.As(impatient.Err(), &f) {
				if h, ok := f.Holder(); ok {
					t.Errorf("the reported holder is %+v", h)
				}
			}
		},
		"leaving the line does not disturb it": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one, two, three := l.enter(0, 0), l.enter(0, 0), l.enter(0, 0)
			l.leave(two)
			b.are(t, "holds over waits", one, two, three)
			l.leave(one)
			b.are(t, "over over holds", one, two, three)
			l.leave(one) // is nothing any more
			b.are(t, "holds", three)
			l.leave(three)
			b.clean(t)
		},
		"leaving in the middle of a try gives back what it got": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			l.unreachable = true
			only := l.enter(0, 0)
			l.answer(0, nil)
			l.leave(only)
			l.unreachable = false
			b.settle()
			b.are(t, "over", only)
			if !l.idle || !l.free {
				t.Errorf("idle %v, free %v", l.idle, l.free)
			}
			b.clean(t)
		},
		"within a turn the nodes are not called, after it the key is released": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			var tickets []*quorum.Ticket
			for range 4 {
				tickets = append(tickets, l.enter(0, 0))
			}
			made := l.made
			b.pass(100 * ms)
			l.leave(tickets[0])
			b.pass(89 * ms)
			l.leave(tickets[1])
			b.are(t, "over over holds waits", tickets...)
			if l.made != made {
				t.Errorf("%d calls to hand the key on", l.made-made)
			}
			b.pass(11 * ms)
			l.leave(tickets[2])
			b.are(t, "waits", tickets[3])
			b.clean(t)
			b.pass(2 * ms)
			b.are(t, "holds", tickets[3])
		},
		"another turn begins if nodes report no other waiter": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			l.enter(0, 0)
			made := l.made
			for range 1000 {
				l.enter(0, 0)
				b.pass(ms)
				l.leave(l.inside[0])
				b.are(t, "holds", l.inside[0])
			}
			// Once in each of five turns the holder queries and renews.
			if n := l.made - made; n > 5*len(b.nodes) {
				t.Errorf("%d calls in 5 turns", n)
			}
		},
		"if nodes do not report waiters, other processes get the key": func(t *testing.T) {
			for name, unsure := range map[string]func(*benchLine){
				"no majority answers": func(l *benchLine) { l.unreachable = true },
				"a majority does not know": func(l *benchLine) {
					for _, n := range l.b.nodes[:2] {
						n.knows = func() bool { return false }
					}
				},
				"one has somebody on its list": func(l *benchLine) {
					l.b.nodes[0].waiting = map[string]map[string]time.Duration{"k": {"other": 0}}
					l.b.nodes[1].knows = func() bool { return false }
				},
			} {
				b := newBench(t, 3, quorum.Fifo)
				l := b.lines[0]
				one, two, three := l.enter(0, 0), l.enter(0, 0), l.enter(0, 0)
				unsure(l)
				b.pass(195 * ms)
				l.leave(one)
				b.pass(5 * ms)
				l.leave(two)
				if t.Logf("%s", name); three.State() != "waits" {
					t.Errorf("%s, and the next %s", name, three.State())
				}
			}
		},
		"an answer about waiters is soon too old": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one, two, three := l.enter(0, 0), l.enter(0, 0), l.enter(0, 0)
			b.pass(195 * ms)
			l.leave(one)
			b.pass(15 * ms)
			l.leave(two)
			b.are(t, "over over waits", one, two, three)
		},
		"after a turn another process that waits comes first": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Fifo)
			ours, theirs := b.lines[0], b.lines[1]
			one, two := ours.enter(0, 0), ours.enter(0, 0)
			other := theirs.enter(0, 0)
			b.pass(time.Second)
			ours.leave(one)
			b.are(t, "over waits holds", one, two, other)
			b.pass(time.Second)
			b.are(t, "waits", two)
			theirs.leave(other)
			b.are(t, "holds over", two, other) // it was notified, and did not try by chance
			ours.leave(two)
			b.clean(t)
		},
		"among processes the longest waiter is notified": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Fifo, quorum.Fifo, quorum.Fifo)
			tickets := []*quorum.Ticket{b.lines[0].enter(0, 0)}
			for _, i := range []int{2, 3, 1} {
				tickets = append(tickets, b.lines[i].enter(0, 0))
				b.pass(time.Second)
			}
			for i, line := range []int{0, 2, 3, 1} {
				b.are(t, "holds", tickets[i])
				b.lines[line].leave(tickets[i])
			}
			b.clean(t)
		},
		"a loss takes the key from its holder only": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one, two, three := l.enter(0, 0), l.enter(0, 0), l.enter(0, 0)
			for _, n := range b.nodes {
				clear(n.keys)
			}
			b.pass(ttl/3 + ms)
			b.are(t, "lost holds waits", one, two, three)
			if !errors.Is(one.Err(), quorum.ErrLost) {
				t.Error(one.Err())
			}
			l.leave(one)
			l.leave(two)
			l.leave(three)
			b.are(t, "lost over over", one, two, three)
			b.clean(t)
		},
		"who comes during the release gets it after that": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one := l.enter(0, 0)
			l.unreachable = true
			l.leave(one)
			if l.free || l.idle {
				t.Errorf("free %v, idle %v before any node has answered", l.free, l.idle)
			}
			two := l.enter(0, 0)
			b.are(t, "waits", two)
			l.unreachable = false
			b.settle()
			b.are(t, "holds", two)
			l.leave(two)
			b.clean(t)
		},
		"free at a majority, idle at all": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one := l.enter(0, 0)
			l.unreachable = true
			l.leave(one)
			for i, want := range []struct{ free, idle bool }{{false, false}, {true, false}, {true, true}} {
				l.answer(0, nil)
				if l.free != want.free || l.idle != want.idle {
					t.Errorf("after answer %d free %v, idle %v", i, l.free, l.idle)
				}
			}
		},
		"who leaves after the time is up has lost it": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one, two := l.enter(0, 0), l.enter(0, 0)
			b.move(ttl)
			l.leave(one)
			b.are(t, "lost holds", one, two)
			l.leave(two)
			b.clean(t)
		},
		"a loss with an empty line makes no request": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one := l.enter(0, 0)
			b.move(ttl)
			l.unreachable = true
			l.did(l.Tick(b.now))
			b.are(t, "lost", one)
			for _, c := range l.calls {
				if c.Vote != nil {
					t.Errorf("node %d has a request for it", c.Node)
				}
			}
		},
		"others are let in for as long as a try takes them": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			l.did(l.Tick(b.now))
			b.move(time.Minute)
			l.unreachable = true
			one := l.enter(0, 0)
			b.pass(10 * ms)
			l.unreachable = false
			b.settle()
			b.are(t, "holds", one)
			two := l.enter(0, 0)
			b.pass(300 * ms)
			l.leave(one)
			for range 22 {
				b.are(t, "waits", two)
				l.did(l.Tick(b.now)) // early: it does no harm
				b.settle()
				b.pass(ms)
			}
			b.are(t, "holds", two)
		},
		"a ticket that does not wait is refused while others try": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			l.unreachable = true
			one, refused := l.enter(0, 0), l.once()
			b.are(t, "waits refused", one, refused)
			wantWhy(t, refused, "it could not be acquired at once; other goroutines of this process wait for it")
		},
		"a wait that ends after we had it names no older holder": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Fifo)
			other := b.lines[0].enter(0, 0)
			mine := b.lines[1].enter(0, 0)
			b.pass(time.Second)
			b.lines[0].leave(other)
			b.are(t, "holds", mine)
			impatient := b.lines[1].enter(0, time.Second+ms)
			b.pass(time.Second)
			b.lines[1].leave(mine)
			b.pass(ms) // while others are let in
			wantWhy(t, impatient, "it could not be acquired within 1.001s; other goroutines of this process wait for it")
		},
		"nodes list a line as its head counts": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo, quorum.Priority(10*time.Second))
			holder := b.lines[0].enter(0, 0)
			l := b.lines[1]
			l.enter(2, 0)
			l.unreachable = true
			for len(l.calls) == 0 {
				b.pass(ms)
			}
			if waited := l.calls[0].Vote.Requests[0].Waited; waited < 20*time.Second || waited > 21*time.Second {
				t.Errorf("waited %v", waited)
			}
			b.are(t, "holds", holder)
		},
		"what somebody wants is not free": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one := l.enter(0, 0)
			if l.free || l.idle {
				t.Errorf("free %v, idle %v", l.free, l.idle)
			}
			l.leave(one)
			if !l.free || !l.idle || l.wake != 0 {
				t.Errorf("free %v, idle %v, wake %v", l.free, l.idle, l.wake)
			}
		},
		"a node that failed to release twice is not waited for": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			one := l.enter(0, 0)
			l.unreachable = true
			l.leave(one)
			l.answer(0, nil)
			l.answer(0, nil)
			l.answer(0, errTimeout)
			if l.idle {
				t.Error("idle after the first failure")
			}
			b.pass(ttl / 16)
			if l.idle || len(l.calls) != 1 {
				t.Fatalf("idle %v, calls %v", l.idle, l.calls)
			}
			l.answer(0, errTimeout)
			if !l.idle {
				t.Error("not idle after the second")
			}
		},
		"nodes that never answer are waited for no longer than their calls": func(t *testing.T) {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			l.unreachable = true
			one := l.enter(0, 0)
			l.leave(one)
			b.pass(3*quorum.CallTimeout(ttl) - 1)
			if l.idle {
				t.Error("idle too soon")
			}
			b.pass(1)
			if !l.idle {
				t.Error("not idle")
			}
		},
	} {
		t.Run(name, test)
	}
}

func wantWhy(t *testing.T, ticket *quorum.Ticket, parts ...string) {
	t.Helper()
	var f *quorum.Failure
	if !errors.As(ticket.Err(), &f) || !errors.Is(f, quorum.ErrRefused) {
		t.Fatalf("refused with %v", ticket.Err())
	}
	wantText(t, f, parts...)
}

// A thousand who wait cost what one does.
func TestCallsPerRelease(t *testing.T) {
	for _, test := range []struct {
		hold  time.Duration
		calls int // a release, of all nodes
	}{
		{0, 0},                        // all within a turn
		{250 * ms, 2 * 3},             // each a turn of its own: a release and a ballot
		{1100 * ms, 2*3 + 3},          // and a renewal
		{5 * ms, (2*3 + 40 - 1) / 40}, // forty in a turn
	} {
		for _, users := range []int{2, 1000} {
			b := newBench(t, 3, quorum.Fifo)
			l := b.lines[0]
			var tickets []*quorum.Ticket
			for range users {
				tickets = append(tickets, l.enter(0, 0))
			}
			made := l.made
			for _, k := range tickets[:users-1] {
				for k.State() == "waits" {
					b.pass(ms)
				}
				b.pass(test.hold)
				l.leave(k)
			}
			if calls := l.made - made; calls > test.calls*(users-1) {
				t.Errorf("held for %v: %d calls for %d releases", test.hold, calls, users-1)
			}
		}
	}
}

// Whatever happens to them, at most one of those in a line holds, in order, and
// each of them comes to an end.
func TestLineKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ageing := rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "ageing")
		order := quorum.Fifo
		if ageing > 0 {
			order = quorum.Priority(ageing)
		}
		b := newBench(t, rapid.IntRange(1, 5).Draw(t, "nodes"), order, order)
		rank := map[*quorum.Ticket]time.Duration{} // who has less comes first
		check := func() {
			for _, l := range b.lines {
				for _, k := range l.turned {
					if k.State() != "holds" {
						continue
					}
					for _, other := range l.inside {
						if other.State() == "waits" && rank[other] < rank[k] {
							t.Fatalf("one with %v was served before one with %v", rank[k], rank[other])
						}
					}
				}
				l.turned = nil
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			l := rapid.SampledFrom(b.lines).Draw(t, "line")
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				priority, patience := rapid.IntRange(0, 3).Draw(t, "priority"), rapid.IntRange(0, 4).Draw(t, "patience")
				at := b.now.Mono
				k := l.enter(priority, time.Duration(patience)*time.Second)
				rank[k] = at - time.Duration(priority)*ageing
			case 2:
				at := b.now.Mono
				rank[l.once()] = at
			case 3:
				if len(l.inside) > 0 {
					l.leave(rapid.SampledFrom(l.inside).Draw(t, "ticket"))
				}
			case 4:
				b.pass(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * ms)
			case 5:
				l.unreachable = true
			case 6: // the calls under way have no answer in time
				for len(l.calls) > 0 {
					l.answer(0, errTimeout)
				}
				l.unreachable = false
				b.settle()
			case 7:
				rapid.SampledFrom(b.nodes).Draw(t, "node").restart(nil)
			}
			check()
		}
		for _, l := range b.lines {
			l.unreachable = false
		}
		b.settle()
		for range 200 {
			b.pass(100 * ms)
			check()
			for _, l := range b.lines {
				for _, k := range slices.Clone(l.inside) {
					if k.State() == "holds" {
						l.leave(k)
					}
				}
			}
		}
		for i, l := range b.lines {
			if len(l.inside) > 0 || !l.idle && l.made > 0 {
				t.Fatalf("line %d is left with %d, idle %v", i, len(l.inside), l.idle)
			}
		}
		b.pass(ttl)
		for _, n := range b.nodes {
			if k, ok := n.has(b.now.Wall.Sub(epoch), "k"); ok {
				t.Fatalf("%s has the key for %s", n.name, k.token)
			}
		}
	})
}
