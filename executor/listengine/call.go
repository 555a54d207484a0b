package listengine

import (
	"context"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/executor/request"
)

// Call is one call of a node, with the tickets of each of its batches.
type Call struct {
	Batches  []lists.Batch
	queues   []*queue
	tickets  [][]*request.Ticket
	calledAt time.Duration // monotonic
}

// Next prepares the next call in c. It returns false if no call is due now, and the monotonic time
// from which one is; 0: not before an event.
func (g *Batcher) Next(now clock.Now, c *Call) (bool, time.Duration) {
	g.mu.Lock()
	defer g.unlock()
	*c = Call{Batches: c.Batches[:0], queues: c.queues[:0], tickets: c.tickets[:0], calledAt: now.Mono}
	if g.calls >= MaxCalls {
		return false, 0
	}
	wake, n, room := g.rebuildStuck(now), len(g.queues), maxPerCall
	for i := range n {
		q := g.queues[(g.nextQueue+i)%n]
		if len(q.tickets) > 0 {
			q.refuseBlocked(now)
		}
		switch {
		case len(q.tickets) == 0, q.fill == 0:
		case q.retryAt > now.Mono:
			wake = clock.Soonest(wake, q.retryAt)
		default:
			room -= c.add(now, q, room)
		}
	}
	if len(c.Batches) == 0 {
		return false, wake
	}
	g.nextQueue = (g.nextQueue + 1) % n
	g.calls++
	if slices.ContainsFunc(g.queues, func(q *queue) bool { return q.fill != 0 && len(q.tickets) > 0 }) {
		g.signal() // for another goroutine that makes calls
	}
	return true, 0
}

// Call returns the call that Next has prepared in c, of the node with that index. HandleReply receives
// its reply.
func (g *Batcher) Call(node int, c *Call) calls.Call {
	return calls.OfList(node, "grab", CallTimeout, func(ctx context.Context, list lists.Node) Reply {
		given, err := list.Grab(ctx, c.Batches)
		return Reply{given, err}
	}, func(now clock.Now, r Reply) { g.HandleReply(now, c, r.Given, r.Err) }, func(err error) Reply { return Reply{Err: err} })
}

// Reply is the reply of a node to a Call: the units given, by batch.
type Reply struct {
	Given []lists.Given
	Err   error
}

// maxFirstAttempts returns how many requests that were in no call yet may go into the next call. After a
// call without a reply it is one, and zero until all requests of that call have their answer: a node
// that stays silent then leaves few requests in doubt.
func (q *queue) maxFirstAttempts() int {
	switch {
	case q.failed.err == nil:
		return maxPerCall
	case q.hasRepeats():
		return 0
	}
	return 1
}

// add moves up to most requests from a shard's queue into the call, and returns how many. Requests stay in
// the queue if a call for their user is under way, if their grab would exceed the backlog's limit, or if
// they are first attempts beyond maxFirstAttempts. Withdrawn requests are removed; superseded ones are
// refused.
func (c *Call) add(now clock.Now, q *queue, most int) int {
	first := q.maxFirstAttempts()
	size := min(most, len(q.tickets))
	b := lists.Batch{
		List: q.list, Fill: q.fill, At: now.Wall.UnixMicro(), Users: make([]string, 0, size), Keys: make([]string, 0, size),
	}
	tickets := make([]*request.Ticket, 0, size)
	keep := q.tickets[:0]
	for i, t := range q.tickets {
		if len(tickets) == most {
			keep = append(keep, q.tickets[i:]...)
			break
		}
		s := q.users[t.User]
		if s&inFlight != 0 || s.uncounted() && q.backlog.room() == 0 || !t.SentToList && first == 0 {
			keep = append(keep, t) // for a later call
			continue
		}
		if !t.SentToList {
			if !t.Take() {
				continue // it was withdrawn
			}
			if t.IsSuperseded() {
				t.Answer = request.Refusal(api.NoQuorum)
				q.conclude([]*request.Ticket{t})
				continue
			}
			first--
		}
		q.setState(t.User, s, s|inFlight)
		b.Users, b.Keys = append(b.Users, t.User), append(b.Keys, t.Key)
		tickets = append(tickets, t)
	}
	clear(q.tickets[len(keep):])
	q.tickets = keep
	if len(tickets) > 0 {
		c.Batches, c.queues, c.tickets = append(c.Batches, b), append(c.queues, q), append(c.tickets, tickets)
	}
	return len(tickets)
}
