package listengine

import (
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/executor/request"
	"salectl/executor/shard"
)

// queue is the shard.NodeQueue of a shard with a list: the requests that wait for the node, and the counts
// of grabs that the ledger lacks. A grab is one unit that the node granted to a user. A fill is one filling of
// the list from the log, which numbers the fills; the node grants units under the present fill only.
type queue struct {
	node  *Batcher
	shard *shard.Shard
	post  func(shard.Event) bool // posts to the shard's sequencer
	list  lists.List

	fill     uint64        // fill under which the list grants units; 0: it is off
	offSince clock.Now     // since when the list has been off
	retryAt  time.Duration // monotonic: after an error, the time of the next call
	tickets  []*request.Ticket
	given    int64           // grabs in all
	failed   failure         // of the node's calls while the list is on
	refusal  *request.Answer // answer to all requests after the shard has ended; nil: it has not
	waiters  []drainWaiter   // waiting for the ledger to have the grabs

	// The grabs that the ledger lacks; see setState.
	countedFill uint64 // the fill whose grabs they are: the present one, or the last
	users       map[string]grabState
	inFlight    int // users with a call under way
	backlog     backlog
}

// Offer queues a ticket, or returns why it cannot.
func (q *queue) Offer(now clock.Now, t *request.Ticket) api.Outcome {
	q.node.mu.Lock()
	defer q.node.mu.Unlock()
	switch {
	case q.refusal != nil && q.refusal.Elsewhere: // as from the inbox of a shard that has ended
		return api.Standby
	case q.refusal != nil:
		return q.refusal.Outcome
	case q.fill == 0 && now.Since(q.offSince) >= shard.StallAfter:
		return api.NoQuorum
	case len(q.tickets)+q.inFlight >= q.node.bound, q.backlog.full():
		return api.Overloaded
	}
	q.shard.Enter(t)
	if q.tickets = append(q.tickets, t); len(q.tickets) == 1 {
		q.node.signal()
	}
	return ""
}

// MayHave reports whether a user has, or may have, a unit of the list that the ledger lacks.
func (q *queue) MayHave(user string) bool {
	q.node.mu.Lock()
	defer q.node.mu.Unlock()
	return q.mayHaveLocked(user)
}

// State implements shard.NodeQueue. It has no Stall after 2*StallAfter without a call: only a new request can
// show whether the node replies again.
func (q *queue) State(now clock.Now) shard.NodeState {
	q.node.mu.Lock()
	defer q.node.mu.Unlock()
	s := shard.NodeState{Waiting: len(q.tickets) + q.inFlight, On: q.fill != 0, Unlogged: q.backlog.unlogged}
	if f := q.failed; f.err != nil && now.Since(f.last) <= 2*shard.StallAfter {
		s.Stall = &shard.Stall{Since: f.since.Wall, Error: shard.OneLine(f.err), Node: true}
	}
	return s
}

// ApplyEffects implements shard.NodeQueue. A new fill resets the counts of grabs. Once the list has been off for
// StallAfter, ApplyEffects refuses the queued requests. While the sale is paused or closed, it answers them with
// the user's claim in the log, or with the reason why there is none.
func (q *queue) ApplyEffects(now clock.Now, e shard.ListEffects) {
	q.node.mu.Lock()
	defer q.node.unlock()
	switch {
	case q.fill == e.Fill:
	case e.Fill == 0:
		q.fill, q.offSince = 0, now
	default: // the list was filled from the ledger, which has all grabs of before
		q.resetCounts()
		q.fill, q.countedFill, q.retryAt = e.Fill, e.Fill, 0
		q.node.signal()
	}
	if q.fill == 0 && now.Since(q.offSince) >= shard.StallAfter {
		q.refuse(NodeSilent)
	}
	for _, user := range e.LoggedUsers {
		q.setLogged(user)
	}
	q.tickets = append(q.tickets, e.Requeued...)
	if len(e.LoggedUsers)+len(e.Requeued) > 0 {
		q.node.signal()
	}
	switch {
	case q.refusal != nil:
		q.refuse(*q.refusal)
	case e.Refusal != nil:
		q.failed = failure{}      // no later call could clear it
		if q.backlog.size() > 0 { // the ledger has all grabs, including those that other processes have drained
			q.resetCounts()
		}
		q.answerQueued(e.Refusal)
	}
	q.wakeWaiters()
}

