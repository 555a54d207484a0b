package executor

import (
	"errors"
	"time"

	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/spec"
)

// What came of the calls of nodes: answers, and news for the sequencers.

// news is what a sequencer is to hear of one batch.
type news struct {
	shard *shard
	fill  uint64
	begun time.Duration // monotonic: when the node was asked
	news  bool          // there is something to hear
	soon  bool          // what the list gave is to be drained at once
	lost  bool
	owed  []*ticket // given something, to be answered when the ledger has it
	short []*ticket // given nothing, for the list is empty
}

// done takes in what came of a call, and answers those who can be answered now.
func (g *grabber) done(now clock.Now, c *grabCall, given []lists.Given, err error) {
	all := make([]news, len(c.batches))
	var answered []*ticket
	g.mu.Lock()
	g.under--
	for i, gs := range c.shards {
		asked, came := int64(len(c.tickets[i])), int64(0)
		for _, t := range c.tickets[i] {
			delete(gs.asks, t.User)
		}
		n := &all[i]
		n.shard, n.fill, n.begun = gs.shard, c.batches[i].Fill, c.begun
		switch {
		case err != nil:
			gs.again = now.Mono + grabPause
			gs.failed.note(now, err)
			answered = append(answered, gs.keepAsking(now, c.tickets[i])...)
		case errors.Is(given[i].Why, lists.ErrFill):
			n.lost, n.news = true, true
			if gs.fill == n.fill {
				gs.fill, gs.off = 0, now
			}
			for _, t := range c.tickets[i] {
				if !t.asked {
					t.putBack()
				}
			}
			gs.queue = append(c.tickets[i], gs.queue...)
		default:
			gs.failed, gs.seen = failure{}, max(gs.seen, given[i].At)
			fresh := g.decide(gs, c.tickets[i], given[i], n, &answered)
			if gs.fill == n.fill { // else the list was drained since, to be filled anew
				gs.given += fresh
				gs.behind += fresh
				came = fresh
			}
			// Who finds nothing wants to know whether all is sold.
			n.soon = !gs.hurried && (len(n.short) > 0 || g.backlog.large())
			n.news = n.soon || len(n.owed) > 0 || len(n.short) > 0 || fresh > 0 && !gs.told
			gs.told, gs.hurried = gs.told || n.news, gs.hurried || n.soon
		}
		g.backlog.answered(asked, came)
		if gs.shut != "" {
			g.refuse(gs, Answer{Outcome: gs.shut, RetryAfter: time.Second})
			g.backlog.behind.Add(-gs.behind)
			gs.behind = 0
		}
	}
	g.rouse()
	g.mu.Unlock()
	for _, t := range answered {
		t.tell()
	}
	for i := range all {
		if all[i].news {
			all[i].pass(now)
		}
	}
}

// keepAsking queues again those of whom it is not known what they were given: to
// ask again is safe. It returns those who have waited for too long.
func (gs *grabbed) keepAsking(now clock.Now, ts []*ticket) (given []*ticket) {
	var again []*ticket
	for _, t := range ts {
		t.asked = true
		if now.Mono-t.queuedAt < stallAfter {
			again = append(again, t)
			continue
		}
		t.answer = Answer{Outcome: Unknown, RetryAfter: time.Second}
		given = append(given, t)
	}
	gs.queue = append(again, gs.queue...)
	return given
}

// decide works out the answers to one batch. What the list gave now is recorded
// in its stream; with ack redis that is enough to answer. It returns how many
// units were given now.
func (g *grabber) decide(gs *grabbed, ts []*ticket, given lists.Given, n *news, answered *[]*ticket) (fresh int64) {
	for i, t := range ts {
		if given.Why != nil {
			t.answer = offHours(given.Why)
			*answered = append(*answered, t)
			continue
		}
		switch u := given.Units[i]; {
		case u.Number == 0:
			t.asked = false // it surely has nothing
			t.putBack()
			n.short = append(n.short, t)
			continue
		case !u.Before:
			fresh++
			t.answer = Answer{Outcome: Sold, Claim: grabClaim(gs, t.User, u.Number, given.At)}
		case u.Key == t.Key:
			// Asked again because no answer came, it may be the one that it was given to,
			// unless that was before, or it cannot be told.
			replayed := !t.asked || u.At <= t.since || t.since == 0
			t.answer = Answer{Outcome: Sold, Claim: grabClaim(gs, t.User, u.Number, u.At), Replayed: replayed}
		default:
			t.answer = Answer{Outcome: LimitReached, Claims: []Claim{grabClaim(gs, t.User, u.Number, u.At)}}
		}
		if t.fill = n.fill; g.ack == spec.AckRedis {
			*answered = append(*answered, t)
		} else {
			n.owed = append(n.owed, t)
		}
	}
	return fresh
}

// offHours is the answer where the node's clock says that it is not time.
func offHours(why error) Answer {
	if errors.Is(why, lists.ErrNotOpen) {
		return Answer{Outcome: NotOpen, RetryAfter: time.Second}
	}
	return Answer{Outcome: Closed}
}

func grabClaim(gs *grabbed, user string, unit, atUs int64) Claim {
	return Claim{
		ID: ClaimID{Shard: gs.list.Shard, Unit: unit}, User: user, Units: []int64{unit}, State: Sold, At: time.UnixMicro(atUs),
	}
}

// pass tells the sequencer. If that has ended, nobody here will know what the
// ledger says.
func (n *news) pass(now clock.Now) {
	heard := n.shard.hears(func(q *sequencer) {
		if n.lost {
			q.list.Lost(now, n.fill)
		}
		q.given(now, n.owed, n.soon)
		if len(n.short) > 0 {
			q.list.Dry(now, n.fill, n.begun)
		}
		q.claims(n.short)
	})
	if heard {
		return
	}
	for _, t := range n.owed {
		t.answer = Answer{Outcome: Unknown, RetryAfter: time.Second}
		t.tell()
	}
	for _, t := range n.short {
		if t.take() {
			t.answer = Answer{Outcome: Standby, RetryAfter: time.Second}
			t.tell()
		}
	}
}
