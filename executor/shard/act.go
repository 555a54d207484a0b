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
func (shard *Shard) Act(do func(calls.Call)) (wake time.Duration) {
	shard.collect()
	e := shard.seq.next(shard.Clock())
	if e.Send != nil {
		do(calls.OfLogs(shard.callName(e.Send), CallTimeout, e.Send, shard.storeReplied))
	}
	if e.List != nil {
		do(calls.OfList(shard.node, "list "+e.List.Kind.String(), CallTimeout, e.List.Do, shard.listReplied,
			func(err error) lists.Reply { return lists.Reply{Err: err} }))
	}
	shard.applyEffects(e)
	if _, over := shard.Ended(); over {
		shard.close()
	}
	return e.Wake
}

// storeReplied applies the reply of the store. It delivers the tickets that the reply has answered
// before the next commit is decided.
func (shard *Shard) storeReplied(_ clock.Now, r ledger.Reply) {
	if _, over := shard.Ended(); over {
		return
	}
	shard.Apply(replied{r})
	answered := shard.seq.requests.takeAnswered()
	shard.deliverAnswered(answered)
	shard.answeredCount += len(answered)
}

// listReplied applies the reply of the list's node.
func (shard *Shard) listReplied(_ clock.Now, r lists.Reply) {
	if _, over := shard.Ended(); !over {
		shard.Apply(listReplied{r})
	}
}

// TakeAnsweredCount returns how many requests the store's replies have answered since its last call.
func (shard *Shard) TakeAnsweredCount() int {
	n := shard.answeredCount
	shard.answeredCount = 0
	return n
}

// applyEffects delivers the answers and messages of the sequencer, and publishes the shard's condition.
func (shard *Shard) applyEffects(e Effects) {
	shard.deliverAnswered(e.answered)
	for _, m := range e.messages {
		shard.post(m)
	}
	now := shard.Clock()
	stall := shard.seq.stall(now)
	if !shard.Listed {
		period := uint64(0)
		if shard.seq.mode == serving {
			period = 1
		}
		shard.ForgetDoubts(false, period)
	} else {
		drained := e.list.Refusal != nil
		shard.ForgetDoubts(drained, e.list.Fill) // before the node is called under a new fill
		shard.nodeQueue.ApplyEffects(now, e.list)
		shard.listReady.Store(drained || e.list.Fill != 0)
		stall = cmp.Or(stall, shard.nodeQueue.State(now).Stall)
	}
	shard.setBack.Store(int64(shard.seq.setBack))
	shard.serving.Store(shard.seq.mode == serving)
	shard.follows.Store(shard.seq.follows && shard.seq.mode == takingOver)
	shard.stall.Store(stall)
}

// close ends the shard, and refuses the requests that still arrive.
func (shard *Shard) close() {
	shard.serving.Store(false)
	shard.inbox.close(shard.seq.refusal)
	if shard.Listed {
		shard.nodeQueue.ShutDown(shard.seq.refusal)
	}
	shard.collect()
	shard.deliverAnswered(shard.seq.next(shard.Clock()).answered)
}

// callName returns the name of a call of the store: "read shard", "read back", or "append" and the
// kind of ops that it appends, "mixed" if there are several.
func (shard *Shard) callName(r *ledger.Request) string {
	switch {
	case r.Kind != ledger.AppendRequest && shard.seq.sent != nil:
		return "read back"
	case r.Kind != ledger.AppendRequest:
		return "read shard"
	}
	kinds := ledger.OpNames(shard.seq.sent.Commit)
	switch {
	case kinds[0] == "claim" && len(kinds) == 1:
		return "append claims"
	case len(kinds) == 1, slices.Equal(kinds, []string{"in", "claim"}): // units received go to the claims that wait for them
		return "append " + kinds[0]
	}
	return "append mixed"
}