// answerQueued answers the queued requests with what answer returns for each. Those for which it returns no
// outcome wait on.
func (q *queue) answerQueued(answer func(*request.Ticket) request.Answer) {
	var answered []*request.Ticket
	q.tickets = slices.DeleteFunc(q.tickets, func(t *request.Ticket) bool {
		if !t.SentToList && !t.Take() {
			return true // it was withdrawn
		}
		a := answer(t)
		if a.Outcome != "" {
			t.Answer = t.ForRequester(a)
			answered = append(answered, t)
		}
		return a.Outcome != ""
	})
	q.conclude(answered)
}

// refuse answers all queued requests of a shard. A request with an earlier call that got no reply may
// have a unit, so its answer is Undecided.
func (q *queue) refuse(a request.Answer) {
	q.answerQueued(func(t *request.Ticket) request.Answer {
		if !t.SentToList {
			return q.recallOr(t, a)
		}
		undecided := a
		undecided.Undecide()
		return undecided
	})
}

// recallOr returns the claim of a request if the log has it, else a. The node may have given the user
// a unit for the owner before; that grab came into the log when this process filled the list, while the
// request waited for the fill.
func (q *queue) recallOr(t *request.Ticket, a request.Answer) request.Answer {
	if a.Elsewhere {
		return a
	}
	if had, ok := q.shard.Recall(q.shard.Clock(), t.Request); ok && had.Accepted() {
		return had
	}
	return a
}

// conclude concludes answered tickets, and has unlock deliver them.
func (q *queue) conclude(ts []*request.Ticket) {
	if len(ts) > 0 {
		q.shard.Conclude(ts, q.mayHaveLocked)
		q.node.answered = append(q.node.answered, answered{q.shard, ts})
	}
}

// ShutDown refuses all requests of the shard from now on.
func (q *queue) ShutDown(refusal request.Answer) {
	q.node.mu.Lock()
	defer q.node.unlock()
	q.refusal, q.fill = &refusal, 0
	q.refuse(refusal)
	q.abandonCounts()
}

// abandonCounts ends the counts of grabs that the ledger lacks: this process will not receive their
// outcome. Users who have, or may have, such a grab stay in doubt.
func (q *queue) abandonCounts() {
	for user, s := range q.users {
		if !s.uncounted() {
			q.shard.KeepInDoubt(user, request.AnyKey)
		}
	}
	q.resetCounts()
	q.wakeWaiters()
}

// drainWaiter waits until the ledger has as many grabs, counted from the first.
type drainWaiter struct {
	grabs int64
	done  chan struct{}
}

// Drain implements shard.NodeQueue.
func (q *queue) Drain() <-chan struct{} {
	q.node.mu.Lock()
	defer q.node.mu.Unlock()
	w := drainWaiter{grabs: q.given, done: make(chan struct{})}
	if q.backlog.unlogged == 0 {
		close(w.done)
		return w.done
	}
	q.waiters = append(q.waiters, w)
	q.post(shard.DrainRequested{})
	return w.done
}

// wakeWaiters closes the channels of the waiters whose grabs the ledger has.
func (q *queue) wakeWaiters() {
	q.waiters = slices.DeleteFunc(q.waiters, func(w drainWaiter) bool {
		there := q.given-q.backlog.unlogged >= w.grabs
		if there {
			close(w.done)
		}
		return there
	})
}

// refuseBlocked refuses the queued requests of a shard while this process may not append to it. While
// the backlog is full, it refuses all but those that may have a unit from an earlier call.
func (q *queue) refuseBlocked(now clock.Now) {
	switch {
	case !q.shard.May(now): // its clock may be the reason
		q.refuse(request.Refusal(api.NoQuorum))
	case q.backlog.full():
		q.answerQueued(func(t *request.Ticket) request.Answer {
			if t.SentToList {
				return request.Answer{}
			}
			return q.recallOr(t, request.Refusal(api.Overloaded))
		})
	}
}

// failure is why a node's calls for a list that is on fail, since when, and the time of the last one.
type failure struct {
	since, last clock.Now
	err         error // nil: they do not
}
