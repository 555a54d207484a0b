package listengine

import (
	"errors"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/spec"
)

// This file handles the replies of nodes: it answers requests and notifies the sequencers.

// HandleReply applies the reply to a call, and answers the requests that need no commit. given has a
// result for each batch of the call, unless err is set.
func (g *Batcher) HandleReply(now clock.Now, c *Call, given []lists.Given, err error) {
	events := make([]shard.GrabsDone, len(c.Batches)) // one for each batch
	g.mu.Lock()
	g.calls--
	for i, q := range c.queues {
		n := &events[i]
		*n = shard.GrabsDone{At: now, Fill: c.Batches[i].Fill, CalledAt: c.calledAt}
		switch {
		case err != nil:
			q.retryAt = now.Mono + RetryDelay
			if q.failed.err == nil {
				q.failed.since = now
			}
			q.failed.last, q.failed.err = now, err
			n.Unanswered = !errors.Is(err, quorum.ErrUnsent)
			q.requeueUnanswered(now, c.tickets[i], n)
		case errors.Is(given[i].Why, lists.ErrFill):
			n.FillLost = true
			if q.fill == n.Fill {
				q.fill, q.offSince = 0, now
			}
			for _, t := range c.tickets[i] {
				q.endCall(t.User, 0)
				if !t.SentToList {
					t.PutBack()
				}
			}
			q.tickets = append(c.tickets[i], q.tickets...)
		default:
			q.failed = failure{}
			q.answerBatch(c.tickets[i], c.Batches[i].At, given[i], n)
			// A request that got no unit waits for the log to show whether all is sold.
			n.DrainNow = len(n.Short) > 0 || q.backlog.aboveHalf()
		}
		if q.refusal != nil {
			q.refuse(*q.refusal)
			q.abandonCounts()
		}
	}
	g.signal()
	g.unlock()
	for i := range events {
		if e := &events[i]; e.FillLost || e.Unanswered || e.DrainNow || len(e.Unlogged) > 0 || len(e.Grabs) > 0 {
			c.queues[i].notify(e)
		}
	}
}

// requeueUnanswered queues again the requests of a call without a reply: a repetition is safe. It answers
// those that have waited for StallAfter, including those that were in no call yet.
func (q *queue) requeueUnanswered(now clock.Now, ts []*request.Ticket, n *shard.GrabsDone) {
	sent, got := n.Unanswered, grabState(0) // the call may have given them units
	if sent && q.countedFill == n.Fill {
		got = unsure
	}
	var over, again []*request.Ticket
	for _, t := range ts {
		q.endCall(t.User, got)
		if t.SentToList = t.SentToList || sent; sent {
			q.shard.AddDoubt(t) // the call may still take effect
		}
		if now.Mono-t.QueuedAt >= shard.StallAfter {
			t.Answer = NodeSilent
			if t.SentToList {
				t.Answer = request.Undecided
			}
			over = append(over, t)
			continue
		}
		if !t.SentToList {
			t.PutBack()
		}
		again = append(again, t)
	}
	for _, t := range q.tickets {
		switch {
		case t.SentToList, now.Mono-t.QueuedAt < shard.StallAfter:
			again = append(again, t)
		case t.Take():
			t.Answer = NodeSilent
			over = append(over, t)
		}
	}
	q.tickets = again
	q.conclude(over)
}

// NodeSilent is the answer to a request that certainly got no unit from a node that does not reply.
var NodeSilent = request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the node with the units does not answer"}

// answerBatch counts the units given to one batch at a time, in microseconds since 1970, and answers the requests
// that need no commit. The list's stream records each unit that the list granted now; with ack redis that is enough to
// answer.
func (q *queue) answerBatch(ts []*request.Ticket, atUs int64, given lists.Given, n *shard.GrabsDone) {
	n.Entry = given.Entry
	counted := q.countedFill == n.Fill // else the list was drained since, and will be filled again
	answered := make([]*request.Ticket, 0, len(ts))
	n.Grabs = make([]ledger.Grab, 0, len(ts))
	for i, t := range ts {
		u := given.Units[i]
		another := u.Before && u.Key != t.Key // the unit is that of another request of the user
		switch {
		case !counted || u.Number == 0:
			q.endCall(t.User, 0)
		case u.Before:
			q.endCall(t.User, givenBefore)
		default:
			q.endCall(t.User, unloggedGrab)
			q.given++
		}
		if u.Number == 0 && given.Why == nil {
			t.SentToList = false // it has no unit; an earlier call without a reply may still grant one
			t.PutBack()
			n.Short = append(n.Short, t)
			continue
		}
		if u.Number != 0 && t.Held() && (q.node.ack == spec.AckLedger || another) { // else the log lacks it
			q.shard.Doubts.Drop(q.list.Shard, t.User, t.Key)
		}
		needsCommit := q.node.ack == spec.AckLedger
		switch {
		case given.Why != nil && (u.Number == 0 || another):
			t.Answer, needsCommit = outsideHours(atUs, given), false
		case another:
			t.Answer = request.Answer{Outcome: api.LimitReached, Count: 1, Claims: []request.Claim{grabClaim(q, t.User, u.Number, u.At)}}
		case u.Before:
			// For a key that this process did not mint, it is unknown which request came first.
			t.Answer = t.ForRequester(request.Answer{Outcome: api.Sold, Claim: grabClaim(q, t.User, u.Number, u.At), Replayed: true})
		default:
			n.Grabs = append(n.Grabs, ledger.Grab{User: t.User, Key: t.Key, Unit: u.Number, GrantedUs: atUs})
			t.Answer = request.Answer{Outcome: api.Sold, Claim: grabClaim(q, t.User, u.Number, atUs)}
		}
		if t.Fill = n.Fill; needsCommit {
			n.Unlogged = append(n.Unlogged, t)
		} else {
			answered = append(answered, t)
		}
	}
	q.conclude(answered)
}

// outsideHours returns the answer where the sale is not open yet, or closed.
func outsideHours(atUs int64, given lists.Given) request.Answer {
	if errors.Is(given.Why, lists.ErrNotOpen) {
		wait := time.Duration(given.OpensAt-atUs) * time.Microsecond
		return request.Answer{Outcome: api.NotOpen, OpensAt: time.UnixMicro(given.OpensAt), RetryAfter: wait}
	}
	return request.Answer{Outcome: api.Closed}
}

// grabClaim returns the claim for a unit that a list granted.
func grabClaim(q *queue, user string, unit, atUs int64) request.Claim {
	return request.Claim{
		ID: request.ClaimID{Shard: q.list.Shard, Unit: unit}, User: user, Units: []int64{unit}, State: api.Sold, At: time.UnixMicro(atUs),
	}
}

// notify posts the result of a batch to the sequencer. If the sequencer has ended, this process will not discover
// whether the ledger has the grabs; the next owner of the shard may.
func (q *queue) notify(n *shard.GrabsDone) {
	if q.post(*n) {
		return
	}
	refusal := q.shard.Refused()
	answered := n.Unlogged
	for _, t := range n.Unlogged {
		t.Answer = refusal
		t.Answer.Undecide()
	}
	for _, t := range n.Short {
		if t.Take() {
			t.Answer = refusal
			answered = append(answered, t)
		}
	}
	q.shard.ConcludeAndDeliver(answered, q.MayHave)
}
