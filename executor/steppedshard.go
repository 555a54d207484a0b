package executor

import (
	"context"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// steppedShard is what a stepped executor has of one shard.
type steppedShard struct {
	*shard
	p       *Stepped
	news    bool          // it has had an event since it was last asked
	wakeAt  time.Duration // of its sequencer
	calling bool          // a call is under way, or waits for its turn
	listing bool          // one of the list's node is
	stopped bool
	ended   bool // and the owner knows
}

// act lets the sequencer act, if there is news or mail for it.
func (s *steppedShard) act() bool {
	select {
	case <-s.wake:
		s.news = true
	default:
	}
	if !s.news || s.stopped {
		return false
	}
	s.news = false
	e := s.next()
	s.wakeAt = e.wake
	if e.send != nil {
		s.send(e.send)
	}
	if e.list != nil {
		s.ask(e.list)
	}
	s.carry(e)
	if s.seq.mode == stopped {
		s.stopped, s.wakeAt = true, 0
		s.close()
	}
	return true
}

// send has a call made. One that loads the log takes its turn first.
func (s *steppedShard) send(r *ledger.Request) {
	s.calling = true
	if s.seq.mode != loading {
		s.p.calls = append(s.p.calls, storeCall(s.step(r), r, s.took))
		return
	}
	s.p.queued = append(s.p.queued, storeCall(s.step(r), r, func(now clock.Now, reply ledger.Reply) {
		s.p.loading--
		s.p.takeTurns()
		s.took(now, reply)
	}))
	s.p.takeTurns()
}

// ask has a call made of the node that has the shard's list.
func (s *steppedShard) ask(c *lists.Call) {
	s.listing = true
	s.p.calls = append(s.p.calls, Call{
		Node: s.node, List: true, What: "list " + c.Kind.String(), Timeout: callTimeout,
		Make: func(ctx context.Context, _ ledger.Logs, _ quorum.Node, list lists.Node) any { return c.Do(ctx, list) },
		Took: func(now clock.Now, reply any, err error) {
			answer := lists.Reply{Err: err}
			if err == nil {
				answer = reply.(lists.Reply)
			}
			s.p.now, s.listing = now, false
			if !s.stopped {
				s.news = true
				s.happens(listReplied{answer})
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
		s.replied(r)
	}
}

// step names what a request does.
func (s *steppedShard) step(r *ledger.Request) string {
	switch {
	case r.Kind == ledger.AppendRequest:
		return "append " + opsOf(s.seq.sent.Commit)
	case s.seq.sent != nil:
		return "read back"
	}
	return "read shard"
}

// opsOf names the kind of a commit's ops, "mixed" if there are several kinds. Units
// that come in are granted in the same commit to claims that wait for them.
func opsOf(c *pb.Commit) string {
	name := ""
	for _, op := range c.GetOps() {
		switch this := opOf(op); {
		case name == "", name == this:
			name = this
		case name == "in" && this == "claims":
		default:
			return "mixed"
		}
	}
	return name
}

func opOf(op *pb.Op) string {
	switch op.GetOp().(type) {
	case *pb.Op_Own:
		return "own"
	case *pb.Op_Claim:
		return "claims"
	case *pb.Op_Settle:
		return "settle"
	case *pb.Op_Out:
		return "out"
	case *pb.Op_In:
		return "in"
	case *pb.Op_Ack:
		return "ack"
	case *pb.Op_Generation:
		return "generation"
	case *pb.Op_Seal:
		return "seal"
	case *pb.Op_Rebuild:
		return "rebuild"
	}
	return "other"
}

// storeCall is a request as a Call. What the network says in place of a reply is
// the reply's error.
func storeCall(what string, r *ledger.Request, took func(clock.Now, ledger.Reply)) Call {
	return Call{
		Node: Store, What: what, Timeout: callTimeout,
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
func (p *Stepped) nodeCall(c quorum.Call) Call {
	return Call{
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
