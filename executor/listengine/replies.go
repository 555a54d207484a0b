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
	var answered []*request.Ticket
	g.mu.Lock()
	g.calls--
	for i, q := range c.queues {
		from := len(answered)
		n := &events[i]
		*n = shard.GrabsDone{At: now, Fill: c.Batches[i].Fill, CalledAt: c.calledAt}
		counted := q.countedFill == n.Fill // else the list was drained since, and will be filled again
		switch {
		case err != nil:
			q.retryAt = now.Mono + RetryDelay
			q.failed.record(now, err)
			sent := !errors.Is(err, quorum.ErrUnsent)
			n.Unanswered = sent
			for _, t := range c.tickets[i] {
				if sent && counted {
					q.setUnsure(t.User)
				} else {
					q.setNothingGiven(t.User)
				}
			}
			answered = append(answered, q.requeueUnanswered(now, c.tickets[i], sent)...)
		case errors.Is(given[i].Why, lists.ErrFill):
			n.FillLost = true
			if q.fill == n.Fill {
				q.fill, q.offSince = 0, now
			}
			for _, t := range c.tickets[i] {
				q.setNothingGiven(t.User)
				if !t.SentToList {
					t.PutBack()
				}
			}
			q.tickets = append(c.tickets[i], q.tickets...)
		default:
			q.failed = failure{}
			q.countGiven(c.tickets[i], given[i], counted)
			g.answerBatch(q, c.tickets[i], c.Batches[i].At, given[i], n, &answered)
			if counted {
				q.given += int64(len(n.Grabs))
			}
			// A request that got no unit waits for the log to show whether all is sold.
			n.DrainNow = len(n.Short) > 0 || q.backlog.aboveHalf()
		}
		q.shard.Conclude(answered[from:], q.mayHaveLocked)
		if q.refusal != nil {
			q.refuse(*q.refusal)
			q.abandonCounts()
		}
	}
	g.signal()
	g.unlock()
	for _, t := range answered {
		t.Complete()
	}
	for i := range events {
		if e := &events[i]; e.FillLost || e.Unanswered || e.DrainNow || len(e.Unlogged) > 0 || len(e.Grabs) > 0 {
			c.queues[i].notify(e)
		}
	}
}

// countGiven updates the backlog by the result of a batch. counted is false if the batch was of an
// earlier fill than the counts.
func (q *queue) countGiven(ts []*request.Ticket, given lists.Given, counted bool) {
	for i, t := range ts {
		if counted && given.Units[i].Number != 0 {
			q.setGiven(t.User, !given.Units[i].Before)
		} else {
			q.setNothingGiven(t.User)
		}
	}
}

// requeueUnanswered queues again the requests of a call without a reply: a repetition is safe. sent
// means that the call may have given them units. It returns the requests that have waited for
// StallAfter, with their answers, including those that were in no call yet.
func (q *queue) requeueUnanswered(now clock.Now, ts []*request.Ticket, sent bool) (over []*request.Ticket) {
	var again []*request.Ticket
	for _, t := range ts {
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
	return over
}

// NodeSilent is the answer to a request that certainly got no unit from a node that does not reply.
var NodeSilent = request.Answer{Outcome: api.NoQuorum, RetryAfter: time.Second, Message: "the node with the units does not answer"}

// answerBatch sets the answers to one batch of grabs at a time, in microseconds since 1970, and appends to answered the requests that need no commit.
// The list's stream records each unit that the list gave now; with ack redis that is enough to answer.
func (g *Batcher) answerBatch(q *queue, ts []*request.Ticket, atUs int64, given lists.Given, n *shard.GrabsDone, answered *[]*request.Ticket) {
	n.Entry = given.Entry
	for i, t := range ts {
		u := given.Units[i]
		if u.Number == 0 && given.Why != nil {
			t.Answer = outsideHours(atUs, given)
			*answered = append(*answered, t)
			continue
		}
		if u.Number == 0 {
			t.SentToList = false // it has no unit; an earlier call without a reply may still give one
			t.PutBack()
			n.Short = append(n.Short, t)
			continue
		}
		if t.Held() && (g.ack == spec.AckLedger || u.Before && u.Key != t.Key) { // else the log lacks it
			q.shard.Doubts.Drop(q.list.Shard, t.User, t.Key)
		}
		switch {
		case !u.Before:
			n.Grabs = append(n.Grabs, ledger.Grab{User: t.User, Key: t.Key, Unit: u.Number, GrantedUs: atUs})
			t.Answer = request.Answer{Outcome: api.Sold, Claim: grabClaim(q, t.User, u.Number, atUs)}
		case u.Key == t.Key:
			// For a key that this process did not mint, it is unknown which request came first.
			t.Answer = t.ForRequester(request.Answer{Outcome: api.Sold, Claim: grabClaim(q, t.User, u.Number, u.At), Replayed: true})
		case given.Why != nil:
			t.Answer = outsideHours(atUs, given)
			*answered = append(*answered, t)
			continue
		default:
			t.Answer = request.Answer{Outcome: api.LimitReached, Count: 1, Claims: []request.Claim{grabClaim(q, t.User, u.Number, u.At)}}
		}
		if t.Fill = n.Fill; g.ack == spec.AckRedis {
			*answered = append(*answered, t)
		} else {
			n.Unlogged = append(n.Unlogged, t)
		}
	}
}

// outsideHours returns the answer where the sale is not open yet, or closed.
func outsideHours(atUs int64, given lists.Given) request.Answer {
	if errors.Is(given.Why, lists.ErrNotOpen) {
		wait := time.Duration(given.OpensAt-atUs) * time.Microsecond
		return request.Answer{Outcome: api.NotOpen, OpensAt: time.UnixMicro(given.OpensAt), RetryAfter: wait}
	}
	return request.Answer{Outcome: api.Closed}
}

// grabClaim returns the claim for a unit that a list gave.
func grabClaim(q *queue, user string, unit, atUs int64) request.Claim {
	return request.Claim{
		ID: request.ClaimID{Shard: q.list.Shard, Unit: unit}, User: user, Units: []int64{unit}, State: api.Sold, At: time.UnixMicro(atUs),
	}
}

// notify posts the result of a batch to the sequencer. If the sequencer has ended, this process will not learn
// whether the ledger has the grabs; the next owner of the shard may.
func (q *queue) notify(n *shard.GrabsDone) {
	if q.post(*n) {
		return
	}
	refusal := q.shard.Refused()
	var answered []*request.Ticket
	for _, t := range n.Unlogged {
		t.Answer = request.Undecided
		t.Answer.Elsewhere = refusal.Elsewhere
		answered = append(answered, t)
	}
	for _, t := range n.Short {
		if t.Take() {
			t.Answer = refusal
			answered = append(answered, t)
		}
	}
	q.shard.ConcludeAndDeliver(answered, q.MayHave)
}
