package executor

import (
	"context"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/shard"
)

// steppedShard is what a stepped executor has of one shard.
type steppedShard struct {
	*shard.Shard
	p       *Stepped
	news    bool          // it has had an event since it was last asked
	wakeAt  time.Duration // of its sequencer
	calling bool          // a call is under way, or waits for its turn
	listing bool          // one of the list's node is
	stopped bool
	known   bool // and the owner knows
}

// act lets the sequencer act, if there is news or mail for it.
func (s *steppedShard) act() bool {
	select {
	case <-s.Mail():
		s.news = true
	default:
	}
	if !s.news || s.stopped {
		return false
	}
	s.news = false
	e := s.Next()
	s.wakeAt = e.Wake
	if e.Send != nil {
		s.send(e.Send)
	}
	if e.List != nil {
		s.ask(e.List)
	}
	s.Carry(e)
	if _, s.stopped = s.Ended(); s.stopped {
		s.wakeAt = 0
		s.Close()
	}
	return true
}

// send has a call made. One that loads the log takes its turn first.
func (s *steppedShard) send(r *ledger.Request) {
	s.calling = true
	if !s.Loading() {
		s.p.calls = append(s.p.calls, storeCall(s.Step(r), r, s.took))
		return
	}
	s.p.queued = append(s.p.queued, storeCall(s.Step(r), r, func(now clock.Now, reply ledger.Reply) {
		s.p.loading--
		s.p.takeTurns()
		s.took(now, reply)
	}))
	s.p.takeTurns()
}

// ask has a call made of the node that has the shard's list.
func (s *steppedShard) ask(c *lists.Call) {
	s.listing = true
	s.p.calls = append(s.p.calls, calls.Call{
		Node: s.p.term.node(s.Number()), List: true, What: "list " + c.Kind.String(), Timeout: callTimeout,
		Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any { return c.Do(ctx, list) },
		Took: func(now clock.Now, reply any, err error) {
			answer := lists.Reply{Err: err}
			if err == nil {
				answer = reply.(lists.Reply)
			}
			s.p.now, s.listing = now, false
			if !s.stopped {
				s.news = true
				s.Happens(shard.ListReplied{Reply: answer})
			}
		},
	})
}

// takeTurns lets those calls be made that load logs and whose turn has come.
func (p *Stepped) takeTurns() {
	n := min(len(p.queued), loadAtOnce-p.loading)
	p.calls = append(p.calls, p.queued[:n]...)
	p.queued = p.queued[n:]
	p.loading += n
}

// took takes in the reply to the call under way. A sequencer that has stopped
// meanwhile does not hear of it.
func (s *steppedShard) took(now clock.Now, r ledger.Reply) {
	s.p.now, s.calling = now, false
	if !s.stopped {
		s.news = true
		s.Replied(r)
	}
}

// storeCall is a request as a Call. What the network says in place of a reply is
// the reply's error.
func storeCall(what string, r *ledger.Request, took func(clock.Now, ledger.Reply)) calls.Call {
	return calls.Call{
		Node: calls.Store, What: what, Timeout: callTimeout,
		Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any { return r.Do(ctx, logs) },
		Took: func(now clock.Now, reply any, err error) {
			answer := ledger.Reply{Err: err}
			if err == nil {
				answer = reply.(ledger.Reply)
			}
			took(now, answer)
		},
	}
}

// nodeCall is a call of the lease's machine as a Call.
func (p *Stepped) nodeCall(c quorum.Call) calls.Call {
	return calls.Call{
		Node: c.Node, What: ballotOf(c), Timeout: c.Timeout,
		Make: func(ctx context.Context, _ ledger.Logs, node quorum.Node, _ lists.Node) any { return c.Do(ctx, node) },
		Took: func(now clock.Now, reply any, err error) {
			answer := quorum.Reply{Node: c.Node, Seq: c.Seq, Err: err}
			if err == nil {
				answer = reply.(quorum.Reply)
			}
			p.now, p.news = now, true
			p.owner.voted(now, answer)
		},
	}
}

// ballotOf names what a lock node is asked: a ballot that takes a lease anew is a
// vote, one that only extends what it holds a renewal.
func ballotOf(c quorum.Call) string {
	if c.Vote == nil {
		return "release"
	}
	for _, ask := range c.Vote.Asks {
		if !ask.Renew {
			return "vote"
		}
	}
	return "renew"
}
