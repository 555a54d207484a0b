package shard

import (
	"cmp"
	"slices"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// CallTimeout is how long one call of the store or of a list's node may take. An append that takes
// longer is in doubt, and the writer reads back its slot.
const CallTimeout = 2 * time.Second

// Act processes the mail and lets the sequencer act. It passes to do the calls that the shard needs,
// before any answer is delivered: at most one call of the store and one of the list's node are under
// way. wake is the monotonic time at which Ticked is due; 0: it is not due. If the shard has ended,
// Act closes it, and no later event has an effect.
func (s *Shard) Act(do func(calls.Call)) (wake time.Duration) {
	s.collect()
	e := s.seq.next(s.Clock())
	if e.Send != nil {
		do(calls.OfLogs(s.callName(e.Send), CallTimeout, e.Send, s.storeReplied))
	}
	if e.List != nil {
		do(calls.OfList(s.node, "list "+e.List.Kind.String(), CallTimeout, e.List.Do, s.listReplied,
			func(err error) lists.Reply { return lists.Reply{Err: err} }))
	}
	s.applyEffects(e)
	if _, over := s.Ended(); over {
		s.close()
	}
	return e.Wake
}

// storeReplied applies the reply of the store. It delivers the tickets that the reply has answered
// before the next commit is decided.
func (s *Shard) storeReplied(_ clock.Now, r ledger.Reply) {
	if _, over := s.Ended(); over {
		return
	}
	s.Apply(replied{r})
	answered := s.seq.requests.takeAnswered()
	s.deliverAnswered(answered)
	s.answeredCount += len(answered)
}

// listReplied applies the reply of the list's node.
func (s *Shard) listReplied(_ clock.Now, r lists.Reply) {
	if _, over := s.Ended(); !over {
		s.Apply(listReplied{r})
	}
}

// TakeAnsweredCount returns how many requests the store's replies have answered since its last call.
func (s *Shard) TakeAnsweredCount() int {
	n := s.answeredCount
	s.answeredCount = 0
	return n
}

// applyEffects delivers the answers and messages of the sequencer, and publishes the shard's condition.
func (s *Shard) applyEffects(e Effects) {
	s.deliverAnswered(e.answered)
	for _, m := range e.messages {
		s.post(m)
	}
	now := s.Clock()
	stall := s.seq.stall(now)
	if !s.Listed {
		period := uint64(0)
		if s.seq.mode == serving {
			period = 1
		}
		s.ForgetDoubts(false, period)
	} else {
		drained := e.list.Refusal != nil
		s.ForgetDoubts(drained, e.list.Fill) // before the node is called under a new fill
		s.nodeQueue.ApplyEffects(now, e.list)
		s.listReady.Store(drained || e.list.Fill != 0)
		stall = cmp.Or(stall, s.nodeQueue.State(now).Stall)
	}
	s.setBack.Store(int64(s.seq.setBack))
	s.serving.Store(s.seq.mode == serving)
	s.follows.Store(s.seq.follows && s.seq.mode == takingOver)
	s.stall.Store(stall)
}

// close ends the shard, and refuses the requests that still arrive.
func (s *Shard) close() {
	s.serving.Store(false)
	s.inbox.close(s.seq.refusal)
	if s.Listed {
		s.nodeQueue.ShutDown(s.seq.refusal)
	}
	s.collect()
	s.deliverAnswered(s.seq.next(s.Clock()).answered)
}

// callName returns the name of a call of the store: "read shard", "read back", or "append" and the
// kind of ops that it appends, "mixed" if there are several.
func (s *Shard) callName(r *ledger.Request) string {
	switch {
	case r.Kind != ledger.AppendRequest && s.seq.sent != nil:
		return "read back"
	case r.Kind != ledger.AppendRequest:
		return "read shard"
	}
	kinds := ledger.OpNames(s.seq.sent.Commit)
	switch {
	case kinds[0] == "claim" && len(kinds) == 1:
		return "append claims"
	case len(kinds) == 1, slices.Equal(kinds, []string{"in", "claim"}): // units received go to the claims that wait for them
		return "append " + kinds[0]
	}
	return "append mixed"
}
